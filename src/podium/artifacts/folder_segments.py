"""Segments of logs in a folder that several machines share."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ParamSpec, TypeVar

from podium.artifacts.threads import in_thread
from podium.ports.artifacts import ArtifactStoreUnavailable
from podium.ports.logs import Segment
from podium.runtime.rundir import write_atomically

P = ParamSpec("P")
T = TypeVar("T")


class FolderSegments:
    """`Segments` below a folder, which is created with the first of them."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def put(self, name: str, content: bytes) -> None:
        # Not synced: neither is the log on the host of the step.
        await self._do(write_atomically, self._root / name, content, durable=False)

    async def read(self, name: str, start: int, end: int) -> bytes:
        return await self._do(self._read, name, start, end)

    async def list(self, folder: str = "") -> Sequence[Segment]:
        return await self._do(self._list, folder)

    def _read(self, name: str, start: int, end: int) -> bytes:
        try:
            with (self._root / name).open("rb") as file:
                file.seek(start)
                return file.read(end - start)
        except FileNotFoundError:
            return b""

    def _list(self, folder: str) -> Sequence[Segment]:
        found = []
        for here, _, files in os.walk(self._root / folder):
            below = Path(here).relative_to(self._root)
            for file in files:
                # A temporary file that is about to be renamed starts with a dot.
                if not file.startswith("."):
                    state = (Path(here) / file).stat()
                    found.append(Segment(str(below / file), state.st_size, state.st_mtime))
        return found

    async def _do(self, work: Callable[P, T], *args: P.args, **keywords: P.kwargs) -> T:
        try:
            return await in_thread(work, *args, **keywords)
        except OSError as error:
            raise ArtifactStoreUnavailable(
                f"logs in {self._root} cannot be read or written: {error.strerror or error}"
            ) from error
