"""The start of a rerun: the recorded events of an earlier run, up to the step from which it is run again.

They are appended to the new run's log as they were recorded, marked with `reusedFrom`, and the machine folds
them like any others. So everything before the step keeps its outcome, including skips and approvals by
people, and nothing is performed or waited for: a copied timer takes no time. See
`docs/decisions/0012-a-rerun-takes-over-events.md`.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from podium.log.events import (
    MAX_PAYLOAD_BYTES,
    EventRecord,
    EventType,
    EventWrite,
    RunIdentity,
    encode_payload,
)
from podium.log.ids import RunId
from podium.log.payloads import Signal, StepEnd, TimerFired, fields_of, payload_of
from podium.log.times import Timestamp
from podium.log.transitions import STEP_ENDS, TASK_ENDS
from podium.machine import Machine
from podium.machine.commands import Record
from podium.machine.recalled import RecalledTime
from podium.plan.loading import plan_path, walk
from podium.plan.plan import Approval, Call, ForEach, Group, Parallel, Plan, While
from podium.ports.store import EventLog
from podium.runtime.expiring import ArtifactAges, with_expiry
from podium.runtime.reading import records_of
from podium.runtime.reusing import failures_repaired_beside
from podium.runtime.spilling import Values, spill, whole
from podium.runtime.writing import foreseen, new_event

# Events about the earlier run itself: its request, and its alerts.
_NOT_TAKEN_OVER: Final = frozenset(
    {EventType.RUN_QUEUED, EventType.RUN_APPROVED, EventType.RUN_STARTED, EventType.SIGNAL_REJECTED}
    | {EventType.ALERT_RAISED, EventType.RUN_VALIDATION_REPORT, EventType.NOTIFICATION_DUE}
)
# The machine decides when they end.
_COMPOSITES: Final = (Call, ForEach, Group, Parallel, While)


@dataclass(frozen=True, slots=True)
class Original:
    """The run to be repeated from one of its steps."""

    run_id: RunId
    plan_sha256: str
    step: str


@dataclass(slots=True)
class Takeover:
    """The first events of a new run: RunStarted, and the copied events."""

    writes: list[EventWrite] = field(default_factory=list)
    # Approvals that were given for a plan other than that of the new run.
    asked_again: list[str] = field(default_factory=list)


class Takeovers:
    """Creates the start of one new run."""

    def __init__(
        self,
        log: EventLog,
        plan: Plan,
        plan_sha256: str,
        identity: RunIdentity,
        payloads: Callable[[], Values] | None,
        artifact_ages: ArtifactAges | None = None,
    ) -> None:
        self._artifact_ages = artifact_ages or {}
        self._log = log
        self._plan = plan
        self._plan_sha256 = plan_sha256
        self._identity = identity
        self._payloads = payloads

    async def of(self, original: Original, started: dict[str, Any], at: Timestamp) -> Takeover:
        """Never raises if something does not fit: then less is copied, and the rest is performed."""
        records = await self._without_repaired(await self._before(original), original, started, at)
        takeover = Takeover()
        records = self._before_other_plans(records, original, takeover)
        if takeover.asked_again:
            started = {**started, "askedAgain": takeover.asked_again}
        copies = list(self._copies(records, original, at))
        recorded = next((_recorded_at(one) for one in records if one.event_type == EventType.RUN_STARTED), at)
        first = await self._first(started, recorded, len(copies), at)
        cut, opened = await self._fold_to_step(first, copies, original.step)
        taken = list(_as_started_here(copies[:cut], opened, original))
        if await self._is_held([first, *taken]):
            taken.append(self._resume(original, at))
        takeover.writes = [await self._first(started, recorded, len(taken), at), *taken]
        return takeover

    async def _first(
        self, started: dict[str, Any], recorded: Timestamp, taken_over: int, at: Timestamp
    ) -> EventWrite:
        """It says how many of the next events were copied, and when the run that they come from started."""
        facts = {"takenOver": taken_over, "recordedAt": recorded} if taken_over else {}
        payload = {**started, **facts}
        return new_event(self._identity, EventType.RUN_STARTED, at, await self._storable(payload))

    async def _storable(self, payload: dict[str, Any]) -> bytes:
        """Inputs can be large."""
        encoded = encode_payload(payload)
        if self._payloads is None or len(encoded) <= MAX_PAYLOAD_BYTES:
            return encoded
        return await spill(payload, self._payloads())

    async def _before(self, original: Original) -> list[EventRecord]:
        """What was recorded before the step was first reached."""
        found: list[EventRecord] = []
        async for record in records_of(self._log, original.run_id):
            if record.step_id == original.step:
                break
            found.append(record)
        return found

    async def _without_repaired(
        self, found: list[EventRecord], original: Original, started: dict[str, Any], at: Timestamp
    ) -> list[EventRecord]:
        """The events without failures beside the step that were repaired later, and without the ends of
        composites containing them.

        They are kept if something else followed from them, such as a branch that ran in the slot of one that
        had failed: it would start too early, and would be executed again.
        """
        if not any(record.event_type == EventType.STEP_FAILED for record in found):
            return found
        repaired = await failures_repaired_beside(self._log, original.run_id, self._plan, original.step)
        kept = [one for one in found if _end_of(one) not in repaired and not _ends_around(one, repaired)]
        first = await self._first(started, at, 0, at)
        for records in (kept, found) if len(kept) < len(found) else ():
            if await self._fits([first, *self._copies(records, original, at)]):
                return records
        return kept

    async def _fits(self, writes: Sequence[EventWrite]) -> bool:
        """Whether every step has events only after the machine has reached it, and ends only as decided."""
        machine, steps = Machine(self._plan), dict(walk(self._plan.workflow))
        async for _, record in _numbered(self._identity, writes, self._payloads):
            path = record.step_id
            if path is not None and not any(one.path == path for one in machine.records):
                decides_itself = isinstance(steps[plan_path(path)].body, _COMPOSITES)
                if machine.find(path) is None or (decides_itself and record.event_type in STEP_ENDS):
                    return False
            machine.advance(record)
        return True

    def _before_other_plans(
        self, records: list[EventRecord], original: Original, takeover: Takeover
    ) -> list[EventRecord]:
        """An approval is valid for the plan that it was given for; what follows one for another plan is not
        copied.
        """
        approvals = dict(_approvals(self._plan, records))
        for place, record in enumerate(records):
            if record.event_type != EventType.SIGNAL_ACCEPTED:
                continue
            signal = payload_of(record, Signal)
            path = approvals.get(signal.signal_id)
            given_for = signal.payload.get("planSha256") or original.plan_sha256
            if path is not None and given_for != self._plan_sha256:
                takeover.asked_again.append(path)
                return records[:place]
        return records

    def _copies(
        self, records: Sequence[EventRecord], original: Original, at: Timestamp
    ) -> Iterator[EventWrite]:
        # The original may be a rerun itself: some of its events were recorded by a still earlier run.
        recalled = RecalledTime()
        started = next((one.run_seq for one in records if one.event_type == EventType.RUN_STARTED), 0)
        for record in records:
            payload = fields_of(record)
            recalled.recall(payload, record.emitted_at)
            if record.event_type in _NOT_TAKEN_OVER or _is_about(original.step, record):
                continue
            if record.run_seq < started and record.event_type == EventType.SIGNAL_ACCEPTED:
                continue  # about the start of that run: here it could answer a step
            yield self._copy(record, payload, original, at, recalled.at(record.emitted_at))

    def _copy(
        self,
        record: EventRecord,
        payload: dict[str, Any],
        original: Original,
        at: Timestamp,
        recorded_at: Timestamp,
    ) -> EventWrite:
        subject = payload.get("signalId") or payload.get("key") or payload.get("stepId")
        if record.event_type in TASK_ENDS:
            payload = with_expiry(payload, at, self._artifact_ages)
        encoded = encode_payload({**payload, "reusedFrom": original.run_id, "recordedAt": recorded_at})
        return new_event(
            self._identity,
            record.event_type,
            at,
            encoded if len(encoded) <= MAX_PAYLOAD_BYTES else record.payload,
            step_id=record.step_id,
            attempt=record.logical_attempt_id,
            engine_attempt=record.engine_attempt_id,
            subject=str(subject) if subject is not None else None,
        )

    async def _fold_to_step(
        self, first: EventWrite, copies: Sequence[EventWrite], step: str
    ) -> tuple[int, dict[str, Record]]:
        """The number of events that lead to the step. What stopped it before it started, a cancel for
        example, is not copied.

        Also returns, by event, the starts that the machine decides itself, of composites and approvals, as it
        decides them here.
        """
        machine, reached = Machine(self._plan), 0
        opened: dict[str, Record] = {}
        async for number, record in _numbered(self._identity, [first, *copies], self._payloads):
            if (owed := _owed_start(machine, record)) is not None:
                opened[record.event_id] = owed
            machine.advance(record)
            if machine.inconsistent:
                break
            visit = machine.find(step)
            if (visit is not None and not visit.stopping) or any(one.path == step for one in machine.records):
                reached = number
        return reached, opened

    async def _is_held(self, writes: Sequence[EventWrite]) -> bool:
        machine = Machine(self._plan)
        async for _, record in _numbered(self._identity, writes, self._payloads):
            machine.advance(record)
        return bool(machine.hold.reasons)

    def _resume(self, original: Original, at: Timestamp) -> EventWrite:
        """The earlier run was paused; but a rerun is requested in order to run."""
        signal_id = f"rerun-{self._identity.run_id}"[:128]
        payload = {
            "signalId": signal_id,
            "signalType": "RESUME",
            "payload": {},
            "reusedFrom": original.run_id,
            "by": self._identity.run_id,
            "byMethod": "run",
        }
        return new_event(
            self._identity, EventType.SIGNAL_ACCEPTED, at, encode_payload(payload), subject=signal_id
        )


def _end_of(record: EventRecord) -> tuple[str | None, int] | None:
    """The attempt that failed with this event, or whose cost it records: a repeated attempt is paid for
    again.
    """
    if record.event_type == EventType.BUDGET_CHARGED:
        return fields_of(record).get("stepId"), record.logical_attempt_id
    return (record.step_id, record.logical_attempt_id) if record.event_type == EventType.STEP_FAILED else None


def _ends_around(record: EventRecord, inside: Collection[tuple[str | None, int]]) -> bool:
    """Whether it ends a step that contains one of these: its end followed from theirs."""
    if record.event_type not in STEP_ENDS:
        return False
    visit = str(record.step_id)
    if record.logical_attempt_id > 1:
        visit = f"{visit}#{record.logical_attempt_id}"
    return any(path is not None and path.startswith((f"{visit}/", f"{visit}[")) for path, _ in inside)


def _recorded_at(record: EventRecord) -> Timestamp:
    """By the clock of the first run, if the original is a rerun."""
    recalled = RecalledTime()
    recalled.recall(fields_of(record), record.emitted_at)
    return recalled.at(record.emitted_at)


def _is_about(step: str, record: EventRecord) -> bool:
    """Whether it is about the step that is run again: its condition is evaluated again, and a request to skip
    it is obsolete.
    """
    if record.event_type == EventType.SIGNAL_ACCEPTED:
        signal = payload_of(record, Signal)
        return signal.signal_type == "SKIP_STEP" and signal.payload.get("stepId") == step
    if record.event_type in (EventType.TIMER_FIRED, EventType.PROBE_ANSWERED):
        return (payload_of(record, TimerFired).key or "").startswith(f"{step}|")
    return False


def _approvals(plan: Plan, records: Sequence[EventRecord]) -> Iterator[tuple[str, str]]:
    """By the signal: the approval step that it has completed."""
    steps = dict(walk(plan.workflow))
    for record in records:
        if record.event_type == EventType.STEP_COMPLETED and b'"signalId"' in record.payload:
            step = steps.get(plan_path(str(record.step_id)))
            if step is not None and isinstance(step.body, Approval):
                yield payload_of(record, StepEnd).signal_id or "", str(record.step_id)


def _owed_start(machine: Machine, record: EventRecord) -> Record | None:
    if record.event_type != EventType.STEP_STARTED:
        return None
    start = (EventType.STEP_STARTED, record.step_id, record.logical_attempt_id)
    return next((one for one in machine.records if (one.event_type, one.path, one.attempt) == start), None)


def _as_started_here(
    copies: Sequence[EventWrite], opened: dict[str, Record], original: Original
) -> Iterator[EventWrite]:
    """A task that had started and not ended is started again in this run, where it was not interrupted.

    Composites and approvals stay open from where they were opened: if they were opened again, their starts
    would follow a copied pause.
    """
    ended = {(one.step_id, one.logical_attempt_id) for one in copies if one.event_type in STEP_ENDS}
    for one in copies:
        is_open = (one.step_id, one.logical_attempt_id) not in ended
        if one.event_type != EventType.STEP_STARTED or not is_open:
            yield one
        elif one.event_id in opened:
            yield _as_decided(one, opened[one.event_id], original)


def _as_decided(start: EventWrite, owed: Record, original: Original) -> EventWrite:
    """The question of an approval may be different in this run's plan."""
    encoded = encode_payload({**owed.payload, "reusedFrom": original.run_id})
    return msgspec.structs.replace(start, payload=encoded) if len(encoded) <= MAX_PAYLOAD_BYTES else start


async def _numbered(
    identity: RunIdentity, writes: Sequence[EventWrite], payloads: Callable[[], Values] | None
) -> Any:
    for number, write in enumerate(writes):
        yield number, await whole(foreseen(identity, write, number + 1, write.payload), payloads)
