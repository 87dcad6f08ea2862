"""Recreates a run's directory from the store: everything in it that follows from the log.

Plan, workflow file, large values, `state.json` and both logs are restored. The files of steps are restored if
a bucket is configured; their output is not. What is missing is reported.
"""

import contextlib
from collections.abc import Callable, Iterator

from podium.errors import PodiumError
from podium.log.artifacts import ArtifactRef
from podium.log.events import EventRecord
from podium.log.leases import Fence
from podium.log.payloads import StepEnd, payload_of
from podium.log.runs import Run
from podium.machine.commands import RunTask
from podium.ports.clock import Clock
from podium.ports.store import Store
from podium.runtime.drive import Driver
from podium.runtime.journal import Journal
from podium.runtime.lock import RunLock, RunLocked, no_lease
from podium.runtime.plan_file import PLAN, is_plan_file, load_plan
from podium.runtime.reading import records_of
from podium.runtime.run_artifacts import RunArtifacts
from podium.runtime.run_file import write_run_file
from podium.runtime.rundir import RunDirectory, write_atomically
from podium.runtime.spilling import MakeFolder, RunValues, is_value, value_name, values_of
from podium.runtime.state_file import StateFile
from podium.runtime.step_files import recorded_in, restore_step_files
from podium.runtime.tasks.order import TaskResult
from podium.runtime.world import World


async def restore_directory(
    store: Store,
    clock: Clock,
    directory: RunDirectory,
    run: Run,
    folder: MakeFolder,
    bucket: RunArtifacts | None = None,
) -> list[str] | None:
    """Recreate a lost directory; None if it is not lost, or another process is restoring it.

    Returns the files that the log mentions and that cannot be restored, by their names in the directory. A
    bucket that does not answer does not prevent reading the rest: a driver fetches from it later.
    """
    if not directory.is_lost or not await store.list_kept(run.identity.run_id):
        return None
    values = values_of(store, run.identity.run_id, directory, folder, bucket)
    lock = RunLock(directory.lock, run.identity.run_id)
    directory.make()
    try:
        await lock.take(no_lease, wait=0)
    except RunLocked:
        return None
    try:
        await write_views(store, clock, directory, run, values)
        await restore_files(store, directory, run, values(), marks=bucket is not None)
        with contextlib.suppress(PodiumError):
            await _fetch_files(store, directory, run, bucket)
        return [
            name for name in await _mentioned(store, run, directory) if not (directory.path / name).exists()
        ]
    finally:
        lock.release()


async def restore_files(
    store: Store, directory: RunDirectory, run: Run, values: RunValues, *, marks: bool
) -> None:
    """Restore what the store has for the run and its directory lacks; the plan last, so that its existence
    means that the rest exists.

    `marks`: the files of steps are fetched later.
    """
    run_id = run.identity.run_id
    if marks:
        directory.lacks_files.touch()
    names = [kept.name for kept in await store.list_kept(run_id)]
    write_run_file(directory, run)
    for name in sorted(names, key=lambda name: name == PLAN):
        if is_value(name):
            await values.copy(await store.kept(run_id, name))
        elif is_plan_file(name):
            write_atomically(directory.path / name, await store.kept(run_id, name), durable=False)


async def _fetch_files(store: Store, directory: RunDirectory, run: Run, bucket: RunArtifacts | None) -> None:
    if bucket is not None and directory.lacks_files.exists():
        await restore_step_files(store, run.identity.run_id, directory.artifacts, bucket)
        directory.lacks_files.unlink(missing_ok=True)


async def files_to_keep(directory: RunDirectory, make: MakeFolder | None) -> dict[str, bytes]:
    """Files of a directory that the store should have, too: for a run that an earlier version created."""
    files = [file for file in directory.path.iterdir() if is_plan_file(file.name)]
    contents = {file.name: file.read_bytes() for file in files}
    if make is not None and directory.payloads.is_dir():
        folder = make(directory.payloads)
        async for stored in folder.list():
            ref = ArtifactRef(f"sha256:{stored.sha256}", "payload", stored.sha256, stored.size)
            contents[value_name(stored.sha256)] = await folder.read(ref)
    return contents


async def keep_or_restore(
    store: Store,
    directory: RunDirectory,
    run: Run,
    make: MakeFolder | None,
    bucket: RunArtifacts | None = None,
) -> None:
    """Ensure that what a run needs is in the store and in its directory, copying in both directions.

    Files of steps that the directory lacks are fetched from the bucket.
    """
    run_id = run.identity.run_id
    if run.head > 1 and not await store.list_kept(run_id):
        await store.keep(run_id, await files_to_keep(directory, make))
    elif directory.is_lost:
        values = values_of(store, run_id, directory, make, bucket)()
        await restore_files(store, directory, run, values, marks=bucket is not None)
    await _fetch_files(store, directory, run, bucket)


async def write_views(
    store: Store, clock: Clock, directory: RunDirectory, run: Run, values: Callable[[], RunValues]
) -> None:
    """Write `state.json` and the logs for the current state of the log. The caller holds the run's lock."""
    plan = await load_plan(store, directory, run)
    world = World(store, clock, NoTasks(), lambda _question: False, payloads=values)
    driver = Driver(plan, run.identity, Fence(generation=0), world)
    state = StateFile(directory, plan, run.identity.run_id)
    world.state_views.append(state)
    with contextlib.closing(Journal(directory)) as journal:
        world.views.append(journal)
        await driver.replay()
        state.write_last()


async def _mentioned(store: Store, run: Run, directory: RunDirectory) -> list[str]:
    found: dict[str, None] = {}
    async for record in records_of(store, run.identity.run_id):
        if record.step_id is not None:
            found.update(dict.fromkeys(_files_of(record, directory)))
    return list(found)


def _files_of(record: EventRecord, directory: RunDirectory) -> Iterator[str]:
    """The files that the end of a step refers to: its artifacts, and its output if there was any."""
    for artifact in recorded_in(record):
        if artifact.path is not None:
            yield f"{directory.artifacts.name}/{artifact.path}"
    if b'"output"' in record.payload and payload_of(record, StepEnd).output:
        log = directory.step_file(str(record.step_id), record.logical_attempt_id, "out")
        yield str(log.relative_to(directory.path))


class NoTasks:
    """For a log that is only read: nothing is executed."""

    def start(self, task: RunTask, engine_attempt: int, done: Callable[[TaskResult], None]) -> None:
        raise AssertionError(f"{task.path} is started by a reader")

    def stop(self, path: str, attempt: int, code: str, *, force: bool) -> bool:
        return False

    async def stop_orphans(self) -> None:
        pass
