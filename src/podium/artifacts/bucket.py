"""The bucket of the configuration file: one store of artifacts for each run, below a prefix of its own.

The S3 library is an extra and is imported when the bucket is first used. Credentials, region and endpoint
come from the environment that it reads (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, ...) or from the role of the
machine.
"""

import re
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from podium.artifacts.address import S3Address
from podium.errors import PodiumError
from podium.log.artifacts import ArtifactRef
from podium.ports.artifacts import ArtifactStoreUnavailable, BucketUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from podium.artifacts.s3 import S3Artifacts
    from podium.artifacts.s3_segments import S3Segments

# A process checks at most once a minute whether the bucket can be written; after a failure, soon again.
_CHECKED_SECONDS: Final = 60.0
_FAILED_SECONDS: Final = 3.0
_MAX_STORES: Final = 64
# It comes from a log, and logs can be imported.
_URI: Final = re.compile(
    r"s3://(?P<bucket>[a-z0-9.-]{3,63})/(?P<prefix>[\w!.*'()=:@+/-]*)/(?P<folder>[0-9a-f]{2})/(?P<name>[0-9a-f]{62})",
    re.ASCII,
)


class S3Bucket:
    """An `ArtifactBucket`."""

    def __init__(self, address: S3Address, open_store: "Callable[[S3Address], S3Artifacts]") -> None:
        """`open_store` may raise, for example because the library is not installed."""
        self._address = address
        self._checked: tuple[float, PodiumError | None] | None = None
        self._store_at = lru_cache(_MAX_STORES)(open_store)

    def __str__(self) -> str:
        return str(self._address)

    def store(self, name: str) -> "S3Artifacts":
        return self._store_at(S3Address(self._address.bucket, f"{self._address.prefix}/{name}".strip("/")))

    def holding(self, ref: ArtifactRef) -> "S3Artifacts | None":
        address = _address_of(ref)
        return self._store_at(address) if address is not None else None

    def segments(self, name: str) -> "S3Segments":
        return self.store(name).segments()

    async def remove(self, name: str) -> None:
        await self.store(name).delete_all()

    def problem(self) -> PodiumError | None:
        if self._checked is not None:
            until, problem = self._checked
            if time.monotonic() < until:
                return problem
        problem = self._find_problem()
        kept = _CHECKED_SECONDS if problem is None else _FAILED_SECONDS
        self._checked = time.monotonic() + kept, problem
        return problem

    def _find_problem(self) -> PodiumError | None:
        try:
            self._store_at(self._address).check()
        except ArtifactStoreUnavailable as error:
            return BucketUnreachable(str(error))
        except PodiumError as error:
            return error
        return None


def _address_of(ref: ArtifactRef) -> S3Address | None:
    """The root of the store that created the artifact's URI: before the two parts of its SHA-256."""
    found = _URI.fullmatch(ref.uri)
    if found is None or found["folder"] + found["name"] != ref.sha256:
        return None
    return S3Address(found["bucket"], found["prefix"])
