"""What every store decides in the same way: which writes are new, which process may write them, and what
follows for the run.

The stores differ in how they find and store rows. The *meaning* of an append is defined here, once, so that
memory, SQLite and PostgreSQL always agree.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from hashlib import sha256
from itertools import takewhile
from typing import Final

import msgspec
from msgspec.structs import replace

from podium.errors import (
    BusFilterConflict,
    ConcurrencyLimit,
    ContentDamaged,
    InvalidEvent,
    PlanNotApproved,
    RunNotApproved,
    RunNotPrunable,
    RunRequestConflict,
    StaleFence,
)
from podium.log.events import EventRecord, EventType, EventWrite, RunIdentity, check_write, is_key
from podium.log.ids import RunId
from podium.log.keys import RUN_SLOT, key_v1, keys_of_other_ends
from podium.log.leases import AttemptClaim, Fence, attempt_name, may_write
from podium.log.outbox import BusFilter
from podium.log.payloads import RunApproved, RunStarted, read_as
from podium.log.runs import NewRun, Run, request_id_of
from podium.log.times import Timestamp
from podium.log.transitions import (
    EXCLUDED_BY,
    IN_PROGRESS,
    STEP_ENDS,
    TASK_ENDS,
    TERMINAL,
    RunStatus,
    run_status_after,
)
from podium.ports.store import AppendedEvent, SlotLine

# Rows of the outbox per transaction when a bus is filled or removed, so that others can write in between.
BUS_BATCH_SIZE: Final = 10_000


class BusState(StrEnum):
    """A bus that is being filled already receives new events, and can be claimed once it is open; one being
    removed does neither.
    """

    FILLING = "filling"
    OPEN = "open"
    REMOVING = "removing"


def check_filter(bus: str, only: BusFilter | None, registered: BusFilter) -> None:
    """A filter cannot change: events that were left out would be missing, or out of order if they were added
    later.
    """
    if only is not None and only != registered:
        raise BusFilterConflict(
            f"bus {bus!r} was registered with another filter; deliver to it without a filter, or give it up first with "
            f"`podium outbox remove`"
        )


def check_writes(writes: Sequence[EventWrite]) -> None:
    for write in writes:
        check_write(write)


def check_one_end(writes: Sequence[EventWrite]) -> None:
    """Refuse an append that would itself end one attempt twice."""
    if len(writes) == 1:
        return
    ending = [write for write in writes if write.event_type in EXCLUDED_BY]
    if len(ending) < 2:
        return
    ends: dict[tuple[str | None, int], set[str]] = {}
    for write in ending:
        before = ends.setdefault((write.step_id, write.logical_attempt_id), set())
        if not before.isdisjoint(EXCLUDED_BY[write.event_type]):
            raise InvalidEvent(
                f"attempt {write.logical_attempt_id} of {write.step_id!r} would end twice: {write.event_type} "
                f"after {', '.join(sorted(before))}"
            )
        before.add(write.event_type)


def may_end_twice(writes: Sequence[EventWrite], after: int | None) -> bool:
    """Whether the attempts that these writes end have to be looked up.

    Not if the append names the newest record (`after`): then it was decided on the whole log, including every
    end in it, and is refused if another end was appended since. Drivers append in this way for every step,
    and three look-ups would take a fifth of the time of an append.
    """
    return after is None and any(write.event_type in EXCLUDED_BY for write in writes)


def key_bytes(keys: Sequence[str]) -> list[bytes]:
    """The form in which stores keep them, without duplicates; invalid keys are omitted, because no event has
    them.
    """
    return [bytes.fromhex(key) for key in dict.fromkeys(keys) if is_key(key)]


def other_ends(run: RunIdentity, write: EventWrite) -> tuple[str, ...]:
    """The keys of records that would make this write a second end of its attempt."""
    step_id = write.step_id
    if step_id is None or write.event_type not in EXCLUDED_BY:
        return ()
    return keys_of_other_ends(
        run.run_id, step_id, write.logical_attempt_id, write.event_type, run.plan_version
    )


def keys_of_starts(writes: Sequence[EventWrite]) -> list[str]:
    """Keys of those starts that a pause forbids: after a RunResumed the run is not paused."""
    paused = takewhile(lambda write: write.event_type != EventType.RUN_RESUMED, writes)
    return [write.idempotency_key for write in paused if write.event_type == EventType.STEP_STARTED]


def keys_of_ends(run: RunIdentity, claim: AttemptClaim) -> tuple[str, ...]:
    """The keys of the records that can be the end of an attempt."""
    step_id, attempt = claim.step_id, claim.logical_attempt_id
    return tuple(key_v1(run.run_id, step_id, attempt, end, run.plan_version) for end in STEP_ENDS)


def recorded(
    run: RunIdentity, writes: Sequence[EventWrite], find: Callable[[str], EventRecord | None], *, ends: bool
) -> dict[str, EventRecord]:
    """By the key of a write, the existing record: the same event, or another end of its attempt.

    `find` returns the record with a key; `ends` says whether other ends count (`may_end_twice`). A second end
    is answered like a repeated event that differs: the recorded end stays the end.
    """
    found = {}
    for write in writes:
        record = find(write.idempotency_key)
        if record is None and ends:
            others = (find(key) for key in other_ends(run, write))
            record = next((other for other in others if other is not None), None)
        if record is not None:
            found[write.idempotency_key] = record
    return found


def new_writes(writes: Sequence[EventWrite], known: Mapping[str, EventRecord]) -> Sequence[EventWrite]:
    """The writes whose keys are not in the log yet, each key once."""
    if not known and len(writes) == 1:
        return writes
    fresh: dict[str, EventWrite] = {}
    for write in writes:
        if write.idempotency_key not in known:
            fresh.setdefault(write.idempotency_key, write)
    return list(fresh.values())


def check_fence(run_id: str, fresh: Sequence[EventWrite], fence: Fence | None, current: int | None) -> None:
    """`current` is the present generation of the fence's lease; None if the lease is not held."""
    if fence is not None and fence.generation != current:
        raise StaleFence(
            f"the lease of run {run_id!r} was taken over by another process; stop working on it and read its log"
        )
    for write in fresh:
        if not may_write(write.event_type, write.step_id, write.logical_attempt_id, fence):
            raise StaleFence(
                f"{write.event_type} may only be recorded by the holder of the lease; claim run {run_id!r} first"
            )


