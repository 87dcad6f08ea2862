"""The current state of a run, folded from its log.

    project(events)                  from the start
    project_more(snapshot, events)   continues a snapshot

Both return a new, immutable snapshot; the same events give the same snapshot in any process. The cost of an
event does not grow with the run: consecutive snapshots share everything that did not change.

An event that the tables in `log/transitions.py` do not allow is ignored, marks the run as inconsistent and
raises one alert. An unknown type advances the watermark and changes nothing else. Events that were folded
already are skipped, so a projector may restart at any earlier event. After a gap in the sequence numbers it
stops and reports STALE; once the events have been read again (resynchronised) the gap is accepted, because
gaps are allowed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from podium.log.alerts import Alert, AlertCode
from podium.log.events import EventRecord, EventType
from podium.log.payloads import INTERRUPTED, Misfit, StepEnd, read_payload
from podium.log.snapshots import (
    AttemptSnapshot,
    Gap,
    RaisedAlert,
    RunSummary,
    StepSnapshot,
    StepWarning,
)
from podium.log.times import Timestamp
from podium.log.transitions import (
    AFTER_THE_END,
    IN_PROGRESS,
    RUN_TRANSITIONS,
    STEP_TRANSITIONS,
    TERMINAL,
    RunStatus,
    StepStatus,
)
from podium.log.usage import added, charge_of, steps_charged

# How many attempts of a step a snapshot shows; the log has all of them.
SHOWN_ATTEMPTS: Final = 10
# How many artifacts and warnings a summary shows; the steps have all of them.
SHOWN_ARTIFACTS: Final = 100
SHOWN_WARNINGS: Final = 20


class RunSnapshot(NamedTuple):
    """A run at one moment. `alerts` are what the projection that made it found."""

    summary: RunSummary
    steps: "Steps"
    alerts: tuple[Alert, ...] = ()

    @property
    def last_event_seq(self) -> int:
        return self.summary.last_event_seq


def project(events: Iterable[EventRecord]) -> RunSnapshot:
    """The snapshot after these events, which start at the first one."""
    return project_more(EMPTY, events, accept_gaps=True)


def project_more(
    snapshot: RunSnapshot, events: Iterable[EventRecord], *, accept_gaps: bool = False
) -> RunSnapshot:
    """The snapshot after further events.

    `accept_gaps` is for events that were read again after a gap was seen: what is still missing will never
    appear.
    """
    fold = _Fold(snapshot, accept_gaps=accept_gaps)
    for record in events:
        if not fold.take(record):
            break
    return fold.snapshot()


def gap_between(last_seq: int, next_seq: int) -> Gap | None:
    """What is missing between two sequence numbers that were seen consecutively."""
    return Gap(last_seq, next_seq) if next_seq > last_seq + 1 else None


def steps_named(record: EventRecord) -> Iterator[str]:
    """The steps that an event changes."""
    if record.step_id is not None:
        yield record.step_id
    elif record.event_type == _CHARGED and (charge := charge_of(record)) is not None:
        yield from steps_charged(charge.step_id)


class Steps(Mapping[str, StepSnapshot]):
    """The steps of a snapshot by path, in order of their first event.

    Versions share one table. The newest owns it; each older one keeps only what the next version changed, and
    a reference to that version. So a new version costs as much as it changes, an unreferenced old one costs
    nothing, and reading an old one costs as much as was changed since.
    """

    __slots__ = ("_before", "_count", "_newer", "_table")

    def __init__(self, table: dict[str, StepSnapshot]) -> None:
        self._table: dict[str, StepSnapshot] | None = table
        self._count = len(table)
        self._newer: Steps | None = None
        # What the next version changed: the previous value, or None for a step that did not exist.
        self._before: dict[str, StepSnapshot | None] = {}

    def look_up(self) -> Callable[[str], StepSnapshot | None]:
        """A lookup function for reading many steps of this version; valid until the next version is made."""
        return self._table.get if self._table is not None else self._find

    def __getitem__(self, step_id: str) -> StepSnapshot:
        found = self._find(step_id)
        if found is None:
            raise KeyError(step_id)
        return found

    def __iter__(self) -> Iterator[str]:
        newest = self
        while newest._newer is not None:
            newest = newest._newer
        assert newest._table is not None
        for step_id in list(newest._table):
            if newest is self or self._find(step_id) is not None:
                yield step_id

    def __len__(self) -> int:
        return self._count

    def next_version(self) -> "Steps":
        """A new version to be changed with `put`; this one keeps its content."""
        if self._table is None:
            # This version already has a successor, so the new one is a branch and needs a table of its own.
            return Steps(dict(self.items()))
        newer = Steps(self._table)
        self._newer = newer
        self._table = None
        return newer

    def put(self, step: StepSnapshot, older: "Steps") -> None:
        """Change this version, which was made from `older`. The order matters: a concurrent reader of `older`
        sees either the old table or the value kept here, never the new value.
        """
        assert self._table is not None
        step_id = step.step_id
        known = self._table.get(step_id)
        if older._newer is self and step_id not in older._before:
            older._before[step_id] = known
        self._table[step_id] = step
        if known is None:
            self._count += 1

    def _find(self, step_id: str) -> StepSnapshot | None:
        if self._table is not None:
            return self._table.get(step_id)
        version = self
        path = []
        while version._newer is not None:
            path.append(version)
            version = version._newer
        assert version._table is not None
        found = version._table.get(step_id)
        # Read after the table, newest version first, for the reason given in `put`.
        for older in reversed(path):
            if step_id in older._before:
                found = older._before[step_id]
        return found


EMPTY: Final = RunSnapshot(RunSummary(), Steps({}))


_STARTED: Final = EventType.STEP_STARTED.value
_CHARGED: Final = EventType.BUDGET_CHARGED.value
_ALERTED: Final = EventType.ALERT_RAISED.value
_INTERRUPTED: Final = EventType.STEP_INTERRUPTED.value
_LEGAL_AFTER_THE_END: Final = frozenset(str(event_type) for event_type in AFTER_THE_END)
_KNOWN: Final = frozenset(event_type.value for event_type in EventType)


class _Fold:
    """The mutable state of one projection; discarded when it is done."""

    def __init__(self, snapshot: RunSnapshot, *, accept_gaps: bool) -> None:
        self._from = snapshot
        self._accept_gaps = accept_gaps
        summary = snapshot.summary
        self._seq = summary.last_event_seq
        self._status = summary.status
        self._fields: dict[str, Any] = {}
        self._known = snapshot.steps.look_up()
        # The steps that events were about; they become snapshots once, at the end.
        self._touched: dict[str, _Step] = {}
        self._alerts: list[Alert] = []
        self._inconsistent = summary.inconsistent

    def take(self, record: EventRecord) -> bool:
        """Fold one record; False if reading further makes no sense before a resynchronisation."""
        seq = record.run_seq
        if seq != self._seq + 1 or seq == 1:
            if seq <= self._seq:
                return True
            if not self._seq:
                self._fields["run"] = record.run
            elif not self._accept_gaps and (gap := gap_between(self._seq, seq)) is not None:
                self._report_gap(gap)
                return False
        self._seq = seq
        event_type = record.event_type
        transition = STEP_TRANSITIONS.get(event_type)
        if transition is not None:
            step_id = record.step_id
            if step_id is None or self._status not in IN_PROGRESS:
                self._illegal(record)
                return True
            step = self._touched.get(step_id)
            if step is None:
                step = self._touched[step_id] = _Step(self._known(step_id))
            if not step.take(record, *transition):
                self._illegal(record)
            elif step.misfits:
                self._report_misfits(record, step.misfits)
                step.misfits = []
        elif event_type in RUN_TRANSITIONS:
            self._take_run(record)
        elif event_type == _CHARGED:
            self._take_charge(record)
        elif event_type == _ALERTED:
            raised = self._read(record)
            self._add("alerts", "alert_count", [RaisedAlert(raised.code, raised.message)], SHOWN_WARNINGS)
        elif self._status in TERMINAL and event_type in _KNOWN and event_type not in _LEGAL_AFTER_THE_END:
            self._illegal(record)
        return True

    def snapshot(self) -> RunSnapshot:
        summary, fields = self._from.summary, self._fields
        if self._seq == summary.last_event_seq and not fields:
            return self._from._replace(alerts=())
        if summary.stale is not None and "stale" not in fields:
            fields["stale"] = None
        fields["last_event_seq"] = self._seq
        fields["status"] = self._status
        fields["inconsistent"] = self._inconsistent
        changed = {step_id: step for step_id, step in self._touched.items() if step.changed}
        steps = self._from.steps
        if changed:
            steps = self._put(changed)
        running = fields.get("running_steps", summary.running_steps)
        fields["substatus"] = self._substatus(running)
        return RunSnapshot(msgspec.structs.replace(summary, **fields), steps, tuple(self._alerts))

    def _put(self, changed: "dict[str, _Step]") -> Steps:
        """A version of the steps with the changes, and the figures that follow from it."""
        summary, fields = self._from.summary, self._fields
        counts = [getattr(summary, name) for name in _COUNTERS]
        steps = self._from.steps.next_version()
        for step_id, step in changed.items():
            if step.known is not None:
                counts[_counter_of(step.known.newest)] -= 1
            snapshot = step.snapshot(step_id)
            counts[_counter_of(snapshot.newest)] += 1
            steps.put(snapshot, self._from.steps)
            for end in step.ends:
                self._aggregate(step_id, end)
        fields.update(zip(_COUNTERS, counts, strict=True))
        # Not `len(steps)`: `steps` may contain only the steps that the events are about.
        fields["step_count"] = sum(counts)
        return steps

    def _aggregate(self, step_id: str, end: StepEnd) -> None:
        """Add the artifacts and warnings of one end to the summary."""
        if end.artifacts:
            self._add("artifacts", "artifact_count", [one.ref() for one in end.artifacts], SHOWN_ARTIFACTS)
        if end.warnings:
            warnings = [StepWarning(step_id, text) for text in end.warnings]
            self._add("warnings", "warning_count", warnings, SHOWN_WARNINGS)

    def _add(self, name: str, count: str, more: list[Any], most: int) -> None:
        fields, summary = self._fields, self._from.summary
        known = fields.get(name, getattr(summary, name))
        fields[count] = fields.get(count, getattr(summary, count)) + len(more)
        if len(known) < most:
            fields[name] = (*known, *more)[:most]

    def _substatus(self, running: int) -> str | None:
        if self._status is RunStatus.PAUSED and running:
            return "DRAINING"
        if self._status is RunStatus.PENDING:
            kept: str | None = self._fields.get("substatus", self._from.summary.substatus)
            return kept
        return None

    def _take_run(self, record: EventRecord) -> None:
        before, after = RUN_TRANSITIONS[record.event_type]
        if self._status not in before:
            self._illegal(record)
            return
        self._status = after
        fields, summary = self._fields, self._from.summary
        match record.event_type:
            case EventType.RUN_QUEUED:
                fields["queued_at"] = record.emitted_at
                fields["substatus"] = "WAITING_APPROVAL" if self._read(record).needs_approval else None
            case EventType.RUN_STARTED:
                fields["started_at"] = record.emitted_at
                fields["engine"] = self._read(record).engine_run_ref
            case EventType.RUN_PAUSED:
                fields["pause_cycles"] = fields.get("pause_cycles", summary.pause_cycles) + 1
            case EventType.RUN_REOPENED:
                fields["openings"] = fields.get("openings", summary.openings) + 1
                fields["completed_at"] = fields["failure"] = None
        if after in TERMINAL:
            fields["completed_at"] = record.emitted_at
            fields["failure"] = self._read(record).error

    def _read(self, record: EventRecord) -> Any:
        payload, misfits = read_payload(record.event_type, record.payload)
        self._report_misfits(record, misfits)
        return payload

    def _report_misfits(self, record: EventRecord, misfits: list[Misfit]) -> None:
        """Once for each field of an event type: the same writer makes the same mistake again."""
        known = {alert.subject for alert in self._alerts}
        of = f" of step {record.step_id!r}" if record.step_id is not None else ""
        for misfit in misfits:
            subject = f"{record.event_type}.{misfit.field}"
            if subject not in known:
                known.add(subject)
                event = f"{record.event_type}{of} (event {record.run_seq})"
                message = f"{event}: {misfit.field} is left out: {misfit.reason}"
                self._alerts.append(Alert(AlertCode.PAYLOAD_MISFIT, subject, message))

    def _take_charge(self, record: EventRecord) -> None:
        charge = charge_of(record)
        if charge is None:
            return
        figures = charge.figures
        self._fields["usage"] = added(self._fields.get("usage", self._from.summary.usage), figures)
        for step_id in steps_charged(charge.step_id):
            step = self._touched.get(step_id)
            if step is None and (known := self._known(step_id)) is not None:
                step = self._touched[step_id] = _Step(known)
            if step is not None:
                step.usage = added(step.usage, figures)
                step.changed = True

    def _report_gap(self, gap: Gap) -> None:
        self._fields["stale"] = gap
        self._alerts.append(
            Alert(
                AlertCode.PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED,
                str(gap.last_seq),
                f"after event {gap.last_seq} came event {gap.next_seq}; reading again",
            )
        )

    def _illegal(self, record: EventRecord) -> None:
        if not self._inconsistent:
            self._alerts.append(
                Alert(
                    AlertCode.INVALID_TRANSITION,
                    str(record.run_seq),
                    f"{record.event_type} (event {record.run_seq}) is not possible when the run is {self._status}"
                    + (f" and step {record.step_id!r} is as it is" if record.step_id else ""),
                )
            )
        self._inconsistent = True


class _Step:
    """A step under projection: its newest attempt, open to change, and the attempts before it."""

    __slots__ = (
        "attempt_count",
        "changed",
        "completed_at",
        "earlier",
        "end",
        "ends",
        "engine_attempt_id",
        "interrupted",
        "known",
        "misfits",
        "number",
        "started_at",
        "status",
        "usage",
    )

    def __init__(self, known: StepSnapshot | None) -> None:
        self.known = known
        self.changed = False
        # Ends seen in this projection, for the summary.
        self.ends: list[StepEnd] = []
        self.misfits: list[Misfit] = []
        self.usage: dict[str, float] = known.usage if known is not None else {}
        self.end: StepEnd | None = None
        self.interrupted = False
        self.engine_attempt_id = 1
        self.started_at: Timestamp | None = None
        self.completed_at: Timestamp | None = None
        if known is None:
            # No attempt has this number: the first event starts one.
            self.number = 0
            self.status = StepStatus.PENDING
            self.earlier: tuple[AttemptSnapshot, ...] = ()
            self.attempt_count = 0
            return
        newest = known.newest
        self.number = newest.logical_attempt_id
        self.status = newest.status
        self.engine_attempt_id = newest.engine_attempt_id
        self.started_at = newest.started_at
        self.completed_at = newest.completed_at
        self.earlier = known.earlier
        self.attempt_count = known.attempt_count

    def take(self, record: EventRecord, before: frozenset[StepStatus], after: StepStatus) -> bool:
        """Fold an event of this step; False if the transition is not allowed."""
        number = record.logical_attempt_id
        if number != self.number:
            if number < self.number:
                return self._take_earlier(record, before, after)
            if StepStatus.PENDING not in before:
                return False
            self._begin(number)
        elif self.status not in before:
            if record.event_type != _STARTED or self.started_at is not None:
                return False
            # StepStarted may be written late: the attempt did start, and has ended since.
            self.started_at = record.emitted_at
            self.changed = True
            return True
        self.changed = True
        self.status = after
        self.engine_attempt_id = record.engine_attempt_id
        if after is StepStatus.RUNNING:
            self.started_at = record.emitted_at
            return True
        self.completed_at = record.emitted_at
        self.interrupted = record.event_type == _INTERRUPTED
        if _says_more(record.payload):
            self.end, self.misfits = read_payload(record.event_type, record.payload)
            self.ends.append(self.end)
        return True

    def snapshot(self, step_id: str) -> StepSnapshot:
        return StepSnapshot(step_id, self._newest(), self.earlier, self.attempt_count, self.usage)

    def _begin(self, number: int) -> None:
        """Start a new attempt; the one before it is kept as it is."""
        if self.number:
            self.earlier = (self._newest(), *self.earlier)[: SHOWN_ATTEMPTS - 1]
        self.number = number
        self.attempt_count += 1
        self.status = StepStatus.PENDING
        self.started_at = self.completed_at = None
        self.end = None
        self.interrupted = False

    def _newest(self) -> AttemptSnapshot:
        known = self.known
        if known is not None and known.newest.logical_attempt_id == self.number and self.end is None:
            # What is known of its end is kept, unless it ended just now.
            newest = known.newest
            error, artifacts, stopped, warnings = (
                newest.error,
                newest.artifacts,
                newest.stopped,
                newest.warnings,
            )
        elif self.end is None:
            error, artifacts, stopped, warnings = None, (), False, ()
        else:
            error, warnings, stopped = self.end.error, self.end.warnings, self.end.is_stopped
            artifacts = tuple(one.ref() for one in self.end.artifacts)
        if self.interrupted and error is None:
            error = INTERRUPTED
        return AttemptSnapshot(
            self.number,
            self.status,
            self.engine_attempt_id,
            self.started_at,
            self.completed_at,
            error,
            artifacts,
            stopped or self.interrupted,
            warnings,
        )

    def _take_earlier(self, record: EventRecord, before: frozenset[StepStatus], after: StepStatus) -> bool:
        """Fold an event of an attempt that is not the newest."""
        number = record.logical_attempt_id
        attempt = next((one for one in self.earlier if one.logical_attempt_id == number), None)
        step = _Step(StepSnapshot("", attempt) if attempt is not None else None)
        if not step.take(record, before, after):
            return False
        others = [one for one in self.earlier if one is not attempt]
        others.append(step._newest())
        others.sort(key=lambda one: -one.logical_attempt_id)
        self.earlier = tuple(others[: SHOWN_ATTEMPTS - 1])
        self.attempt_count += attempt is None
        self.changed = True
        self.ends += step.ends
        self.misfits += step.misfits
        return True


_COUNTERS: Final = (
    "pending_steps",
    "running_steps",
    "succeeded_steps",
    "skipped_steps",
    "failed_steps",
    "stopped_steps",
)
_STOPPED: Final = _COUNTERS.index("stopped_steps")
_COUNTER_OF: Final = {
    StepStatus.PENDING: 0,
    StepStatus.RUNNING: 1,
    StepStatus.SUCCESS: 2,
    StepStatus.SKIPPED: 3,
    StepStatus.FAILED: 4,
}


def _counter_of(newest: AttemptSnapshot) -> int:
    return _STOPPED if newest.stopped else _COUNTER_OF[newest.status]


def _says_more(payload: bytes) -> bool:
    """Whether an end has fields that a projection reads. Most do not, which a search of the bytes shows
    quickly.
    """
    return b'"error"' in payload or b'"artifacts"' in payload or b'"warnings"' in payload
