"""Cursors of the feed: positions, as text."""

from podium.errors import InvalidId
from podium.text import shortened


def position_of(cursor: str) -> int:
    """Cursors come from outside and may be any text."""
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 19):
        raise InvalidId(f"cursor {shortened(ascii(cursor))} is not valid: use one that came with the feed")
    return int(cursor)
