"""A bucket in a folder, which can be taken away."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from podium.artifacts.folder_segments import FolderSegments
from podium.artifacts.local import LocalArtifacts
from podium.errors import PodiumError
from podium.log.artifacts import ArtifactRef
from podium.log.times import Timestamp
from podium.ports.artifacts import ArtifactStoreUnavailable


class FolderBucket:
    """An `ArtifactBucket`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # How many of the next puts are refused, after so many that are not.
        self.failures = 0
        self.succeeding = 0
        self.puts = 0

    def __str__(self) -> str:
        return "folder://bucket"

    def store(self, name: str) -> "FolderPart":
        return FolderPart(self, name)

    def holding(self, ref: ArtifactRef) -> "FolderPart | None":
        name, _, rest = ref.uri.removeprefix("folder://bucket/").partition("#")
        return FolderPart(self, name) if rest else None

    def segments(self, name: str) -> FolderSegments:
        return FolderSegments(self.folder / name)

    async def remove(self, name: str) -> None:
        part = self.store(name)
        for one in [one async for one in part.list()]:
            await part.delete(one.sha256)

    def problem(self) -> PodiumError | None:
        return None


class FolderPart(LocalArtifacts):
    def __init__(self, bucket: FolderBucket, name: str) -> None:
        super().__init__(bucket.folder / name)
        self._bucket = bucket
        self._name = name

    async def put(
        self, chunks: AsyncIterator[bytes] | bytes, *, kind: str, expires_at: Timestamp | None = None
    ) -> ArtifactRef:
        self._bucket.puts += 1
        if self._bucket.succeeding:
            self._bucket.succeeding -= 1
        elif self._bucket.failures:
            self._bucket.failures -= 1
            raise ArtifactStoreUnavailable("the bucket does not answer")
        ref = await super().put(chunks, kind=kind, expires_at=expires_at)
        return msgspec.structs.replace(ref, uri=f"folder://bucket/{self._name}#{ref.sha256}")

    async def names(self) -> list[str]:
        return [one.sha256 async for one in self.list()]
