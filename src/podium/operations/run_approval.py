"""Approves or rejects the plan of a run before it starts.

An approval names the SHA-256 of the plan, so that what starts is what was approved. The signal and its
consequence (RunApproved, or RunFailed with the code REJECTED) are one append, on condition that nothing was
appended since: of several people who decide concurrently one wins, and the error that the others get names
that person.
"""

from collections.abc import Mapping
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final, NamedTuple

from podium.errors import PodiumError
from podium.log.engines import LOCAL
from podium.log.events import EventRecord, EventType, EventWrite, encode_payload
from podium.log.leases import Fence
from podium.log.payloads import RunApproved, Signal, payload_of
from podium.log.runs import Run
from podium.log.times import Timestamp
from podium.operations.signal_payloads import InvalidSignal
from podium.ports.store import Store
from podium.runtime import holders
from podium.runtime.lock import RunLocked
from podium.runtime.plan_approval import approval_record, facts_of_answer, rejected_end, stop_signal
from podium.runtime.plan_file import plan_content
from podium.runtime.writing import new_event

_ANSWERS: Final = ("APPROVE", "REJECT")
# Answers to the form of an approval step, and where a rejected one continues.
_OF_STEPS: Final = ("form", "to")


class ApprovalPlanMismatch(PodiumError):
    """The approval is for another plan than the run has."""

    code = "APPROVAL_PLAN_MISMATCH"


class ApprovalDecided(PodiumError):
    """The run no longer waits for an approval of its plan."""

    code = "APPROVAL_DECIDED"


class PlanAnswer(NamedTuple):
    """The consequence of the signal: appended after its SignalAccepted, in the same transaction."""

    writes: tuple[EventWrite, ...]
    # On condition that this is the run's newest record.
    after: int
    # Recording the end of a run requires its lease.
    fence: Fence | None = None


def is_about_plan(run: Run, signal_type: str, payload: Mapping[str, Any]) -> bool:
    """Whether a signal decides about the start of the run, and does not answer one of its steps.

    One that names a plan never answers a step of a run that has been approved: its sender wanted to approve
    the start.
    """
    if signal_type not in _ANSWERS or payload.get("stepId") is not None:
        return False
    return run.waits_for_approval or (run.needs_approval and payload.get("planSha256") is not None)


async def answer_plan(
    store: Store, run: Run, signal_type: str, body: Mapping[str, Any], at: Timestamp
) -> PlanAnswer:
    """The consequence of APPROVE or REJECT for an open run. `body`: that of its SignalAccepted.

    Raises `ApprovalPlanMismatch`, `ApprovalDecided`, `InvalidSignal`. If the append raises `LogMoved`, call
    it again with the current row of the run.
    """
    payload = body["payload"]
    _check_fields(run, signal_type, payload)
    await _require_undecided(store, run)
    await _check_plan(store, run, payload.get("planSha256"))
    if signal_type == "APPROVE":
        approved = encode_payload({"planSha256": run.plan_sha256, **facts_of_answer(body)})
        return PlanAnswer((new_event(run.identity, EventType.RUN_APPROVED, at, approved),), run.head)
    if run.provider != LOCAL:
        return PlanAnswer((), run.head)  # its engine ends it, and what waits there
    end = new_event(run.identity, EventType.RUN_FAILED, at, encode_payload(rejected_end(body)))
    return PlanAnswer((end,), run.head, await _fence(store, run))


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
    stop = await stop_signal(store, run)
    if stop is not None:
        raise ApprovalDecided(f"run {run_id!r} {describe_stop(stop)}, and does not start")


def describe_stop(stop: EventRecord) -> str:
    """The decision about a run before it started, and its author."""
    signal = payload_of(stop, Signal)
    what = "was rejected" if signal.signal_type == "REJECT" else "is being cancelled"
    return f"{what} by {signal.by}" if signal.by else what


async def _decision(store: Store, run: Run) -> str:
    approval = await describe_approval(store, run)
    return f"it was approved {approval}" if approval is not None else f"it is {run.status.value.lower()}"


async def describe_approval(store: Store, run: Run) -> str | None:
    """`by ada (os-user) at ...`, in the format of decisions about steps; None if its plan was not approved."""
    record = await approval_record(store, run)
    if record is None:
        return None
    approval = payload_of(record, RunApproved)
    how = f" ({approval.by_method})" if approval.by_method else ""
    claim = f", who gave the name {approval.claimed_by!r}" if approval.claimed_by else ""
    return f"by {approval.by or 'unknown'}{how}{claim} at {record.emitted_at[:19]}Z"


async def _check_plan(store: Store, run: Run, given: str | None) -> None:
    """Check that the named plan is the run's, and that its bytes in the store are that plan."""
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


async def _fence(store: Store, run: Run) -> Fence:
    """While a run waits for its approval no process holds it, so the process that rejects it records its end.

    The lease is never live, so it takes no slot; the end of the run releases it.
    """
    run_id = run.identity.run_id
    lease = await store.claim(run_id, owner=holders.new_owner(), ttl=timedelta())
    if lease is None:
        held = await store.held_lease(run_id)
        raise RunLocked(run_id, holders.describe(held.lease.owner) if held is not None else None)
    return lease.fence
