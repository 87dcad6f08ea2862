"""The decision about a signal, made once: recorded with its audit record, and found again by the signal's id.

The same id with the same content gets the first decision; with other content it is refused. A decision is
appended on condition that the log has not grown since the id was looked up, so that two callers cannot decide
one id differently.
"""

from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final
from uuid import uuid4

import msgspec

from podium.access.audit import AuditDraft
from podium.access.deciding import Denial
from podium.access.operations import SIGNALS, VIEW, Operation
from podium.errors import LogMoved, PodiumError
from podium.log.events import EventRecord, EventType, EventWrite, encode_payload
from podium.log.keys import key_v1
from podium.log.payloads import Signal as SignalPayload
from podium.log.payloads import payload_of
from podium.log.runs import Run
from podium.log.times import seconds_between, timestamp
from podium.operations.access import Access, excerpt
from podium.operations.signal_refusals import MAX_PER_MINUTE
from podium.plan.canonical import canonical_json
from podium.ports.clock import Clock
from podium.ports.store import Store
from podium.runtime.callers import Caller
from podium.runtime.writing import new_event

_PAGE: Final = 1000
# A run that records more than this in a minute is not scanned to the end.
_MAX_PAGES: Final = 20
_MAX_REASON: Final = 500
# Maximum length of an unknown signal's name.
_MAX_TYPE: Final = 100
_MAX_TRIES: Final = 5
_DECISIONS: Final = (EventType.SIGNAL_ACCEPTED, EventType.SIGNAL_REJECTED)


class SignalDuplicate(PodiumError):
    """A signal id was used before, for another signal."""

    code = "SIGNAL_DUPLICATE"


class RefusedBefore(PodiumError):
    """The first decision about this signal, repeated. `code` is the one of that decision."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Signal(msgspec.Struct, frozen=True):
    """A signal that is being sent. `fields`: answers to a form as texts, to be parsed by the types that the
    form declares.
    """

    signal_type: str
    payload: dict[str, Any]
    caller: Caller
    access: Access
    fields: Mapping[str, str] = {}
    signal_id: str = msgspec.field(default_factory=lambda: str(uuid4()))
    # Hash of the content as it was sent, whatever happens to it.
    request_sha256: str = ""

    @property
    def operation(self) -> Operation:
        return SIGNALS.get(self.signal_type, VIEW)

    @property
    def reason(self) -> str | None:
        reason = self.payload.get("reason")
        return reason if isinstance(reason, str) else None

    def body(self) -> dict[str, Any]:
        actor = self.access.actor
        known = {"by": actor.name, "byUid": self.caller.uid, "byMethod": actor.method.value}
        sent = {"signalId": self.signal_id, "signalType": self.signal_type, "payload": self.payload}
        return {**sent, **known, "requestSha256": self.request_sha256}

    def draft(self, clock: Clock, run: Run, refusal: PodiumError | None = None) -> AuditDraft:
        return self.draft_for(clock, run.identity.tenant_id, run.identity.run_id, refusal)

    def draft_for(
        self, clock: Clock, tenant_id: str, run_id: str, refusal: Denial | PodiumError | None
    ) -> AuditDraft:
        """Also for a run that does not exist, or that the actor may not see."""
        plan = self.payload.get("planSha256")
        return self.access.draft(
            clock,
            excerpt(f"signal.{self.signal_type}", _MAX_TYPE),
            tenant_id,
            refusal,
            run_id=run_id,
            reason=self.reason,
            signal_id=self.signal_id,
            request_sha256=self.request_sha256,
            plan_sha256=plan if isinstance(plan, str) else None,
        )


def request_sha256(
    signal_type: str, payload: Mapping[str, Any], fields: Mapping[str, str], actor: str
) -> str:
    """Raises `NotCanonical`. Includes the actor, so that the id of another actor's signal cannot be used."""
    sent = {"signalType": signal_type, "payload": payload, "fields": fields, "by": actor}
    return sha256(canonical_json(sent)).hexdigest()


async def earlier_decision(store: Store, run: Run, signal: Signal) -> EventRecord | None:
    identity = run.identity
    keys = [
        key_v1(identity.run_id, signal.signal_id, 1, decision, identity.plan_version)
        for decision in _DECISIONS
    ]
    return next(iter(await store.find(identity.run_id, keys)), None)


