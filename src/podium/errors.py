"""The base of every error that Podium raises on purpose.

    PodiumError
    └── ModelOnexError          nodes/errors.py     what the node specification asks for
        └── InvalidContract     nodes/contract.py   a contract file with problems, each with its position

An error carries a `code` that never changes its meaning; `docs/errors.md` has a heading for each. An error
of any other type is a defect in Podium and keeps its traceback.
"""


class PodiumError(Exception):
    """Something that Podium foresaw: its text says what happened and what to do next."""

    code: str = "PODIUM_ERROR"
