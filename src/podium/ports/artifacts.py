"""Storage of large data, addressed by content.

An artifact is named by the SHA-256 of its bytes. So it never changes, the same content is stored once, a
store can be moved or copied, and a reader can verify that the bytes are those that were put.

What every store promises, and `podium.testing.artifact_promises` tests on each:

- When `put` returns, the artifact is complete and survives a power failure; when it raises, nothing
  incomplete is visible. A log may refer to an artifact only after that.
- A read returns what was put, or raises `ArtifactCorrupt`, always before it reports the end of the content.
- Putting the same content again does not disturb its readers, and renews it: `put` counts as a use, so that
  garbage collection (mark and sweep) spares what is about to be referred to.

Every name that comes from outside is checked: anything but a SHA-256 in lower case is not found, and is never
made into a path.
"""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Protocol

import msgspec

from podium.errors import PodiumError
from podium.log.artifacts import ArtifactRef
from podium.log.times import Timestamp
from podium.ports.logs import Segments


class StoredArtifact(msgspec.Struct, frozen=True):
    """What a store knows of an artifact without reading it."""

    sha256: str
    size: int
    # When it was last put, by the store's clock; aware UTC.
    modified: datetime


class ArtifactStore(Protocol):
    async def put(
        self, chunks: AsyncIterator[bytes] | bytes, *, kind: str, expires_at: Timestamp | None = None
    ) -> ArtifactRef:
        """Store the content durably. If the iterator raises, the error is passed on and nothing is stored."""
        ...

    async def open(self, ref: ArtifactRef) -> AsyncIterator[bytes]:
        """The content in chunks. A missing artifact is detected here, a damaged one while reading."""
        ...

    async def read(self, ref: ArtifactRef) -> bytes:
        """The whole content, verified."""
        ...

    async def exists(self, ref: ArtifactRef) -> bool:
        """Whether it exists; does not verify its bytes."""
        ...

    async def delete(self, sha256: str, *, unless_modified_since: datetime | None = None) -> bool:
        """Remove an artifact; False if it did not exist, or was put (again) since that moment."""
        ...

    def list(self) -> AsyncIterator[StoredArtifact]:
        """Every artifact, in no particular order; those added or removed during the listing may or may not be
        included.
        """
        ...


class ArtifactBucket(Protocol):
    """Stores the output of all runs' steps where other machines can reach it: one store per run."""

    def __str__(self) -> str:
        """Its address, for display."""
        ...

    def store(self, name: str) -> ArtifactStore:
        """The part of it with this name, such as `run id/event id`."""
        ...

    def holding(self, ref: ArtifactRef) -> ArtifactStore | None:
        """The store that the URI of a reference names, in this or another bucket; None if it does not name
        one.
        """
        ...

    def segments(self, name: str) -> Segments:
        """The log segments in the part with this name."""
        ...

    async def remove(self, name: str) -> None:
        """Remove everything in the part with this name."""
        ...

    def problem(self) -> PodiumError | None:
        """Why it cannot be written at present. Blocks; a success is cached for a while."""
        ...


class ArtifactNotFound(PodiumError):
    code = "ARTIFACT_NOT_FOUND"


class ArtifactCorrupt(PodiumError):
    """The bytes in the store are not those that were put."""

    code = "ARTIFACT_CORRUPT"


class ArtifactStoreUnavailable(PodiumError):
    """The store cannot read or write at present; nothing was acknowledged."""

    code = "ARTIFACT_STORE_UNAVAILABLE"


class BucketUnreachable(PodiumError):
    """Detected before a run starts: the configured bucket cannot be written."""

    code = "ARTIFACT_BUCKET_UNREACHABLE"
