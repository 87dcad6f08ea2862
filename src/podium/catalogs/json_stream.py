"""The objects of a list inside a large JSON text, one after the other, without holding the whole text in
memory.
"""

import codecs
import json
import re
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any, Final

_BETWEEN: Final = re.compile(r"[\s,]*")
# Limit for an incomplete object.
_MAX_PENDING: Final = 8 * 2**20


async def objects_of(name: str, chunks: AsyncIterable[bytes]) -> AsyncIterator[dict[str, Any]]:
    """The objects of the first list with this name. Raises ValueError if it does not end, or contains
    anything else.

    The name cannot occur inside a text, where quotation marks are escaped.
    """
    reader = _Reader(re.compile(rf'"{name}"\s*:\s*(\[|null)'))
    decode = codecs.getincrementaldecoder("utf-8")().decode
    async for chunk in chunks:
        for one in reader.add(decode(chunk)):
            yield one
    if not reader.is_done:
        raise ValueError(f"the list {name!r} does not end")


class _Reader:
    def __init__(self, start: re.Pattern[str]) -> None:
        self.is_done = False
        self._start: re.Pattern[str] | None = start
        self._pending = ""
        self._decode = json.JSONDecoder().raw_decode

    def add(self, text: str) -> list[dict[str, Any]]:
        """The objects that are complete now."""
        self._pending = "" if self.is_done else self._pending + text
        if self._start is not None and not self._is_at_list(self._start):
            return []
        found, place = [], 0
        while (following := self._object_at(place)) is not None:
            one, place = following
            found.append(one)
        self._pending = self._pending[place:]
        if len(self._pending) > _MAX_PENDING:
            raise ValueError("an object of the list is too large")
        return found

    def _is_at_list(self, start: re.Pattern[str]) -> bool:
        match = start.search(self._pending)
        if match is None:
            return False
        self._start = None
        self._pending = self._pending[match.end() :]
        self.is_done = match[1] == "null"
        return True

    def _object_at(self, place: int) -> tuple[dict[str, Any], int] | None:
        """The object, and where it ends; None if the list is over, or more text is needed."""
        between = _BETWEEN.match(self._pending, place)
        place = between.end() if between is not None else place
        following = self._pending[place : place + 1]
        if self.is_done or following in ("", "]"):
            self.is_done = self.is_done or following == "]"
            return None
        if following != "{":
            raise ValueError("the list holds something that is not an object")
        try:
            return self._decode(self._pending, place)
        except ValueError:
            return None
