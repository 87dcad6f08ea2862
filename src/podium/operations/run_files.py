"""The artifacts of a run's steps, each looked up in the run's own list.

A name from outside is compared with names of the list, and never becomes a path.
"""

import asyncio
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import IO, Final, NamedTuple

from podium.errors import InvalidId, PodiumError
from podium.files import open_regular
from podium.log.artifacts import ArtifactRef
from podium.log.runs import Run
from podium.log.times import timestamp
from podium.operations.parts import Parts
from podium.ports.artifacts import ArtifactCorrupt, ArtifactNotFound
from podium.runtime.reading import records_of
from podium.runtime.rundir import inside
from podium.runtime.step_files import recorded_in
from podium.text import shortened

_PIECE: Final = 1 << 16


class RunArtifact(NamedTuple):
    name: str
    step_id: str
    ref: ArtifactRef


async def list_artifacts(parts: Parts, tenant_id: str, run_id: str) -> list[RunArtifact]:
    """The newest of each name, sorted by name. Raises `RunNotFound`, also for another tenant's run."""
    run = await parts.store.runs.find(tenant_id, run_id)
    newest: dict[str, RunArtifact] = {}
    async for record in records_of(parts.store, run.identity.run_id):
        for one in recorded_in(record):
            if one.path is not None:
                newest[one.path] = RunArtifact(one.path, record.step_id or "", one.ref())
    return [newest[name] for name in sorted(newest)]


async def open_artifact(
    parts: Parts, tenant_id: str, run_id: str, name: str
) -> tuple[RunArtifact, AsyncIterator[bytes]]:
    """Raises `ArtifactNotFound`, or `InvalidId` for a name with a vertical bar that the run does not have. A file
    that differs from what was recorded is not returned.
    """
    run = await parts.store.runs.find(tenant_id, run_id)
    found = [one for one in await list_artifacts(parts, tenant_id, run_id) if one.name == name]
    if not found:
        if "|" in name:
            raise InvalidId(
                f"artifact {shortened(name)!r} is not a valid name: use names as GET .../artifacts lists them"
            )
        raise ArtifactNotFound(
            f"run {shortened(run_id)!r} has no artifact {shortened(name)!r}; GET .../artifacts lists those it has"
        )
    return found[0], await _content(parts, run, found[0])


async def _content(parts: Parts, run: Run, artifact: RunArtifact) -> AsyncIterator[bytes]:
    run_id = run.identity.run_id
    opened = await asyncio.to_thread(_opened, parts.directory(run_id).artifacts, artifact)
    if opened is not None:
        return _pieces(opened)
    expires_at = artifact.ref.expires_at
    is_expired = expires_at is not None and expires_at <= timestamp(parts.clock.now())
    gone = f"expired at {expires_at}" if is_expired else "is not on this host any more"
    bucket = parts.bucket_of(run_id)
    if bucket is None:
        raise ArtifactNotFound(f"the content of {shortened(artifact.name)!r} {gone}")
    try:
        return _once(await bucket.read(artifact.ref))
    except (ArtifactCorrupt, ArtifactNotFound) as error:
        missing = f"the content of {shortened(artifact.name)!r} {gone}" if is_expired else str(error)
        raise ArtifactNotFound(missing) from error


def _opened(folder: Path, artifact: RunArtifact) -> IO[bytes] | None:
    """The file, if it has the bytes that were recorded: a later step may have overwritten it."""
    try:
        opened = open_regular(inside(folder, artifact.name, what="artifact"), what="an artifact")
    except (OSError, PodiumError):
        return None
    expected = artifact.ref.sha256
    if expected is not None and _digest(opened) != expected:
        opened.close()
        return None
    opened.seek(0)
    return opened


def is_unchanged(path: Path, sha256: str) -> bool:
    """Whether it is a regular file with this content."""
    try:
        with open_regular(path, what="an artifact") as opened:
            return _digest(opened) == sha256
    except (OSError, PodiumError):
        return False


def _digest(opened: IO[bytes]) -> str:
    digest = sha256()
    while piece := opened.read(_PIECE):
        digest.update(piece)
    return digest.hexdigest()


async def _pieces(opened: IO[bytes]) -> AsyncIterator[bytes]:
    with opened:
        while piece := await asyncio.to_thread(opened.read, _PIECE):
            yield piece


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content
