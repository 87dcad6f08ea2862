"""Rows of docs/conformance for which no violation can be planted, each with the reason."""

from typing import Final

CANNOT: Final[dict[str, str]] = {
    "R002": "it says what is not needed, and no change of the source takes it away again; its tests run without any of it",
}