def repeat_decision(run: Run, signal: Signal, earlier: EventRecord) -> None:
    """Returns if the signal was accepted. Raises the refusal of the same signal, or `SignalDuplicate`."""
    said = payload_of(earlier, SignalPayload)
    if said.request_sha256:
        is_same = said.request_sha256 == signal.request_sha256
    else:
        is_same = (said.signal_type, said.payload) == (signal.signal_type, signal.payload)
    if not is_same:
        raise SignalDuplicate(
            f"run {run.identity.run_id!r} has a signal {signal.signal_id!r} with other content; use a new id for each "
            "signal"
        )
    if earlier.event_type == EventType.SIGNAL_REJECTED:
        raise RefusedBefore(said.code, said.reason)


async def record_refusal(store: Store, clock: Clock, run: Run, signal: Signal, refusal: PodiumError) -> None:
    """Makes attempts visible in the run; their rate is limited so that an endless loop does not fill the log.
    The audit log has all of them.
    """
    with suppress(PodiumError):
        is_full = await seconds_until_room(store, clock, run, EventType.SIGNAL_REJECTED) is not None
        for tries_left in reversed(range(_MAX_TRIES)):
            run = await store.get_run(run.identity.run_id)
            earlier = await earlier_decision(store, run, signal)
            if earlier is not None:
                await _record_other(store, clock, run, signal, refusal, earlier)
                return
            if is_full:
                await audit_refusal(store, clock, run, signal, refusal)
                return
            with suppress(LogMoved):
                await _append_refusal(
                    store, clock, run, signal, refusal, after=run.head if tries_left else None
                )
                return


async def audit_refusal(store: Store, clock: Clock, run: Run, signal: Signal, refusal: PodiumError) -> None:
    """Only in the audit log: it is not the decision about this id."""
    await store.record_audit([signal.draft(clock, run, refusal)])


async def _record_other(
    store: Store, clock: Clock, run: Run, signal: Signal, refusal: PodiumError, earlier: EventRecord
) -> None:
    """The id has its decision in the log. Only a refusal that differs from it is new, and only recorded in
    the audit log.
    """
    said = payload_of(earlier, SignalPayload)
    if (said.request_sha256, said.code) != (signal.request_sha256, refusal.code):
        await audit_refusal(store, clock, run, signal, refusal)


async def _append_refusal(
    store: Store, clock: Clock, run: Run, signal: Signal, refusal: PodiumError, *, after: int | None
) -> None:
    body = signal.body()
    del body["payload"]  # of any size, and possibly of any type
    body["signalType"] = excerpt(signal.signal_type, _MAX_TYPE)
    body |= {"code": refusal.code, "reason": excerpt(str(refusal), _MAX_REASON)}
    write = signal_event(clock, run, EventType.SIGNAL_REJECTED, signal.signal_id, body)
    audit = [signal.draft(clock, run, refusal)]
    await store.append(run.identity.run_id, [write], after=after, audit=audit)


async def seconds_until_room(store: Store, clock: Clock, run: Run, event_type: EventType) -> int | None:
    """When one more such event may be recorded; None: now."""
    now = timestamp(clock.now())
    ages: list[float] = []
    last = run.head
    for _ in range(_MAX_PAGES):
        first = max(0, last - _PAGE)
        records = await store.read(run.identity.run_id, after=first, limit=last - first) if last else []
        newest_first = [one for one in reversed(records) if one.event_type == event_type]
        ages += [seconds_between(one.emitted_at, now) for one in newest_first]
        if len(ages) >= MAX_PER_MINUTE or not records or seconds_between(records[0].emitted_at, now) >= 60:
            break
        last = first
    if len(ages) < MAX_PER_MINUTE or ages[MAX_PER_MINUTE - 1] >= 60:
        return None
    return max(1, int(60 - ages[MAX_PER_MINUTE - 1]) + 1)


def signal_event(
    clock: Clock, run: Run, event_type: EventType, signal_id: str, body: dict[str, Any]
) -> EventWrite:
    at = timestamp(clock.now())
    return new_event(run.identity, event_type, at, encode_payload(body), subject=signal_id)
