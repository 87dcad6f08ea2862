"""Everything that shows a run says the same: the machine, `state.json`, the snapshot behind `runs show` and `report`.

    views_agree(plan, log)

raises if two of them differ about a step or an iteration. The log may be that of an open run.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from podium.log.events import EventRecord, EventType
from podium.log.fold import RunSnapshot, project
from podium.log.snapshots import StepSnapshot
from podium.machine import Machine
from podium.machine.commands import ContextReport, Report, ScopeReport
from podium.machine.tree import Visit
from podium.plan.plan import Plan
from podium.runtime.state_fold import StateFold
from podium.runtime.state_tree import MAX_ITERATIONS

_ITERATIONS = {
    "completed": "success_count",
    "failed": "failure_count",
    "skipped": "skipped_count",
    "cancelled": "cancelled_count",
}


class ReportingMachine:
    """A machine that folds the same log as a view, and what it reports."""

    def __init__(self, plan: Plan) -> None:
        self.machine = Machine(plan)
        # The newest outcome of each iteration.
        self.outcomes: dict[str, str] = {}

    def advance(self, record: EventRecord) -> list[Report]:
        commands = self.machine.advance(record)
        reports: list[Report] = [one for one in commands if isinstance(one, ScopeReport | ContextReport)]
        assert all(one.run_seq == record.run_seq for one in reports)
        for one in reports:
            if isinstance(one, ScopeReport) and one.status != "running":
                self.outcomes[one.path] = one.status
                self._templates_agree(one)
        return reports

    def _templates_agree(self, ended: ScopeReport) -> None:
        """What `${steps.L.iterations}` reads is what the iteration ended with."""
        found = self.machine.find_scope(f"{ended.path}/x") if ended.path.endswith("]") else None
        visit: Visit | None = found[0].owner if found is not None else None
        kept = visit.loop.iterations if visit is not None and visit.loop is not None else {}
        if ended.index in kept:
            assert kept[ended.index].status == ended.status, ended


def views_agree(plan: Plan, log: Iterable[EventRecord], *, noisy: bool = False) -> None:
    """Fold the log in every way there is, and compare.

    `noisy`: the log has events that no driver writes. A snapshot that ignored some of them says what it does then.
    """
    records = list(log)
    machine = ReportingMachine(plan)
    fold, resumed = StateFold(plan, "r1"), StateFold(plan, "r1")
    for record in records:
        reports = machine.advance(record)
        fold.fold(record, reports)
        resumed.fold(record, reports)
        if record.run_seq % 5 == 0:
            resumed = restored(resumed, plan)
    state = fold.state()
    assert resumed.state() == state, "state.json differs after a resume from a checkpoint"
    snapshot = project(records)
    assert noisy or not snapshot.summary.inconsistent, snapshot.alerts
    if not snapshot.summary.inconsistent:
        _steps_agree(state["steps"], "", snapshot)
    _counts_agree(snapshot)
    for path, loop in _loops(state["steps"], ""):
        _loop_agrees(path, loop, machine.outcomes, records)


def restored(fold: StateFold, plan: Plan) -> StateFold:
    """As a driver continues that was started from a checkpoint."""
    saved = fold.saved()
    again = StateFold(plan, "r1")
    again.restore(saved)
    assert again.saved() == saved, "restored to something else"
    return again


def _steps_agree(steps: dict[str, Any], before: str, snapshot: RunSnapshot) -> None:
    """Each step that `state.json` shows, against its snapshot; where it is the newest visit of what is around it."""
    for name, shown in steps.items():
        path = before + name
        known = snapshot.steps.get(path)
        if known is not None and shown["attempts"] == known.newest.logical_attempt_id:
            assert _same(shown["status"], known), (path, shown["status"], known.newest)
        if "[" in path or shown["attempts"] > 1:
            continue  # what is inside of further visits has other paths
        for kind in ("steps", "branches", "finally"):
            inside = f"{path}/finally/" if kind == "finally" else f"{path}/"
            _steps_agree(shown.get(kind, {}), inside, snapshot)
        for one in shown.get("iterations", ()):
            _steps_agree(one["steps"], f"{path}[{one['index']}]/", snapshot)


def _same(shown: str, step: StepSnapshot) -> bool:
    if step.newest.stopped:
        return shown in ("cancelled", "interrupted", "waiting")
    expected = {
        "SUCCESS": {"completed"},
        "FAILED": {"failed", "cancelled"},
        "SKIPPED": {"skipped"},
        "RUNNING": {"running", "waiting"},
        "PENDING": {"running", "waiting"},
    }
    return shown in expected[step.status.value]


def _counts_agree(snapshot: RunSnapshot) -> None:
    """The figures of the summary are those of the steps."""
    counted = Counter("stopped" if s.newest.stopped else s.status.value for s in snapshot.steps.values())
    summary = snapshot.summary
    assert (summary.failed_steps, summary.stopped_steps) == (counted["FAILED"], counted["stopped"])
    assert (summary.succeeded_steps, summary.skipped_steps) == (counted["SUCCESS"], counted["SKIPPED"])
    assert summary.step_count == len(snapshot.steps)


def _loops(steps: dict[str, Any], before: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, shown in steps.items():
        if "iterations" in shown:
            yield before + name, shown
        if shown["attempts"] > 1:
            continue  # what is inside of further visits has other paths
        for kind in ("steps", "branches"):
            yield from _loops(shown.get(kind, {}), f"{before}{name}/")


def _loop_agrees(
    path: str, loop: dict[str, Any], outcomes: dict[str, str], records: list[EventRecord]
) -> None:
    """Its iterations, against the outcomes that the machine gave them and the summary that it recorded."""
    visits = [f"{path}#{n}" for n in range(loop["attempts"], 1, -1)] + [path]
    for one in loop["iterations"]:
        ends = [outcomes[key] for visit in visits if (key := f"{visit}[{one['index']}]") in outcomes]
        if loop["status"] in ("completed", "failed", "skipped") and ends:
            assert one["status"] in ends, (path, one["index"], one["status"], ends)
    summary = _recorded_summary(path, loop["attempts"], records)
    if summary is None or summary["count"] != len(loop["iterations"]) or summary["count"] > MAX_ITERATIONS:
        return
    counted = Counter(one["status"] for one in loop["iterations"])
    for status, name in _ITERATIONS.items():
        assert counted[status] == summary[name], (path, status, counted, summary)


def _recorded_summary(path: str, attempt: int, records: list[EventRecord]) -> dict[str, Any] | None:
    for record in reversed(records):
        ended = record.event_type in (EventType.STEP_COMPLETED, EventType.STEP_FAILED)
        if ended and record.step_id == path and record.logical_attempt_id == attempt:
            found: dict[str, Any] | None = msgspec.json.decode(record.payload).get("summary")
            return found
    return None
