"""Durations like 90s, 2m or 1h30m, which a file may use instead of seconds. A plan holds seconds."""

import math
from typing import Final

from podium.patterns import lazy_pattern

EXAMPLES: Final = "90s or 1h30m"
_UNITS: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
# Each unit at most once, the longest first; at least one.
DURATION: Final = r"(?=[0-9])" + "".join(rf"(?:[0-9]+(?:\.[0-9]+)?{unit})?" for unit in _UNITS)
_WHOLE: Final = lazy_pattern(DURATION)
_PART: Final = lazy_pattern(r"([0-9.]+)([dhms])")


def seconds_of(text: str) -> int | float | None:
    """The seconds of a duration; None if the text is not one."""
    if _WHOLE.fullmatch(text) is None:
        return None
    seconds = math.fsum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    return int(seconds) if seconds.is_integer() else seconds
