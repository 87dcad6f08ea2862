"""Truncates texts to a number of columns: names are cut in the middle, because they are identified by both
ends.
"""

from typing import Final

from podium.patterns import lazy_pattern
from podium.text import columns_of, width_of

ELLIPSIS: Final = "…"
# `[12]` of an item, `#2` of a visit.
_INDEX: Final = lazy_pattern(r"(\[[^\[\]]*\])?(#\d+)?$")


def cut(text: str, width: int) -> str:
    """Cut at the end."""
    if width_of(text) <= width:
        return text
    return _start(text, width - 1) + ELLIPSIS if width > 0 else ""


def cut_middle(text: str, width: int) -> str:
    """Cut in the middle; the index at the end is kept if it fits."""
    if width_of(text) <= width:
        return text
    found = _INDEX.search(text)
    index = found[0] if found is not None else ""
    room = width - width_of(index) - 1
    if room < 2:
        return cut(text, width)
    name = text.removesuffix(index)
    return _start(name, room - room // 2) + ELLIPSIS + _end(name, room // 2) + index


def _start(text: str, width: int) -> str:
    used = 0
    for at, character in enumerate(text):
        used += columns_of(character)
        if used > width:
            return text[:at]
    return text


def _end(text: str, width: int) -> str:
    return _start(text[::-1], width)[::-1]
