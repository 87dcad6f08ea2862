"""Results that a run reuses from an earlier one: recorded with their origin, and not produced again.

The machine is not aware of it. It orders a task as usual, and gets the end that an earlier run has recorded
for it. There are three cases: a rerun from a step reuses everything before that step (`takeover.py` does most
of it); `resume --changed` reuses what has completed and would be executed with the same inputs; and a step
with `cache: true` reuses what any earlier run of its workflow has produced from the same inputs. Nothing is
ever reused from the run itself (D30).
"""

import asyncio
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from podium.errors import PodiumError
from podium.expressions.templates import render
from podium.log.events import EventRecord, EventType
from podium.log.ids import RunId
from podium.log.payloads import RecordedArtifact, StepEnd, fields_of, payload_of
from podium.log.runs import Run, RunQuery
from podium.machine.commands import RunTask
from podium.plan.loading import plan_path, walk
from podium.plan.plan import PLAIN_WORK, Plan, Step
from podium.ports.store import EventLog, Store
from podium.runtime.fingerprints import Fingerprints, digest_of
from podium.runtime.reading import READ_BATCH, records_of
from podium.runtime.run_artifacts import RunArtifacts
from podium.runtime.rundir import RunDirectory, inside, write_atomically
from podium.runtime.spilling import Values, hydrate, is_spilled
from podium.runtime.tasks.host import TaskHost
from podium.runtime.tasks.order import TaskOrder, TaskResult
from podium.runtime.world import Tasks
from podium.text import reason_of

if TYPE_CHECKING:
    from podium.runtime.beside import IsSameVisit
    from podium.runtime.continued import Continued

_ENDS = frozenset({EventType.STEP_COMPLETED, EventType.STEP_FAILED})
# How far `cache: true` looks back.
_MAX_RUNS: Final = 50
_MAX_EVENTS: Final = 20_000
# Facts of the earlier attempt that do not apply to this one: nothing was spent here.
_NOT_TAKEN_OVER: Final = ("usage", "changed")


async def results_before(
    log: EventLog, original: RunId, step: str
) -> dict[tuple[str, int], TaskResult] | None:
    """What had ended when a step was first reached; None if it never was."""
    results: dict[tuple[str, int], TaskResult] = {}
    async for record in records_of(log, original):
        if record.step_id == step:
            return results
        if record.step_id is not None and record.event_type in _ENDS:
            if payload_of(record, StepEnd).is_stopped:
                continue  # it did not end by itself
            payload = {**fields_of(record), "reusedFrom": original}
            results[record.step_id, record.logical_attempt_id] = TaskResult(record.event_type, payload)
    return None


async def results_beside(
    log: EventLog, original: RunId, plan: Plan, step: str
) -> dict[tuple[str, int], TaskResult]:
    """What completed beside the step, at any time; by the paths that the rerun uses."""
    from podium.runtime.beside import completed_beside

    found = await _records_beside(log, original, plan, step)
    if found is None:
        return {}
    return {
        (path, attempt): TaskResult(EventType.STEP_COMPLETED, {**fields_of(end), "reusedFrom": original})
        for path, records in found.of_path.items()
        for attempt, end in completed_beside(records, found.reached, found.is_same_visit)
    }


async def failures_repaired_beside(
    log: EventLog, original: RunId, plan: Plan, step: str
) -> frozenset[tuple[str | None, int]]:
    """The attempts beside the step that had failed when it was reached, and were repaired after that."""
    from podium.runtime.beside import repaired_beside

    found = await _records_beside(log, original, plan, step)
    if found is None:
        return frozenset()
    failures = [repaired_beside(one, found.reached, found.is_same_visit) for one in found.of_path.values()]
    return frozenset((one.step_id, one.logical_attempt_id) for one in failures if one is not None)


class _Beside(msgspec.Struct):
    """What is recorded beside a step, by path."""

    of_path: dict[str, list[EventRecord]]
    reached: int
    is_same_visit: "IsSameVisit"


async def _records_beside(log: EventLog, original: RunId, plan: Plan, step: str) -> _Beside | None:
    from podium.runtime.beside import beside, same_visits

    if beside(plan, step) is None:
        return None
    continued, reached = await _continued(log, original, step)
    is_beside = beside(plan, continued.uninterrupted(step))
    of_path: dict[str, list[EventRecord]] = {}
    async for record in records_of(log, original):
        path = record.step_id
        if path is not None and is_beside is not None and is_beside(continued.uninterrupted(path)):
            of_path.setdefault(continued.uninterrupted(path, reached), []).append(record)
    return _Beside(of_path, reached, same_visits(plan, continued))


