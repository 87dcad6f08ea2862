"""Approving or rejecting the plan of a run before it starts.

An approval names the SHA-256 of the plan, so that what starts is what was approved. The signal and what follows from it
(RunApproved, or RunFailed with the code REJECTED) are one append, on condition that nothing came in between: of several
people who decide at the same time one wins, and the error that the others get names that person.
"""

from collections.abc import Mapping
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final, NamedTuple

from podium.errors import PodiumError
from podium.log.events import EventType, EventWrite, encode_payload
from podium.log.leases import Fence
from podium.log.payloads import RunApproved, payload_of
from podium.log.runs import Run
from podium.log.times import Timestamp
from podium.operations.signal_payloads import InvalidSignal
from podium.ports.store import Store
from podium.runtime import holders
from podium.runtime.lock import RunLocked
from podium.runtime.plan_approval import approval_record, stop_signal
from podium.runtime.plan_file import plan_content
from podium.runtime.writing import new_event

REJECTED: Final = "REJECTED"
_FAILED: Final = 1
_ANSWERS: Final = ("APPROVE", "REJECT")
# Answers to the form of an approval step, and where a rejected one continues.
_OF_STEPS: Final = ("form", "to")


class ApprovalPlanMismatch(PodiumError):
    """The approval is for another plan than the run has."""

    code = "APPROVAL_PLAN_MISMATCH"


class ApprovalDecided(PodiumError):
    """The run does not wait for an approval of its plan any more."""

    code = "APPROVAL_DECIDED"


class PlanAnswer(NamedTuple):
    """What follows from the signal: appended behind its SignalAccepted, in the same transaction."""

    write: EventWrite
    # On condition that this is the run's newest record.
    after: int
    # The end of a run needs its lease.
    fence: Fence | None = None


def is_about_plan(run: Run, signal_type: str, payload: Mapping[str, Any]) -> bool:
    """Whether a signal answers if the run may start, and not what one of its steps asks.

    One that names a plan never answers a step of a run that has been approved: its sender wanted to approve the start.
    """
    if signal_type not in _ANSWERS or payload.get("stepId") is not None:
        return False
    return run.waits_for_approval or (run.needs_approval and payload.get("planSha256") is not None)


async def answer_plan(
    store: Store, run: Run, signal_type: str, body: Mapping[str, Any], at: Timestamp
) -> PlanAnswer:
    """What follows from APPROVE or REJECT of an open run. `body`: of its SignalAccepted.

    Raises `ApprovalPlanMismatch`, `ApprovalDecided`, `InvalidSignal`. If the append raises `LogMoved`, ask again with
    the run as it is then.
    """
    payload = body["payload"]
    _check_fields(run, signal_type, payload)
    await _require_undecided(store, run)
    await _check_plan(store, run, payload.get("planSha256"))
    facts = {
        name: body[name] for name in ("signalId", "by", "byMethod", "byUid") if body.get(name) is not None
    }
    facts |= {name: payload[name] for name in ("claimedBy", "reason") if payload.get(name)}
    if signal_type == "APPROVE":
        approved = encode_payload({"planSha256": run.plan_sha256, **facts})
        return PlanAnswer(new_event(run.identity, EventType.RUN_APPROVED, at, approved), run.head)
    return PlanAnswer(_rejected(run, facts, at), run.head, await _fence(store, run))


def _check_fields(run: Run, signal_type: str, payload: Mapping[str, Any]) -> None:
    run_id = run.identity.run_id
    if signal_type == "APPROVE" and payload.get("planSha256") is None:
        raise InvalidSignal(
            f"run {run_id!r} waits for an approval of its plan, which has to name the plan by its SHA-256: "
            f"`podium approve {run_id} --plan-sha256 {run.plan_sha256}`"
        )
    extra = [name for name in _OF_STEPS if payload.get(name)]
    if extra:
        raise InvalidSignal(
            f"{extra[0]!r} is for an approval step; run {run_id!r} waits for an approval of its plan"
        )


async def _require_undecided(store: Store, run: Run) -> None:
    run_id = run.identity.run_id
    if not run.waits_for_approval:
        raise ApprovalDecided(
            f"run {run_id!r} does not wait for an approval of its plan: {await _decision(store, run)}"
        )
    if await stop_signal(store, run) is not None:
        raise ApprovalDecided(f"run {run_id!r} is being cancelled and does not start")


async def _decision(store: Store, run: Run) -> str:
    record = await approval_record(store, run)
    if record is None:
        return f"it is {run.status.value.lower()}"
    return f"it was approved {approved_by(payload_of(record, RunApproved))} at {record.emitted_at[:19]}Z"


def approved_by(approval: RunApproved) -> str:
    """`by ada (os-user)`, as decisions about steps are shown."""
    how = f" ({approval.by_method})" if approval.by_method else ""
    claim = f", who gave the name {approval.claimed_by!r}" if approval.claimed_by else ""
    return f"by {approval.by or 'unknown'}{how}{claim}"


async def _check_plan(store: Store, run: Run, given: str | None) -> None:
    """The plan that was named is the run's, and its bytes in the store are that plan."""
    run_id = run.identity.run_id
    if given is not None and given.lower() != run.plan_sha256:
        raise ApprovalPlanMismatch(
            f"the approval is for the plan with SHA-256 {given}, and run {run_id!r} has the plan {run.plan_sha256}; "
            "approve a run only for the plan that you have looked at"
        )
    if given is None:
        return
    actual = sha256(await plan_content(store, None, run)).hexdigest()
    if actual != run.plan_sha256:
        raise ApprovalPlanMismatch(
            f"run {run_id!r} was created with the plan {run.plan_sha256}, and the store has another one, with SHA-256 "
            f"{actual}; cancel the run and start it again"
        )


def _rejected(run: Run, facts: Mapping[str, Any], at: Timestamp) -> EventWrite:
    message = str(facts.get("reason") or f"the plan was rejected by {facts.get('by', 'unknown')}")
    error = {"category": "USER", "code": REJECTED, "message": message, "retryable": False}
    end = {**facts, "exitCode": _FAILED, "reason": "rejected", "error": error}
    return new_event(run.identity, EventType.RUN_FAILED, at, encode_payload(end))


async def _fence(store: Store, run: Run) -> Fence:
    """While a run waits for its approval no process holds it: its end is recorded by the one that rejects it.

    The lease is never live, so it takes no slot; the end of the run gives it up.
    """
    run_id = run.identity.run_id
    lease = await store.claim(run_id, owner=holders.new_owner(), ttl=timedelta())
    if lease is None:
        held = await store.held_lease(run_id)
        raise RunLocked(run_id, holders.describe(held.lease.owner) if held is not None else None)
    return lease.fence
