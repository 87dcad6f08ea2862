"""Storage for the output of steps."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from podium.configuration import configuration
from podium.ports.artifacts import ArtifactBucket, ArtifactStore

if TYPE_CHECKING:
    from podium.artifacts.address import S3Address
    from podium.artifacts.s3 import S3Artifacts


def payload_store(folder: Path) -> ArtifactStore:
    """Where a run stores values that are too large for an event."""
    from podium.artifacts.local import LocalArtifacts

    return LocalArtifacts(folder)


def artifact_bucket() -> ArtifactBucket | None:
    """Where the output of steps is copied to, if the configuration names a bucket."""
    address = configuration().artifacts
    return _bucket_at(address) if address is not None else None


@cache
def _bucket_at(address: "S3Address | Path") -> ArtifactBucket:
    """One per process, so that the checks before a run and the run query it once."""
    if isinstance(address, Path):
        from podium.artifacts.folder_bucket import FolderBucket

        return FolderBucket(address)
    from podium.artifacts.bucket import S3Bucket

    return S3Bucket(address, _open_s3)


def _open_s3(address: "S3Address") -> "S3Artifacts":
    from podium.runtime.extras import ExtraMissing, install_hint

    try:
        from podium.artifacts.s3 import S3Artifacts
    except ImportError as error:
        raise ExtraMissing(
            f"`artifacts: {address}` in the configuration file: {install_hint('s3')}"
        ) from error
    return S3Artifacts(address.bucket, prefix=address.prefix)