async def _continued(log: EventLog, original: RunId, step: str) -> "tuple[Continued, int]":
    """Also returns the number of the record with which the step was first reached."""
    from podium.runtime.continued import Continued

    continued, reached, last = Continued(), 0, 0
    async for record in records_of(log, original):
        continued.note(record)
        last = record.run_seq
        if record.step_id == step and not reached:
            reached = last
    return continued, reached or last


class ReusingTasks:
    """`Tasks` of which some ended in an earlier run."""

    def __init__(self, tasks: Tasks, earlier: dict[tuple[str, int], TaskResult]) -> None:
        self._tasks = tasks
        self._earlier = earlier

    def start(self, task: RunTask, engine_attempt: int, done: Callable[[TaskResult], None]) -> None:
        result = self._earlier.pop((task.path, task.attempt), None)
        if result is None:
            self._tasks.start(task, engine_attempt, done)
        else:
            result.engine_attempt = engine_attempt
            asyncio.get_running_loop().call_soon(done, result)

    def stop(self, path: str, attempt: int, code: str, *, force: bool) -> bool:
        return self._tasks.stop(path, attempt, code, force=force)

    async def stop_orphans(self) -> None:
        await self._tasks.stop_orphans()


# --- results of earlier runs by their inputs ------------------------------------------------------


class Before(msgspec.Struct):
    """The run that a `resume --changed` continues: what has completed in it, by path."""

    run_id: RunId
    completed: dict[str, EventRecord] = msgspec.field(default_factory=dict)
    begun: set[str] = msgspec.field(default_factory=set)
    steps: dict[str, Step] = msgspec.field(default_factory=dict)


async def before(log: EventLog, run_id: RunId, plan: Plan | None) -> Before:
    """`plan`: the plan of that run, if it is still known."""
    found = Before(run_id, steps=dict(walk(plan.workflow)) if plan is not None else {})
    async for record in records_of(log, run_id):
        if record.step_id is not None:
            found.begun.add(record.step_id)
            if record.event_type == EventType.STEP_COMPLETED:
                found.completed[record.step_id] = record
    return found


async def cached_results(store: Store, run: Run) -> dict[str, EventRecord]:
    """What the newest runs of the same workflow before this one have completed, by fingerprint; the newest
    takes precedence.
    """
    identity = run.identity
    query = RunQuery(
        project_id=identity.project_id,
        environment_id=identity.environment_id,
        plan_id=identity.plan_id,
        limit=_MAX_RUNS,
    )
    found: dict[str, EventRecord] = {}
    left = _MAX_EVENTS
    for earlier in (await store.runs.page(identity.tenant_id, query)).runs:
        if earlier.identity.run_id == identity.run_id or earlier.created_at > run.created_at:
            continue
        after = 0
        of_run: dict[str, EventRecord] = {}
        while left > 0 and (
            records := await store.read(earlier.identity.run_id, after=after, limit=min(left, READ_BATCH))
        ):
            after = records[-1].run_seq
            left -= len(records)
            of_run.update((mark, record) for record in records if (mark := _fingerprint_in(record)))
        found = {**of_run, **found}
    return found


def _fingerprint_in(record: EventRecord) -> str | None:
    if record.event_type != EventType.STEP_COMPLETED or b'"fingerprint"' not in record.payload:
        return None
    return payload_of(record, StepEnd).fingerprint


class NotTheSame(Exception):
    """Why something is not reused; it never leaves this module."""


