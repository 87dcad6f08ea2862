"""The folder of the configuration file: one store of artifacts for each run, below a folder of its own.

For machines that share a file system. Names of parts are ids of runs and of events, so they cannot lead out
of the folder.
"""

import shutil
from functools import lru_cache
from pathlib import Path
from typing import Final

from podium.artifacts.folder_segments import FolderSegments
from podium.artifacts.local import LocalArtifacts
from podium.artifacts.threads import in_thread
from podium.errors import PodiumError
from podium.log.artifacts import ArtifactRef
from podium.ports.artifacts import ArtifactStore, ArtifactStoreUnavailable, BucketUnreachable

_MAX_STORES: Final = 64
# Written to check whether writing is allowed.
_CHECK: Final = "podium-write-check"


class FolderBucket:
    """An `ArtifactBucket`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._store_at = lru_cache(_MAX_STORES)(LocalArtifacts)

    def __str__(self) -> str:
        return str(self._root)

    def store(self, name: str) -> ArtifactStore:
        return self._store_at(self._root / name)

    def holding(self, ref: ArtifactRef) -> None:
        """A URI of an artifact in a folder does not name the folder."""
        return

    def segments(self, name: str) -> FolderSegments:
        return FolderSegments(self._root / name)

    async def remove(self, name: str) -> None:
        try:
            await in_thread(self._remove, name)
        except OSError as error:
            raise ArtifactStoreUnavailable(
                f"{name!r} in {self._root} cannot be removed: {error.strerror or error}"
            ) from error

    def problem(self) -> PodiumError | None:
        try:
            self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
            (self._root / _CHECK).write_bytes(b"")
        except OSError as error:
            return BucketUnreachable(
                f"artifacts cannot be written to {self._root}: {error.strerror or error}. "
                "Let the user that runs Podium write there."
            )
        return None

    def _remove(self, name: str) -> None:
        part = self._root / name
        # Created again on the next access, because its cached folders no longer exist.
        self._store_at.cache_clear()
        if part.is_dir():
            shutil.rmtree(part)
        if part.parent != self._root and part.parent.is_dir() and not any(part.parent.iterdir()):
            part.parent.rmdir()