def ended_attempt(write: EventWrite, fence: Fence | None) -> str | None:
    """The attempt that this write would end under the lease of its run, which is not allowed while a worker
    holds the attempt's lease.
    """
    if write.event_type not in TASK_ENDS or write.step_id is None or fence is None or fence.attempt:
        return None
    return attempt_name(write.step_id, write.logical_attempt_id)


def check_ends(fresh: Sequence[EventWrite], fence: Fence | None, is_held: Callable[[str], bool]) -> None:
    """An attempt that a worker executes may only be ended by that worker. `is_held`: whether its lease is
    live.
    """
    for write in fresh:
        name = ended_attempt(write, fence)
        if name is not None and is_held(name):
            raise StaleFence(
                f"{write.event_type} of attempt {write.logical_attempt_id} of {write.step_id!r} may only be recorded "
                "under the lease of that attempt, which a worker holds; wait for its end, or stop the worker first"
            )


# Events that let a run work: its start, and its reopening.
_OPENS: Final = frozenset({EventType.RUN_STARTED.value, EventType.RUN_REOPENED.value})


def opens(before: RunStatus, fresh: Sequence[EventWrite]) -> bool:
    """Whether these events let a run work that does not: then an approval that it needs has to be in the log."""
    if before in IN_PROGRESS or status_after(before, fresh) is before:
        return False
    return any(write.event_type in _OPENS for write in fresh)


def key_of_approval(run: RunIdentity) -> str:
    return key_v1(run.run_id, RUN_SLOT, 1, EventType.RUN_APPROVED, run.plan_version)


