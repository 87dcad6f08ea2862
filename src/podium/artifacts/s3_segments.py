"""Segments of logs in an object store that supports S3."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import obstore
from obstore.store import S3Store

from podium.ports.logs import Segment


class S3Segments:
    """`Segments` below a prefix. `asking`: translates errors of requests."""

    def __init__(
        self,
        store: S3Store,
        prefix: str,
        not_found: tuple[type[Exception], ...],
        asking: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._store = store
        self._prefix = f"{prefix}/"
        self._not_found = not_found
        self._asking = asking

    async def put(self, name: str, content: bytes) -> None:
        with self._asking():
            await obstore.put_async(self._store, self._prefix + name, content)

    async def read(self, name: str, start: int, end: int) -> bytes:
        if start >= end:
            return b""
        with self._asking():
            try:
                found = await obstore.get_range_async(self._store, self._prefix + name, start=start, end=end)
            except self._not_found:
                return b""
        return bytes(found)

    async def list(self, folder: str = "") -> Sequence[Segment]:
        found = []
        prefix = f"{self._prefix}{folder}/" if folder else self._prefix
        with self._asking():
            async for page in obstore.list(self._store, prefix=prefix):
                for one in page:
                    name = one["path"].removeprefix(self._prefix)
                    found.append(Segment(name, one["size"], one["last_modified"].timestamp()))
        return found
