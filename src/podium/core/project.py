"""What a run looks like, folded from its log.

    project(events)                  from the beginning
    project_more(snapshot, events)   from where a snapshot stands

Both give a new, immutable snapshot; the same events give the same one in any process. The cost of an event does not
grow with the run: a snapshot shares with the next one everything that did not change.

What the tables in `model/transitions.py` do not allow is ignored, flags the run as inconsistent and is told once, as
an alert. Types nobody knows move the watermark and nothing else. Events that were folded already are skipped, so a
projector may begin again anywhere it likes. After a gap in the sequence numbers it stops and says so (STALE); when
the events have been read once more (resynchronised) the gap is accepted, for gaps are allowed.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from podium.model.alerts import Alert, AlertCode
from podium.model.artifacts import ArtifactRef
from podium.model.events import NO_PAYLOAD, EventRecord, EventType
from podium.model.runs import EngineRunRef
from podium.model.snapshots import AttemptSnapshot, Failure, Gap, RunSummary, StepSnapshot
from podium.model.transitions import (
    AFTER_THE_END,
    RUN_TRANSITIONS,
    STEP_TRANSITIONS,
    TERMINAL,
    RunStatus,
    StepStatus,
)

# How many attempts of a step a snapshot shows; the log has them all.
SHOWN_ATTEMPTS: Final = 10
# A running attempt that was stopped from outside ends as failed with one of these; nobody counts it as a failure.
STOPPED_CODES: Final = frozenset({"CANCELLED", "INTERRUPTED", "JOIN_DECIDED"})


class RunSnapshot(NamedTuple):
    """A run at one moment. `alerts` and `changed_steps` are what the projection that made it found and changed."""

    summary: RunSummary
    steps: "Steps"
    alerts: tuple[Alert, ...] = ()
    changed_steps: tuple[str, ...] = ()

    @property
    def last_event_seq(self) -> int:
        return self.summary.last_event_seq


def project(events: Iterable[EventRecord]) -> RunSnapshot:
    """The snapshot after these events, from the first on."""
    return project_more(EMPTY, events, accept_gaps=True)


def project_more(
    snapshot: RunSnapshot, events: Iterable[EventRecord], *, accept_gaps: bool = False
) -> RunSnapshot:
    """The snapshot after further events.

    `accept_gaps` is for events that were read again after a gap was seen: what is still not there never will be.
    """
    fold = _Fold(snapshot, accept_gaps=accept_gaps)
    for record in events:
        if not fold.take(record):
            break
    return fold.snapshot()


def gap_between(last_seq: int, next_seq: int) -> Gap | None:
    """What is missing between two sequence numbers that were seen one after the other."""
    return Gap(last_seq, next_seq) if next_seq > last_seq + 1 else None


class Steps(Mapping[str, StepSnapshot]):
    """The steps of a snapshot by path, in order of their first event.

    Versions share one table. The newest owns it; each older one keeps only what the next changed, and a way to that
    next one. So a new version costs what it changes, an old one that nobody holds costs nothing, and reading an old
    one costs the versions since.
    """

    __slots__ = ("_before", "_count", "_newer", "_table")

    def __init__(self, table: dict[str, StepSnapshot]) -> None:
        self._table: dict[str, StepSnapshot] | None = table
        self._count = len(table)
        self._newer: Steps | None = None
        # What the next version changed: the value before, None for what did not exist.
        self._before: dict[str, StepSnapshot | None] = {}

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
        """A version of its own to be changed with `put`; this one stays as it is."""
        if self._table is None:
            # Somebody has gone on from here before: this is a branch and needs a table of its own.
            return Steps(dict(self.items()))
        newer = Steps(self._table)
        self._newer = newer
        self._table = None
        return newer

    def newest(self, step_id: str) -> StepSnapshot | None:
        """A look-up in the version that owns the table."""
        assert self._table is not None
        return self._table.get(step_id)

    def put(self, step: StepSnapshot, older: "Steps") -> None:
        """Change this version, which came from `older`. The order matters: who reads `older` meanwhile sees either
        the old table or the value kept here, never the new one."""
        assert self._table is not None
        step_id = step.step_id
        known = self._table.get(step_id)
        if older._newer is self and step_id not in older._before:
            older._before[step_id] = known
        self._table[step_id] = step
        if known is None:
            self._count += 1

    def _find(self, step_id: str) -> StepSnapshot | None:
        version = self
        path = []
        while version._newer is not None:
            path.append(version)
            version = version._newer
        assert version._table is not None
        found = version._table.get(step_id)
        # Looked up after the table was read, the older the later: see `put`.
        for older in reversed(path):
            if step_id in older._before:
                found = older._before[step_id]
        return found


EMPTY: Final = RunSnapshot(RunSummary(), Steps({}))


class _StepEnd(msgspec.Struct, rename="camel"):
    """What a projection needs of the payload of a step's last event."""

    error: Failure | None = None
    artifacts: tuple[ArtifactRef, ...] = ()
    usage: dict[str, float] = {}


