"""Rebuilds a lost store from run directories.

`logs/events.jsonl` is the source: it has every event as it was recorded. `run.json`, the plan, the workflow
file and the copies of large values are read from beside it. The log in a directory is written a moment after
the store's, so its end may be torn or missing: a run then continues from what is there. The start of a step
with `idempotent: false` is never missing, so such a step is in doubt rather than repeated.
"""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec

from podium.errors import PodiumError
from podium.log.events import EventType, RunIdentity
from podium.log.payloads import RunQueued, RunStarted, read_as
from podium.log.runs import NewRun
from podium.operations.transfer import EventLine, with_approval, write_of
from podium.plan.canonical import canonical_sha256
from podium.ports.store import Store
from podium.runtime.plan_file import PLAN
from podium.runtime.restoring import files_to_keep
from podium.runtime.run_file import read_run_file
from podium.runtime.rundir import RunDirectory
from podium.runtime.spilling import MakeFolder, spilled_refs, value_name
from podium.text import reason_of


class StoreExists(PodiumError):
    """A store can only be rebuilt where there is none: an existing one might be lost otherwise."""

    code = "STORE_EXISTS"


class RebuiltRun(NamedTuple):
    """The result for one run directory. Without a status the run could not be rebuilt."""

    run_id: str
    events: int
    status: str | None
    # What differs from the original run, and why.
    notes: tuple[str, ...]


async def rebuild_store(store: Store, runs: Path, folder: MakeFolder) -> list[RebuiltRun]:
    """Import every run that has a directory below `runs` into an empty store, oldest first."""
    if (await store.stats()).runs:
        raise StoreExists("the store has runs already; a store is rebuilt where there is none")
    found = [_read_log(RunDirectory(runs, path.name)) for path in sorted(runs.iterdir()) if _is_run(path)]
    found.sort(key=lambda log: log.lines[0].emitted_at if log.lines else "")
    return [await _rebuild(store, log, folder) for log in found]


def has_runs(runs: Path) -> bool:
    """Whether there is something to rebuild a store from."""
    try:
        return any(_is_run(path) for path in runs.iterdir())
    except OSError:
        return False


def _is_run(path: Path) -> bool:
    return path.is_dir() and any((path / name).exists() for name in ("logs/events.jsonl", "run.json", PLAN))


class _Log(NamedTuple):
    directory: RunDirectory
    identity: RunIdentity | None
    lines: Sequence[EventLine]
    notes: tuple[str, ...]


def _read_log(directory: RunDirectory) -> _Log:
    """The events up to the first line that is unreadable or out of order."""
    lines: list[EventLine] = []
    identity: RunIdentity | None = None
    notes: tuple[str, ...] = ()
    try:
        written = (directory.logs / "events.jsonl").read_bytes().split(b"\n")
    except OSError as error:
        return _Log(directory, None, (), (f"logs/events.jsonl cannot be read: {error.strerror}",))
    for number, text in enumerate(written, start=1):
        if not text and number == len(written):
            break
        try:
            line = msgspec.json.decode(text, type=EventLine)
            identity = identity or msgspec.json.decode(text, type=RunIdentity)
            if (line.run_id, line.run_seq) != (directory.path.name, number):
                raise ValueError(f"it is event {line.run_seq} of run {line.run_id!r}")
            lines.append(line)
        except (msgspec.DecodeError, msgspec.ValidationError, ValueError) as error:
            is_torn = number == len(written)
            notes = (
                ("partial: the last line is torn and is left out",)
                if is_torn
                else (f"partial: line {number} cannot be used ({error}); it and what follows are left out",)
            )
            break
    return _Log(directory, identity, lines, notes)


async def _rebuild(store: Store, log: _Log, folder: MakeFolder) -> RebuiltRun:
    run_id = log.directory.path.name
    if not log.lines or log.identity is None:
        return RebuiltRun(run_id, 0, None, log.notes or ("its log has no events",))
    try:
        contents = await files_to_keep(log.directory, folder)
        new = read_run_file(log.directory)
        if new is None or new.identity != log.identity:
            new = _facts_from(log, contents)
        new = with_approval(new, log.lines, contents)
        created = await store.create_run(new, [write_of(line) for line in log.lines], contents)
    except (PodiumError, OSError) as error:
        return RebuiltRun(run_id, 0, None, (*log.notes, f"it cannot be rebuilt: {reason_of(error)}"))
    return RebuiltRun(
        run_id, len(log.lines), created.run.status.value, (*log.notes, *_missing(log, contents))
    )


def _missing(log: _Log, contents: dict[str, bytes]) -> list[str]:
    missing = (
        [] if PLAN in contents else ["plan.json is missing: the run can be looked at, but not continued"]
    )
    for line in log.lines:
        missing.extend(
            f"event {line.run_seq} refers to a large value that is not in payloads/"
            for ref in spilled_refs(bytes(line.payload))
            if value_name(ref.sha256 or "") not in contents
        )
    return missing


def _facts_from(log: _Log, contents: dict[str, bytes]) -> NewRun:
    """The facts for a directory without `run.json`, as far as its events have them."""
    assert log.identity is not None
    queued, started = RunQueued(), RunStarted()
    for line in log.lines:
        if line.event_type == EventType.RUN_QUEUED:
            queued = read_as(RunQueued, line.payload)[0]
        elif line.event_type == EventType.RUN_STARTED:
            started = read_as(RunStarted, line.payload)[0]
            break
    plan = contents.get("plan.1.json", contents.get(PLAN, b""))
    metadata = {name: started.run[name] for name in ("workspace", "name") if name in started.run}
    return NewRun(
        identity=log.identity,
        plan_sha256=sha256(plan).hexdigest(),
        inputs_sha256=canonical_sha256(queued.inputs),
        metadata=msgspec.json.encode(metadata),
        created_at=log.lines[0].emitted_at,
    )
