"""Why does a run wait? Always an answer: an open run that waits for nothing does not exist."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from podium.core.machine import Machine
from podium.model.obligations import Obligation
from podium.model.plan import Plan
from podium.model.runs import Run
from podium.model.times import Timestamp, moment
from podium.model.transitions import TERMINAL, RunStatus
from podium.ports.artifacts import ArtifactStore
from podium.ports.store import Store
from podium.runtime.replaying import replayed


@dataclass(frozen=True, slots=True)
class Reason:
    """What a run waits for, since when or until when, and what one can do."""

    kind: str
    subject: str
    text: str
    deadline: Timestamp | None = None
    next_step: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    run: Run
    status: str
    reasons: tuple[Reason, ...]


async def explain_run(
    store: Store,
    run: Run,
    plan: Plan,
    now: datetime,
    payloads: Callable[[], ArtifactStore] | None = None,
) -> Explanation:
    run_id = run.identity.run_id
    if run.status in TERMINAL:
        return Explanation(run, run.status.value, ())
    machine = await replayed(store, run_id, plan, payloads)
    if machine.root is None and run.status in (RunStatus.PENDING, RunStatus.APPROVED):
        return Explanation(run, run.status.value, (_not_started(run, now),))
    return Explanation(run, run.status.value, reasons_of(machine, run_id))


def reasons_of(machine: Machine, run_id: str) -> tuple[Reason, ...]:
    """What an open run waits for. What holds it comes first: while it does, nothing else matters."""
    owed = machine.obligations()
    # The limit of what waits for a person is told with it.
    asked = {obligation.subject for obligation in owed if obligation.kind == "approval"}
    told = [one for one in owed if not (one.kind == "limit" and one.subject in asked)]
    held = any(one.kind == "hold" for one in told)
    told.sort(key=lambda one: one.kind != "hold")
    return tuple(_told(one, run_id, draining=held) for one in told)


def _not_started(run: Run, now: datetime) -> Reason:
    run_id = run.identity.run_id
    if run.start_at is not None and moment(run.start_at) > now:
        return Reason("start", run_id, "its start was delayed", run.start_at)
    if run.concurrency_key is not None:
        told = f"it waits in the queue for a slot of the concurrency key {run.concurrency_key!r}"
        return Reason("slot", run.concurrency_key, told)
    return Reason(
        "start", run_id, "it waits in the queue; nobody has begun it", None, f"podium resume {run_id}"
    )


def _told(obligation: Obligation, run_id: str, *, draining: bool) -> Reason:
    subject, attempt = obligation.subject, obligation.attempt
    again = f" (attempt {attempt})" if attempt > 1 else ""
    text, next_step = "", ""
    match obligation.kind:
        case "task":
            text = f"step {subject!r}{again} is running"
            if obligation.detail:
                text = f"step {subject!r}{again} is being stopped"
            elif draining:
                text = f"step {subject!r}{again} still runs; what follows from it waits until the run goes on"
            next_step = f"podium logs {run_id} {subject!r}"
        case "slot":
            text = f"step {subject!r}{again} waits for a free slot: as many tasks run as may"
        case "timer":
            what = obligation.detail or "its turn"
            text = f"step {subject!r} waits for {what}"
            if obligation.detail == "the next try":
                next_step = f"podium retry-step {run_id} {subject!r}"
        case "probe":
            text = f"the condition of step {subject!r} is being looked up"
        case "approval":
            text = f"step {subject!r} waits for a person"
            next_step = f"podium approve {run_id} {subject!r}"
        case "operator":
            text = f"step {subject!r} has failed and waits for somebody to retry or skip it"
            next_step = f"podium retry-step {run_id} {subject!r}"
        case "doubt":
            text = f"step {subject!r}{again} was interrupted, and nobody knows whether it happened"
            next_step = (
                f"podium approve {run_id} {subject!r} (it did) or podium retry-step {run_id} {subject!r}"
            )
        case "limit":
            what = f"step {subject!r}" if subject else "the run"
            text = f"{what} is open and may be so until its limit"
        case "hold":
            text = "the run is paused"
            next_step = f"podium unpause {run_id}"
            if subject == "budget":
                text = f"BUDGET_EXCEEDED: the budget {obligation.detail}".rstrip()
                next_step = (
                    f"podium resume {run_id} --budget KEY=AMOUNT (usd, tokens, or STEP.usd for a step's own)"
                )
        case "budget":
            text = f"step {subject!r}{again} waits until agents that run now have told what they cost"
        case "record":
            text = f"{subject} has been decided and is not yet in the log"
            next_step = f"podium resume {run_id}"
        case "start":
            text = "the run has not begun"
            next_step = f"podium resume {run_id}"
    return Reason(obligation.kind, subject, text, obligation.deadline, next_step)