class _RunPayload(msgspec.Struct, rename="camel"):
    error: Failure | None = None
    engine_run_ref: EngineRunRef | None = None
    needs_approval: bool = False


_NO_STEP_END: Final = _StepEnd()
_NO_RUN_PAYLOAD: Final = _RunPayload()
_STEP_END: Final = msgspec.json.Decoder(_StepEnd)
_RUN_PAYLOAD: Final = msgspec.json.Decoder(_RunPayload)
_STARTED: Final = EventType.STEP_STARTED.value
_INTERRUPTED: Final = EventType.STEP_INTERRUPTED.value
_LEGAL_AFTER_THE_END: Final = frozenset(str(event_type) for event_type in AFTER_THE_END)
_KNOWN: Final = frozenset(event_type.value for event_type in EventType)
_OPEN_FOR_STEPS: Final = frozenset({RunStatus.RUNNING, RunStatus.PAUSED})


class _Fold:
    """The state of one projection under way; mutable, and thrown away with it."""

    def __init__(self, snapshot: RunSnapshot, *, accept_gaps: bool) -> None:
        self._from = snapshot
        self._accept_gaps = accept_gaps
        summary = snapshot.summary
        self._seq = summary.last_event_seq
        self._status = summary.status
        self._fields: dict[str, Any] = {}
        self._steps: Steps | None = None
        self._changed: dict[str, None] = {}
        self._counts = [getattr(summary, name) for name in _COUNTERS]
        self._alerts: list[Alert] = []
        self._inconsistent = summary.inconsistent
        self._usage: dict[str, float] | None = None
        self._artifacts = 0

    def take(self, record: EventRecord) -> bool:
        """Fold one record; False when reading on makes no sense before a resynchronisation."""
        seq = record.run_seq
        if seq != self._seq + 1 or seq == 1:
            if seq <= self._seq:
                return True
            if not self._seq:
                self._fields["run"] = record.run
            elif not self._accept_gaps:
                self._report_gap(Gap(self._seq, seq))
                return False
        self._seq = seq
        event_type = record.event_type
        transition = STEP_TRANSITIONS.get(event_type)
        if transition is not None:
            self._take_step(record, *transition)
        elif event_type in RUN_TRANSITIONS:
            self._take_run(record)
        elif self._status in TERMINAL and event_type in _KNOWN and event_type not in _LEGAL_AFTER_THE_END:
            self._illegal(record)
        return True

    def snapshot(self) -> RunSnapshot:
        summary = self._from.summary
        fields = self._fields
        if "stale" not in fields and self._seq > summary.last_event_seq and summary.stale is not None:
            fields["stale"] = None
        if self._seq == summary.last_event_seq and not fields:
            return self._from._replace(alerts=(), changed_steps=())
        fields.update(zip(_COUNTERS, self._counts, strict=True))
        fields["last_event_seq"] = self._seq
        fields["status"] = self._status
        fields["inconsistent"] = self._inconsistent
        fields["substatus"] = self._substatus(fields)
        if self._artifacts:
            fields["artifact_count"] = summary.artifact_count + self._artifacts
        if self._usage is not None:
            fields["usage"] = self._usage
        steps = self._steps if self._steps is not None else self._from.steps
        # Not the length of `steps`: those may be only the steps that the events are about.
        fields["step_count"] = sum(self._counts)
        return RunSnapshot(
            msgspec.structs.replace(summary, **fields), steps, tuple(self._alerts), tuple(self._changed)
        )

    def _substatus(self, fields: dict[str, Any]) -> str | None:
        if self._status is RunStatus.PAUSED and self._counts[_RUNNING]:
            return "DRAINING"
        if self._status is RunStatus.PENDING:
            kept: str | None = fields.get("substatus", self._from.summary.substatus)
            return kept
        return None

    # --- the run ----------------------------------------------------------------------------------

    def _take_run(self, record: EventRecord) -> None:
        before, after = RUN_TRANSITIONS[record.event_type]
        if self._status not in before:
            self._illegal(record)
            return
        self._status = after
        fields, summary = self._fields, self._from.summary
        payload = _decoded(_RUN_PAYLOAD, record.payload, _NO_RUN_PAYLOAD)
        match record.event_type:
            case EventType.RUN_QUEUED:
                fields["queued_at"] = record.emitted_at
                fields["substatus"] = "WAITING_APPROVAL" if payload.needs_approval else None
            case EventType.RUN_STARTED:
                fields["started_at"] = record.emitted_at
                fields["engine"] = payload.engine_run_ref
            case EventType.RUN_PAUSED:
                fields["pause_cycles"] = fields.get("pause_cycles", summary.pause_cycles) + 1
            case EventType.RUN_REOPENED:
                fields["openings"] = fields.get("openings", summary.openings) + 1
                fields["completed_at"] = fields["failure"] = None
        if after in TERMINAL:
            fields["completed_at"] = record.emitted_at
            fields["failure"] = payload.error

    # --- steps ------------------------------------------------------------------------------------

    def _take_step(self, record: EventRecord, before: frozenset[StepStatus], after: StepStatus) -> None:
        step_id = record.step_id
        if step_id is None or self._status not in _OPEN_FOR_STEPS:
            self._illegal(record)
            return
        if self._steps is None:
            self._steps = self._from.steps.next_version()
        known = self._steps.newest(step_id)
        if known is None:
            changed = self._attempt_after(record, None, before, after)
            step = StepSnapshot(step_id, changed) if changed is not None else None
        elif known.newest.logical_attempt_id == record.logical_attempt_id:
            changed = self._attempt_after(record, known.newest, before, after)
            step = (
                StepSnapshot(step_id, changed, known.earlier, known.attempt_count)
                if changed is not None
                else None
            )
        else:
            step = self._other_attempt(record, known, before, after)
        if step is None:
            self._illegal(record)
            return
        counts = self._counts
        if known is not None:
            counts[_counter_of(known.newest)] -= 1
        counts[_counter_of(step.newest)] += 1
        self._changed[step_id] = None
        self._steps.put(step, self._from.steps)

    def _other_attempt(
        self, record: EventRecord, known: StepSnapshot, before: frozenset[StepStatus], after: StepStatus
    ) -> StepSnapshot | None:
        """A step after an event of an attempt that is not the newest known so far."""
        number = record.logical_attempt_id
        attempt = next((one for one in known.earlier if one.logical_attempt_id == number), None)
        changed = self._attempt_after(record, attempt, before, after)
        if changed is None:
            return None
        if number > known.newest.logical_attempt_id:
            earlier = (known.newest, *known.earlier)[: SHOWN_ATTEMPTS - 1]
            return StepSnapshot(known.step_id, changed, earlier, known.attempt_count + 1)
        others = [changed, *(one for one in known.earlier if one is not attempt)]
        others.sort(key=lambda one: -one.logical_attempt_id)
        count = known.attempt_count + (attempt is None)
        return StepSnapshot(known.step_id, known.newest, tuple(others[: SHOWN_ATTEMPTS - 1]), count)

    def _attempt_after(
        self,
        record: EventRecord,
        attempt: AttemptSnapshot | None,
        before: frozenset[StepStatus],
        after: StepStatus,
    ) -> AttemptSnapshot | None:
        """An attempt after an event of its own; None if the event is not allowed there."""
        if (attempt.status if attempt is not None else StepStatus.PENDING) not in before:
            if attempt is not None and record.event_type == _STARTED and attempt.started_at is None:
                # It may be written late: the attempt did start, and it has ended.
                return msgspec.structs.replace(attempt, started_at=record.emitted_at)
            return None
        if after is StepStatus.RUNNING:
            return AttemptSnapshot(
                record.logical_attempt_id, after, record.engine_attempt_id, record.emitted_at
            )
        started_at = attempt.started_at if attempt is not None else None
        end = _step_end(record.payload)
        if end is None:
            return AttemptSnapshot(
                record.logical_attempt_id,
                after,
                record.engine_attempt_id,
                started_at,
                record.emitted_at,
                stopped=record.event_type == _INTERRUPTED,
            )
        self._artifacts += len(end.artifacts)
        if end.usage:
            self._charge(end.usage)
        return AttemptSnapshot(
            record.logical_attempt_id,
            after,
            record.engine_attempt_id,
            started_at,
            record.emitted_at,
            end.error,
            end.artifacts,
            record.event_type == _INTERRUPTED or (end.error is not None and end.error.code in STOPPED_CODES),
        )

    def _charge(self, usage: dict[str, float]) -> None:
        if self._usage is None:
            self._usage = dict(self._from.summary.usage)
        for name, amount in usage.items():
            self._usage[name] = self._usage.get(name, 0) + amount

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


_COUNTERS: Final = (
    "pending_steps",
    "running_steps",
    "succeeded_steps",
    "skipped_steps",
    "failed_steps",
    "stopped_steps",
)
_RUNNING: Final = _COUNTERS.index("running_steps")
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


def _step_end(payload: bytes) -> _StepEnd | None:
    """What a projection needs of a step's end; None if the payload has nothing of it, which is quickly seen."""
    if b'"error"' in payload or b'"artifacts"' in payload or b'"usage"' in payload:
        end: _StepEnd = _decoded(_STEP_END, payload, _NO_STEP_END)
        return end
    return None


def _decoded(decoder: Any, payload: bytes, nothing: Any) -> Any:
    """What a payload says, as far as it is understood: no payload may ever fail a projection."""
    if payload == NO_PAYLOAD:
        return nothing
    try:
        return decoder.decode(payload)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return nothing