def check_approved(run: RunIdentity, fresh: Sequence[EventWrite], approval: bytes | None) -> None:
    """For a run that needs an approval. `approval`: the payload of its RunApproved, or None.

    Every engine starts a run by an append, so none of them can bypass this check.
    """
    for write in fresh:
        if write.event_type == EventType.RUN_APPROVED:
            approval = write.payload
        if write.event_type not in _OPENS:
            continue
        if approval is None:
            raise RunNotApproved(
                f"run {run.run_id!r} has not been approved and does not start; `podium why {run.run_id}` shows what "
                "it waits for"
            )
        if write.event_type == EventType.RUN_STARTED:
            _check_approved_plan(run, write.payload, approval)


def _check_approved_plan(run: RunIdentity, started: bytes, approval: bytes) -> None:
    approved = read_as(RunApproved, approval)[0].plan_sha256
    actual = read_as(RunStarted, started)[0].plan_sha256
    if approved is None or approved != actual:
        raise PlanNotApproved(run.run_id, approved, actual)


def records_of(
    run: RunIdentity, fresh: Sequence[EventWrite], head: int, persisted_at: Timestamp
) -> list[EventRecord]:
    """The records that new writes become."""
    return [
        EventRecord(
            run,
            seq,
            write.event_id,
            write.event_type,
            write.step_id,
            write.logical_attempt_id,
            write.engine_attempt_id,
            write.idempotency_key,
            write.emitted_at,
            persisted_at,
            write.payload,
        )
        for seq, write in enumerate(fresh, start=head + 1)
    ]


def status_after(status: RunStatus, fresh: Sequence[EventWrite]) -> RunStatus:
    """The status of the run after new events; events that are not allowed do not change it."""
    for write in fresh:
        status = run_status_after(status, write.event_type) or status
    return status


def outcome(
    writes: Sequence[EventWrite], known: Mapping[str, EventRecord], stored: Sequence[EventRecord]
) -> tuple[AppendedEvent, ...]:
    """The result of an append, write by write."""
    if not known and len(stored) == len(writes):
        return tuple([AppendedEvent(record, False, False) for record in stored])
    just_stored = {record.idempotency_key: record for record in stored}
    answers = []
    for write in writes:
        earlier = known.get(write.idempotency_key)
        if earlier is not None:
            answers.append(AppendedEvent(earlier, duplicate=True, differs=_differs(write, earlier)))
        else:
            record = just_stored[write.idempotency_key]
            repeated = record.event_id != write.event_id
            answers.append(AppendedEvent(record, duplicate=repeated, differs=_differs(write, record)))
    return tuple(answers)


def _differs(write: EventWrite, record: EventRecord) -> bool:
    """Whether a repeated event differs; ids, times and engine attempts naturally may."""
    return (write.event_type, write.step_id, write.logical_attempt_id, write.payload) != (
        record.event_type,
        record.step_id,
        record.logical_attempt_id,
        record.payload,
    )


class Content(msgspec.Struct, frozen=True):
    """Bytes to be stored for a run."""

    name: str
    sha256: bytes
    content: bytes


def contents_of(contents: Mapping[str, bytes]) -> list[Content]:
    """Contents ready to be written. They are hashed before anything is locked, because that takes as long as
    writing them.
    """
    return [Content(name, sha256(content).digest(), content) for name, content in contents.items()]


def checked_content(run_id: str, name: str, digest: bytes, content: bytes) -> bytes:
    """The bytes that were read, if they are those that were written."""
    if sha256(content).digest() != digest:
        raise ContentDamaged(run_id, name)
    return content


# How long a refused caller is asked to wait: the time in which a lease is renewed or lapses.
RETRY_AFTER_SECONDS = 30


def check_same_request(new: NewRun, plan_sha256: str, inputs_sha256: str) -> None:
    """A repeated request must ask for the same thing."""
    if (new.plan_sha256, new.inputs_sha256) != (plan_sha256, inputs_sha256):
        raise RunRequestConflict(
            f"request {request_id_of(new)!r} was made before with another plan or other inputs; use a new request id"
        )


