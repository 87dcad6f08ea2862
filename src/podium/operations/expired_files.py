"""Removes the files of ended runs whose time is over (`expiresAt`); only on request, never automatically.

A file is removed from the run's directory and from its part of the bucket. The log keeps the reference, and
large values of events stay with their run. Nothing is removed that another reference of the run to the same
content still needs, or an open run that repeats steps of this one.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

from msgspec.structs import replace

from podium.errors import PodiumError, RunNotFound
from podium.log.artifacts import ArtifactKind, ArtifactRef
from podium.log.ids import RunId
from podium.log.runs import Run, RunQuery
from podium.log.times import Timestamp, timestamp
from podium.log.transitions import OPEN, TERMINAL, RunStatus
from podium.operations.parts import Parts
from podium.operations.run_files import is_unchanged
from podium.ports.artifacts import ArtifactBucket
from podium.runtime.lock import RunLock, RunLocked, no_lease
from podium.runtime.reading import queued_of, records_of
from podium.runtime.run_artifacts import part_name
from podium.runtime.rundir import PathRefused, RunDirectory, inside
from podium.runtime.spilling import spilled_refs
from podium.runtime.step_files import recorded_in


class ExpiredFile(NamedTuple):
    path: str
    sha256: str
    # Whether a bucket has a copy.
    is_copied: bool


class Expired(NamedTuple):
    run: Run
    # The names of the files that were removed, or would be.
    names: tuple[str, ...] = ()
    # What could not be removed yet.
    left_behind: str | None = None


async def prune_expired(parts: Parts, tenant_id: str, *, dry_run: bool = False) -> AsyncIterator[Expired]:
    """Remove the expired files of a tenant's ended runs. Raises what `Parts.require` raises."""
    await parts.require("run.prune", tenant_id, records=not dry_run)
    now = timestamp(parts.clock.now())
    found = [
        (run, files)
        async for run in _runs(parts, tenant_id, TERMINAL)
        if (files := await _expired_files(parts, run, now))
    ]
    if not found:
        return
    needed = await _repeated_by_open_runs(parts, tenant_id)
    for run, files in found:
        if run.identity.run_id not in needed:
            expired = await _remove(parts, run, files, dry_run=dry_run)
            if expired.names or expired.left_behind is not None:
                yield expired


async def _runs(parts: Parts, tenant_id: str, statuses: frozenset[RunStatus]) -> AsyncIterator[Run]:
    query = RunQuery(statuses=statuses, limit=200)
    while True:
        page = await parts.store.runs.page(tenant_id, query)
        for run in page.runs:
            yield run
        if page.cursor is None:
            return
        query = replace(query, cursor=page.cursor)


async def _expired_files(parts: Parts, run: Run, now: Timestamp) -> list[ExpiredFile]:
    """By name; none whose content another reference of the run still needs."""
    expired: set[ExpiredFile] = set()
    needed: set[str | None] = set()
    async for record in records_of(parts.store, run.identity.run_id):
        needed.update(ref.sha256 for ref in spilled_refs(record.payload))
        for file in recorded_in(record):
            if file.expires_at is None or file.expires_at > now:
                needed.add(file.sha256)
            elif file.path is not None and file.sha256 is not None:
                expired.add(ExpiredFile(file.path, file.sha256, file.uri is not None))
    return sorted(file for file in expired if file.sha256 not in needed)


async def _repeated_by_open_runs(parts: Parts, tenant_id: str) -> set[RunId]:
    """The runs whose results open runs were asked to reuse: an open run takes files over when it starts."""
    needed: set[RunId] = set()
    async for run in _runs(parts, tenant_id, OPEN):
        run_id: RunId | None = run.identity.run_id
        while run_id is not None:
            try:
                original = (await queued_of(parts.store, run_id, parts.values(run_id))).original_run_id
            except RunNotFound:
                break
            run_id = RunId(original) if original and original not in needed else None
            if run_id is not None:
                needed.add(run_id)
    return needed


async def _remove(parts: Parts, run: Run, files: list[ExpiredFile], *, dry_run: bool) -> Expired:
    run_id = run.identity.run_id
    directory = parts.directory(run_id)
    lock = RunLock(directory.lock, run_id) if directory.path.is_dir() and not dry_run else None
    try:
        if lock is not None:
            await lock.take(no_lease, wait=0)
    except RunLocked:
        return Expired(run)  # it is being resumed
    try:
        # It may have been resumed, or removed, since it was listed.
        if (await parts.store.get_run(run_id)).status not in TERMINAL:
            return Expired(run)
        return await _remove_files(parts, run, directory, files, dry_run=dry_run)
    except RunNotFound:
        return Expired(run)
    finally:
        if lock is not None:
            lock.release()


async def _remove_files(
    parts: Parts, run: Run, directory: RunDirectory, files: list[ExpiredFile], *, dry_run: bool
) -> Expired:
    removed: dict[str, None] = {}
    try:
        for file in files:
            if await asyncio.to_thread(_remove_local, directory, file, dry_run=dry_run):
                removed[file.path] = None
        copies = [file for file in files if file.is_copied]
        if parts.bucket is not None and copies:
            part = part_name(
                run.identity.run_id, (await parts.store.read(run.identity.run_id, limit=1))[0].event_id
            )
            for file in copies:
                if await _remove_copy(parts.bucket, part, file, dry_run=dry_run):
                    removed[file.path] = None
    except (OSError, PodiumError) as error:
        return Expired(
            run, tuple(removed), f"expired files are not removed; the next prune tries again: {error}"
        )
    return Expired(run, tuple(removed))


def _remove_local(directory: RunDirectory, file: ExpiredFile, *, dry_run: bool) -> bool:
    """False if it is not there, or is not what was recorded any more."""
    try:
        path = inside(directory.artifacts, file.path, what="artifact")
    except PathRefused:
        return False
    if not is_unchanged(path, file.sha256):
        return False
    if not dry_run:
        path.unlink(missing_ok=True)
    return True


async def _remove_copy(bucket: ArtifactBucket, part: str, file: ExpiredFile, *, dry_run: bool) -> bool:
    store = bucket.store(part)
    if dry_run:
        return await store.exists(ArtifactRef(f"sha256:{file.sha256}", ArtifactKind.FILE.value, file.sha256))
    return await store.delete(file.sha256)