class Reuse:
    """Decides for every attempt, right before it is executed, whether an earlier one can replace it, and why."""

    def __init__(
        self,
        host: TaskHost,
        runs: Path,
        cached: Callable[[], Awaitable[dict[str, EventRecord]]],
        before: Before | None = None,
        values: Callable[[RunId], Values] | None = None,
        bucket_of: Callable[[str], RunArtifacts | None] | None = None,
    ) -> None:
        self._bucket_of = bucket_of
        self._host = host
        self._runs = runs
        self._look_up = cached
        self._fingerprints = Fingerprints(host)
        self._cached: asyncio.Task[dict[str, EventRecord]] | None = None
        self._before = before
        self._values = values

    def has_no_inputs(self, order: TaskOrder) -> bool:
        """Whether the attempt has no files as inputs, and no earlier one may replace it."""
        if self._before is not None or getattr(order.step.body, "work", PLAIN_WORK).cache:
            return False
        return not self._fingerprints.rests_on_more(order)

    def facts(self, order: TaskOrder) -> dict[str, Any]:
        """The facts that `look` would return for such an attempt, at any time."""
        mark = self._fingerprints.without_files(order, plan_path(order.path))
        return {"fingerprint": mark} if mark is not None else {}

    async def look(self, order: TaskOrder) -> tuple[dict[str, Any], TaskResult | None]:
        """Facts to be recorded with the attempt's end; and its end, if there is one already."""
        mark = await self._fingerprints.of(order, plan_path(order.path))
        facts: dict[str, Any] = {} if mark is None else {"fingerprint": mark}
        if self._before is not None:
            try:
                return facts, await self._take_over(order, self._unchanged(order, mark, self._before))
            except NotTheSame as reason:
                facts["changed"] = str(reason)
        if mark is not None and getattr(order.step.body, "work", PLAIN_WORK).cache:
            record = (await self._known()).get(mark)
            if record is not None:
                try:
                    return facts, await self._take_over(order, record)
                except NotTheSame:
                    pass  # it is simply executed
        return facts, None

    async def _known(self) -> dict[str, EventRecord]:
        if self._cached is None:
            self._cached = asyncio.ensure_future(self._look_up())
        try:
            return await self._cached
        except PodiumError:
            self._cached = None  # the store is briefly unavailable: then nothing is known
            return {}

    def _unchanged(self, order: TaskOrder, mark: str | None, before: Before) -> EventRecord:
        record = before.completed.get(order.path)
        if record is None:
            if order.path in before.begun:
                raise NotTheSame(f"it had not completed in run {before.run_id}")
            raise NotTheSame(f"run {before.run_id} did not reach it")
        earlier = _fingerprint_in(record)
        if earlier is None or mark is None:
            raise NotTheSame(f"run {before.run_id} did not record what it was executed with")
        if earlier != mark:
            step = before.steps.get(plan_path(order.path))
            if step is not None and step.body != order.step.body:
                raise NotTheSame("its definition has changed")
            raise NotTheSame("its inputs or files have changed")
        return record

    async def _take_over(self, order: TaskOrder, record: EventRecord) -> TaskResult:
        payload = await self._payload(record)
        for name in _NOT_TAKEN_OVER:
            payload.pop(name, None)
        files = payload.get("artifacts") or []
        is_fetched = await self._fetch_lost(record.run.run_id, files)
        await asyncio.to_thread(self._restore, order, record.run.run_id, [] if is_fetched else files)
        payload["reusedFrom"] = {
            "runId": record.run.run_id,
            "stepId": record.step_id,
            "attempt": record.logical_attempt_id,
        }
        return TaskResult(EventType.STEP_COMPLETED, payload)

    async def _payload(self, record: EventRecord) -> dict[str, Any]:
        if not is_spilled(record.payload):
            return fields_of(record)
        if self._values is None:
            raise NotTheSame("its large values are kept elsewhere")
        try:
            return await hydrate(record.payload, self._values(record.run.run_id))
        except PodiumError as error:
            raise NotTheSame(f"its large values are gone: {error}") from error

    async def _fetch_lost(self, run_id: RunId, artifacts: list[dict[str, str]]) -> bool:
        """Fetch the files of a run that has no directory on this machine, directly to where they are needed."""
        bucket = self._bucket_of(run_id) if artifacts and self._bucket_of is not None else None
        if bucket is None or RunDirectory(self._runs, run_id).artifacts.exists():
            return False
        try:
            for kept in artifacts:
                recorded = msgspec.convert(kept, RecordedArtifact)
                target = inside(self._host.directory.artifacts, recorded.path or "", what="artifact")
                await bucket.fetch(recorded.ref(), target)
        except (OSError, msgspec.ValidationError, PodiumError) as error:
            raise NotTheSame(f"its files cannot be fetched: {reason_of(error)}") from error
        return True

    def _restore(self, order: TaskOrder, run_id: RunId, artifacts: list[dict[str, str]]) -> None:
        """Restore the files that the step has produced, if they are unchanged."""
        source, target = RunDirectory(self._runs, run_id).artifacts, self._host.directory.artifacts
        try:
            for kept in artifacts:
                _copy(inside(source, kept["path"], what="artifact"), kept, target)
            expect = getattr(order.step.body, "work", PLAIN_WORK).expect
            for text in expect.files if expect is not None else ():
                name = render(text, order.lookup)
                if not inside(target, name, what="expected file").exists():
                    raise NotTheSame(f"its file {name!r} is missing")
        except (OSError, KeyError, PodiumError) as error:
            raise NotTheSame(f"its files cannot be taken over: {reason_of(error)}") from error


def _copy(source: Path, kept: dict[str, str], artifacts: Path) -> None:
    if not source.is_file() or digest_of(source) != kept["sha256"]:
        raise NotTheSame(f"its file {kept['path']!r} was changed since it was written")
    target = inside(artifacts, kept["path"], what="artifact")
    if not target.is_file() or digest_of(target) != kept["sha256"]:
        write_atomically(target, source.read_bytes())
        target.chmod(stat.S_IMODE(source.stat().st_mode))