def first_row(new: NewRun, now: Timestamp) -> Run:
    """The row of a run before its first event."""
    return Run(
        identity=new.identity,
        run_request_id=request_id_of(new),
        status=RunStatus.PENDING,
        head=0,
        priority=new.priority,
        concurrency_key=new.concurrency_key,
        plan_sha256=new.plan_sha256,
        inputs_sha256=new.inputs_sha256,
        created_at=new.created_at or now,
        updated_at=now,
        start_at=new.start_at,
        engine=new.engine,
        metadata=new.metadata,
        plan_ref=new.plan_ref,
        needs_approval=new.needs_approval,
        pool=new.pool,
        concurrency_limit=new.concurrency_limit,
        labels=new.labels,
    )


def row_after(row: Run, fresh: Sequence[EventWrite], stored: int, now: Timestamp) -> Run:
    return replace(row, status=status_after(row.status, fresh), head=row.head + stored, updated_at=now)


# How long a worker without heartbeats remains listed.
FORGET_WORKER_AFTER: Final = timedelta(days=1)

# Due time of a parked run that only an event can wake.
NEVER: Final = "9999-12-31T23:59:59.999999Z"
# Due time of a parked run that an event has woken.
WOKEN: Final = ""


def may_start(row: Run, *, now: Timestamp) -> bool:
    """Whether a run waits in the queue and its time has come."""
    if row.start_at is not None and row.start_at > now:
        return False
    return row.status is RunStatus.APPROVED or (row.status is RunStatus.PENDING and not row.needs_approval)


def scopes(run: RunIdentity, concurrency_key: str | None) -> list[tuple[str, str, str]]:
    """The limits that apply to a run, as (tenant, scope, name)."""
    named = [("tenant", run.tenant_id), ("project", run.project_id), ("plan", run.plan_id)]
    if concurrency_key is not None:
        named.append(("concurrency", concurrency_key))
    return [(run.tenant_id, scope, name) for scope, name in named]


def describe_limit(scope: tuple[str, str, str], most: int) -> str:
    _, kind, name = scope
    return f"the limit of {most} concurrent runs for {kind} {name!r}"


def describe_key(row: Run) -> str:
    """Description of the key of a run that waits for its turn."""
    return describe_limit(
        (row.identity.tenant_id, "concurrency", row.concurrency_key or ""), row.concurrency_limit or 0
    )


def refused_by_key(new: NewRun, holders: Sequence[Run]) -> ConcurrencyLimit:
    """The error for an exclusive run, naming those that have its key.

    Only those of its project: the caller, and readers of the times of a schedule, may not see others.
    """
    project = new.identity.project_id
    named = [one.identity.run_id for one in holders if one.identity.project_id == project]
    held = ", ".join(named[:3]) or "a run of another project"
    return ConcurrencyLimit(
        f"run {new.identity.run_id!r} was not created: {new.concurrency_limit} at a time may use the concurrency key "
        f"{new.concurrency_key!r}, held by {held}; start it again when that run has ended, or set "
        "`on_conflict: queue` to wait for it"
    )


def check_prunable(row: Run, *, undelivered: bool) -> None:
    if row.status not in TERMINAL:
        raise RunNotPrunable(f"run {row.identity.run_id!r} is {row.status}; only ended runs can be removed")
    if undelivered:
        raise RunNotPrunable(
            f"run {row.identity.run_id!r} has undelivered events; see `podium outbox list`, then prune again"
        )


def has_slot(line: SlotLine, run_id: str, slots: int) -> bool:
    """Whether a run may work in addition to the working ones and those that precede it."""
    waiting = [lease.run_id for lease in line.waiting]
    ahead = waiting.index(RunId(run_id)) if run_id in waiting else 0
    others = sum(lease.run_id != run_id for lease in line.holders)
    return others + ahead < slots
