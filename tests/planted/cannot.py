"""Rows of docs/conformance for which no violation can be planted, each with the reason."""

from typing import Final

CANNOT: Final[dict[str, str]] = {}
