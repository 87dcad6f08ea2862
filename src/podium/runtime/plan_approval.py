"""The approval of a run's plan: waiting for it, and what was approved.

A run that needs one waits as PENDING and belongs to no process: neither its lease nor a slot is taken while
it waits. So it can be rejected or cancelled from anywhere, and a killed process leaves nothing behind. The
store decides what may start (`stores/rules.py`); this module is how engines wait for the decision, and
compare the plan with what was approved.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

from podium.errors import PlanNotApproved
from podium.log.events import EventRecord, EventType
from podium.log.keys import RUN_SLOT, key_v1
from podium.log.payloads import RunApproved, Signal, payload_of
from podium.log.runs import Run
from podium.log.transitions import TERMINAL
from podium.machine.obligations import Obligation
from podium.machine.progress import Progress
from podium.ports.store import EventLog
from podium.runtime.reading import records_of

LOOK_SECONDS: Final = 0.2
REJECTED: Final = "REJECTED"
_STOPPING: Final = ("CANCEL", "EMERGENCY_STOP", "REJECT")
_FAILED: Final = 1
# Fields of a signal: its sender, and how the sender was identified.
_SENDER: Final = ("signalId", "by", "byMethod", "byUid")


# The result of waiting. Stopped: a cancel was requested, and nothing has acted on it yet.
Waited: TypeAlias = Literal["approved", "stopped", "ended", "left"]


async def approval_record(log: EventLog, run: Run) -> EventRecord | None:
    """RunApproved, whatever has happened to the run since."""
    identity = run.identity
    key = key_v1(identity.run_id, RUN_SLOT, 1, EventType.RUN_APPROVED, identity.plan_version)
    found = await log.find(identity.run_id, [key])
    return found[0] if found else None


async def require_approved_plan(log: EventLog, run: Run, plan_sha256: str) -> None:
    """Raises `PlanNotApproved` if the run was approved for another plan than the one that is about to run."""
    record = await approval_record(log, run)
    if record is None:
        return  # nothing of it starts: the store enforces that
    approved = payload_of(record, RunApproved).plan_sha256
    if approved != plan_sha256:
        raise PlanNotApproved(run.identity.run_id, approved, plan_sha256)


async def stop_signal(log: EventLog, run: Run) -> EventRecord | None:
    """The signal that ends a run before it starts, if one was accepted."""
    async for record in records_of(log, run.identity.run_id):
        is_signal = record.event_type == EventType.SIGNAL_ACCEPTED
        if is_signal and payload_of(record, Signal).signal_type in _STOPPING:
            return record  # of several, the first one decides
    return None


def facts_of_answer(body: Mapping[str, Any]) -> dict[str, Any]:
    """What is recorded of an answer besides its outcome. `body`: that of its SignalAccepted."""
    facts = {name: body[name] for name in _SENDER if body.get(name) is not None}
    return facts | {
        name: body["payload"][name] for name in ("claimedBy", "reason") if body["payload"].get(name)
    }


def rejected_end(body: Mapping[str, Any]) -> dict[str, Any]:
    """The payload of RunFailed for a run that was rejected before it started."""
    facts = facts_of_answer(body)
    message = str(facts.get("reason") or f"the plan was rejected by {facts.get('by', 'unknown')}")
    error = {"category": "USER", "code": REJECTED, "message": message, "retryable": False}
    return {**facts, "exitCode": _FAILED, "reason": "rejected", "error": error}


def waiting_for_approval(run: Run) -> Obligation:
    """What `podium why` and a live view show."""
    return Obligation("plan_approval", run.identity.run_id, since=run.created_at, detail=run.plan_sha256)


async def wait_for_approval(
    log: EventLog,
    look: Callable[[], Awaitable[Run]],
    *,
    on_waiting: Callable[[Progress], None] | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
    no_wait: bool = False,
) -> Waited:
    """Wait until the plan of a run is approved, or the run is stopped or has ended. `look` returns its row."""
    seen, shown = 0, False
    while True:
        run = await look()
        if not run.waits_for_approval:
            return "ended" if run.status in TERMINAL else "approved"
        if is_cancelled() or (run.head != seen and await stop_signal(log, run) is not None):
            return "stopped"
        seen = run.head
        if no_wait:
            return "left"
        if on_waiting is not None and not shown:
            on_waiting(Progress([waiting_for_approval(run)]))
            shown = True
        await asyncio.sleep(LOOK_SECONDS)
