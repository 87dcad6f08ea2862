"""Where large data is kept, by its content.

An artifact is named by the SHA-256 of its bytes. So it never changes, the same content is stored once, a store can
be moved or copied, and whoever reads finds out whether the bytes are those that were put.

What every store promises, and `podium.testing.artifact_promises` tests on each:

- When `put` returns, the artifact is complete and survives a loss of power; when it raises, nothing half-written
  can be seen. A log may refer to an artifact only after that.
- What is read is what was put, or `ArtifactCorrupt` is raised: always before the reader is told that it has all.
- Putting the same content again does not disturb its readers, and makes it young again: `put` counts as a use, so
  that who removes what nobody refers to (mark and sweep) spares what is just about to be referred to.

Every name that comes from outside is checked: what is no SHA-256 in lower case is not found, and no path is made
of it.
"""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Protocol

import msgspec

from podium.errors import PodiumError
from podium.log.artifacts import ArtifactRef
from podium.log.times import Timestamp


class StoredArtifact(msgspec.Struct, frozen=True):
    """What a store knows of an artifact without reading it."""

    sha256: str
    size: int
    # When it was last put, by the clock of the store; aware UTC.
    modified: datetime


class ArtifactStore(Protocol):
    async def put(
        self, chunks: AsyncIterator[bytes] | bytes, *, kind: str, expires_at: Timestamp | None = None
    ) -> ArtifactRef:
        """Store the content durably. What the iterator raises is passed on, and nothing is stored."""
        ...

    async def open(self, ref: ArtifactRef) -> AsyncIterator[bytes]:
        """The content, piece by piece. A missing artifact is noticed here, a damaged one while reading."""
        ...

    async def read(self, ref: ArtifactRef) -> bytes:
        """The whole content, verified."""
        ...

    async def exists(self, ref: ArtifactRef) -> bool:
        """Whether it is there; says nothing about its bytes."""
        ...

    async def delete(self, sha256: str, *, unless_modified_since: datetime | None = None) -> bool:
        """Remove an artifact; False if it was not there, or was put (again) since that moment."""
        ...

    def list(self) -> AsyncIterator[StoredArtifact]:
        """Every artifact, in no particular order; those that come or go meanwhile may be in it or not."""
        ...


class ArtifactBucket(Protocol):
    """Keeps what the steps of all runs leave, where other machines reach it: a store for each run."""

    def __str__(self) -> str:
        """Its address, for people."""
        ...

    def store(self, name: str) -> ArtifactStore:
        """The part of it with this name, such as `run id/event id`."""
        ...

    def holding(self, ref: ArtifactRef) -> ArtifactStore | None:
        """The store that the URI of a reference names, here or in another bucket; None if it names none."""
        ...

    async def remove(self, name: str) -> None:
        """Remove everything in the part with this name."""
        ...

    def problem(self) -> PodiumError | None:
        """Why nothing can be written to it now. Blocks; a success is remembered for a while."""
        ...


class ArtifactNotFound(PodiumError):
    code = "ARTIFACT_NOT_FOUND"


class ArtifactCorrupt(PodiumError):
    """The bytes in the store are not those that were put."""

    code = "ARTIFACT_CORRUPT"


class ArtifactStoreUnavailable(PodiumError):
    """The store cannot read or write at the moment; nothing was acknowledged."""

    code = "ARTIFACT_STORE_UNAVAILABLE"


class BucketUnreachable(PodiumError):
    """Found before a run starts: the configured bucket cannot be written."""

    code = "ARTIFACT_BUCKET_UNREACHABLE"
