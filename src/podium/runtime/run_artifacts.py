"""The output of a run's steps in the bucket of the configuration file, where other machines can reach it.

The run's directory and the store have it as well: the bucket is a copy for machines that lack the directory.
Every run has a part of its own, named by its id and the id of its first event: an id can be used again after
a run was pruned, and two stores may use one bucket. An exported run that is imported elsewhere has the same
first event, and so the same part.

An artifact is looked up in the run's own part first, by its SHA-256, then at its URI: a rerun refers to what
its original has put.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeVar

from podium.errors import PodiumError, StoreUnavailable
from podium.log.artifacts import ArtifactRef
from podium.log.ids import RunId
from podium.ports.artifacts import (
    ArtifactBucket,
    ArtifactCorrupt,
    ArtifactNotFound,
    ArtifactStore,
    ArtifactStoreUnavailable,
)
from podium.ports.logs import Segments
from podium.ports.store import EventLog
from podium.runtime.rundir import NewFile

_T = TypeVar("_T")

# How long to wait for a bucket that does not answer.
OUTAGE: Final = timedelta(seconds=60)
# Maximum number of cached runs; others are created again.
_MAX_RUNS: Final = 256
_FIRST_PAUSE: Final = 0.2
_MAX_PAUSE: Final = 5.0


class ArtifactNotStored(PodiumError):
    """The bucket did not accept an artifact within the time limit."""

    code = "ARTIFACT_NOT_STORED"


class RunArtifacts:
    """One run's part of the bucket. Failed calls are retried for `outage`, counted from the first failure."""

    def __init__(
        self, bucket: ArtifactBucket, log: EventLog, run_id: str, outage: timedelta = timedelta()
    ) -> None:
        self._bucket = bucket
        self._log = log
        self._run_id = RunId(run_id)
        self._outage = outage.total_seconds()
        self._name: str | None = None
        # By SHA-256: what this process has put.
        self._uris: dict[str, str] = {}

    async def name(self) -> str:
        """The name of the run's part. Raises `RunNotFound`."""
        if self._name is None:
            first = (await self._log.read(self._run_id, limit=1))[0]
            self._name = part_name(self._run_id, first.event_id)
        return self._name

    def uri_of(self, sha256: str) -> str | None:
        """The URI of an artifact that this process has put."""
        return self._uris.get(sha256)

    async def put(self, content: Callable[[], AsyncIterator[bytes] | bytes], kind: str) -> ArtifactRef:
        """`content`: called for every try. Raises `ArtifactNotStored`, and errors of reading the content."""

        async def put() -> ArtifactRef:
            return await (await self._own()).put(content(), kind=kind)

        try:
            ref = await self._patiently(put)
        except (ArtifactStoreUnavailable, StoreUnavailable) as error:
            waited = f" for {self._outage:g} seconds (PODIUM_ARTIFACT_OUTAGE)" if self._outage else ""
            raise ArtifactNotStored(f"{self._bucket} did not store an artifact{waited}: {error}") from error
        assert ref.sha256 is not None
        self._uris[ref.sha256] = ref.uri
        return ref

    async def read(self, ref: ArtifactRef) -> bytes:
        """Raises `ArtifactNotFound`, `ArtifactCorrupt`, `ArtifactStoreUnavailable`."""
        return await self._from_any(ref, lambda store: store.read(ref))

    async def fetch(self, ref: ArtifactRef, target: Path) -> None:
        """Fetch into a file, completely or not at all. Raises what `read` raises."""
        await self._from_any(ref, lambda store: _download(store, ref, target))

    async def take_over(self, ref: ArtifactRef, earlier: "RunArtifacts") -> None:
        """Copy what an earlier run has put: that run may be pruned. Missing artifacts are skipped."""

        async def copy(store: ArtifactStore) -> None:
            blocks = await store.open(ref)
            await (await self._own()).put(blocks, kind=ref.kind)

        async def has_it() -> bool:
            return await (await self._own()).exists(ref)

        if not await self._patiently(has_it):
            try:
                await earlier._from_any(ref, copy)
            except (ArtifactNotFound, ArtifactCorrupt):
                return

    async def log_segments(self) -> Segments:
        """The place to which the logs of its steps are copied."""
        return self._bucket.segments(f"{await self.name()}/logs")

    async def remove(self) -> None:
        await self._bucket.remove(await self.name())

    # --- stores -----------------------------------------------------------------------------------

    async def _own(self) -> ArtifactStore:
        return self._bucket.store(await self.name())

    async def _from_any(self, ref: ArtifactRef, get: Callable[[ArtifactStore], Awaitable[_T]]) -> _T:
        """From the run's own part, else from its URI."""

        async def from_any() -> _T:
            try:
                return await get(await self._own())
            except (ArtifactNotFound, ArtifactCorrupt):
                named = self._bucket.holding(ref)
                if named is None:
                    raise
                return await get(named)

        return await self._patiently(from_any)

    async def _patiently(self, call: Callable[[], Awaitable[_T]]) -> _T:
        since: float | None = None
        pause = _FIRST_PAUSE
        loop = asyncio.get_running_loop()
        while True:
            try:
                return await call()
            except (ArtifactStoreUnavailable, StoreUnavailable):
                since = loop.time() if since is None else since
                if loop.time() + pause > since + self._outage:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE)


def parts_of(
    bucket: ArtifactBucket | None, log: EventLog, outage: timedelta
) -> Callable[[str], RunArtifacts | None]:
    """By run: its part of the bucket, shared by all callers."""

    @lru_cache(_MAX_RUNS)
    def part_of(run_id: str) -> RunArtifacts | None:
        return RunArtifacts(bucket, log, run_id, outage) if bucket is not None else None

    return part_of


def part_name(run_id: str, first_event_id: str) -> str:
    return f"{run_id}/{first_event_id}"


async def _download(store: ArtifactStore, ref: ArtifactRef, target: Path) -> None:
    blocks = await store.open(ref)
    file = NewFile(target)
    try:
        async for block in blocks:
            await asyncio.to_thread(file.write, block)
    except BaseException:
        file.discard()
        raise
    await asyncio.to_thread(file.commit)
