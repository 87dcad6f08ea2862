"""The code of every problem a file can have.

A code never changes its meaning: E1xx is syntax, E2xx references, E3xx values, E4xx structure. `docs/errors.md`
explains each one under a heading of its own, and a test keeps the two lists equal.
"""

from enum import StrEnum


class Code(StrEnum):
    """What is wrong with a place in a file."""

    INVALID_YAML = "E101"
    INVALID_UTF8 = "E102"
    NUL_BYTE = "E103"
    FILE_TOO_LARGE = "E104"
    NESTED_TOO_DEEP = "E105"
    DUPLICATE_KEY = "E106"
    ANCHOR = "E107"
    ALIAS = "E108"
    MERGE_KEY = "E109"
    TAG = "E110"
    SECOND_DOCUMENT = "E111"
    EMPTY_FILE = "E112"
    KEY_NOT_TEXT = "E113"
    CONTROL_CHARACTER = "E114"
    NUMBER_OUT_OF_RANGE = "E115"

    DUPLICATE_STEP_ID = "E201"
    STEP_WITHOUT_ID = "E202"
    DEPENDENCY_CYCLE = "E203"
    STEP_NOT_DEFINED = "E204"

    WRONG_TYPE = "E301"
    OUT_OF_BOUNDS = "E302"
    UNKNOWN_VALUE = "E303"
    RESERVED_VALUE = "E304"
    INVALID_FORMAT = "E305"
    WRONG_LENGTH = "E306"

    MISSING_KEY = "E401"
    UNKNOWN_KEY = "E402"
