"""Explains why a run waits. There is always an answer: an open run always waits for something."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from shlex import quote
from typing import Final, NamedTuple

from podium.log.events import EventType
from podium.log.ids import RunId
from podium.log.payloads import Signal, payload_of
from podium.log.runs import Run
from podium.log.times import Timestamp, moment
from podium.log.transitions import STEP_ENDS, TERMINAL, RunStatus
from podium.machine import Machine
from podium.machine.obligations import Obligation
from podium.machine.reopening import Cause, causes
from podium.operations.driving import RunDriver, open_driver
from podium.operations.form_hints import field_options, values_wanted
from podium.operations.parts import Parts
from podium.plan.loading import plan_path, walk
from podium.plan.plan import Plan
from podium.ports.engine import EngineTrouble
from podium.ports.store import Store
from podium.runtime import holders
from podium.runtime.plan_approval import stop_signal, waiting_for_approval
from podium.runtime.reading import records_of
from podium.runtime.replaying import MachineOf, replayed
from podium.runtime.spilling import Values


class NextCommand(NamedTuple):
    """A command that a person can call as it is, and its explanation."""

    text: str
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Reason:
    """What a run waits for, since when or until when, and what can be done."""

    kind: str
    subject: str
    text: str
    deadline: Timestamp | None = None
    commands: tuple[NextCommand, ...] = ()

    @property
    def next_step(self) -> str:
        return " or ".join(
            f"{one.text} ({one.meaning})" if one.meaning else one.text for one in self.commands
        )


@dataclass(frozen=True, slots=True)
class Explanation:
    run: Run
    status: str
    reasons: tuple[Reason, ...]
    # Its last driver, if the run needs one and no live process drives it.
    undriven: RunDriver | None = None
    # For a run that did not complete: what `resume` does with the steps that ended it.
    if_resumed: tuple[Reason, ...] = ()

    @property
    def substatus(self) -> str | None:
        return substatus_of(self.reasons)


def substatus_of(reasons: Iterable[Reason]) -> str | None:
    """WAITING_APPROVAL before the plan is approved, RECOVERING while no worker can continue the run, RETRYING
    while a failed step waits for an operator, IN_DOUBT while a person has to say whether a step took effect,
    DRAINING while a paused run still has steps running.
    """
    kinds = {reason.kind for reason in reasons}
    if "plan_approval" in kinds:
        return "WAITING_APPROVAL"
    if kinds & {"worker", "execution"}:
        return "RECOVERING"
    if "operator" in kinds:
        return "RETRYING"
    if "doubt" in kinds:
        return "IN_DOUBT"
    return "DRAINING" if {"hold", "task"} <= kinds else None


async def explain(parts: Parts, tenant_id: str, run_id: str) -> Explanation:
    """Raises `RunNotFound`, also for another tenant's run."""
    run = await parts.store.runs.find(tenant_id, run_id)
    plan = await parts.plan_of(run)
    explained = await explain_run(
        parts.store, run, plan, parts.clock.now(), parts.values(run_id), parts.machine_of
    )
    if run.status in TERMINAL or parts.trouble_of is None:
        return explained
    trouble = [_of_engine(one) for one in await parts.trouble_of(run)]
    return replace(explained, reasons=(*trouble, *explained.reasons))


def _of_engine(trouble: EngineTrouble) -> Reason:
    commands = (NextCommand(trouble.command),) if trouble.command else ()
    return Reason(trouble.kind, trouble.subject, trouble.text, None, commands)


async def explain_run(
    store: Store,
    run: Run,
    plan: Plan,
    now: datetime,
    payloads: Callable[[], Values] | None = None,
    machine_of: MachineOf = replayed,
) -> Explanation:
    run_id = run.identity.run_id
    if run.status in TERMINAL:
        again = await if_resumed(store, run, plan, payloads)
        return Explanation(run, run.status.value, (), if_resumed=again)
    if run.waits_for_approval:
        return Explanation(run, run.status.value, (await _waits_to_start(store, run),))
    driver = await open_driver(store, run)
    if driver is not None and driver.in_line:
        slot = Reason("slot", run.concurrency_key or "", driver.in_line)
        return Explanation(run, run.status.value, (slot,))
    machine = await machine_of(store, run_id, plan, payloads)
    if machine.root is None and run.status in (RunStatus.PENDING, RunStatus.APPROVED):
        return Explanation(run, run.status.value, (_not_started(run, now),))
    lost = driver if driver is not None and not driver.is_alive else None
    if run.pool is not None:
        reasons = await _reasons_in_pool(store, machine, run_id, run.pool)
    else:
        reasons = reasons_of(machine, run_id, is_driven=lost is None)
    return Explanation(run, run.status.value, reasons, undriven=lost)


async def _reasons_in_pool(store: Store, machine: Machine, run_id: RunId, pool: str) -> tuple[Reason, ...]:
    """Workers take a run over automatically; but there may be none."""
    held = await store.held_lease(run_id)
    is_driven = held is not None and held.is_live and not holders.is_gone(held.lease.owner)
    reasons = reasons_of(machine, run_id, is_driven=is_driven)
    return tuple(_continued_by_hosts(one, run_id, pool) for one in reasons)


def _continued_by_hosts(reason: Reason, run_id: str, pool: str) -> Reason:
    """A process that resumes a run of a pool does not execute it."""
    if reason.kind not in _NEEDS_DRIVER | {"start", "record"}:
        return reason
    resume = f"podium resume {run_id}"
    commands = (_host_of(pool) if one.text == resume else one for one in reason.commands)
    return replace(reason, commands=tuple(commands))


def _host_of(pool: str) -> NextCommand:
    return NextCommand(f"podium worker --pool {pool}", "if no host of its pool is running")


async def _waits_to_start(store: Store, run: Run) -> Reason:
    """The run waits for the approval of its plan; or for its end, if that was decided and not recorded yet."""
    run_id = run.identity.run_id
    stop = await stop_signal(store, run)
    if stop is None:
        return reason_for(waiting_for_approval(run), run_id)
    what = "rejected" if payload_of(stop, Signal).signal_type == "REJECT" else "cancelled"
    return Reason("record", run_id, f"the run was {what} before its start, and its end is not yet in the log")


async def if_resumed(
    store: Store, run: Run, plan: Plan, payloads: Callable[[], Values] | None = None
) -> tuple[Reason, ...]:
    """The steps that ended a run. One that failed runs again; one that completed does not, so the end is the
    same.
    """
    if run.status is not RunStatus.FAILED:
        return ()
    run_id = run.identity.run_id
    machine = await replayed(store, run_id, plan, payloads)
    ended_by = causes(machine)
    doubted = await _in_doubt(store, run_id, plan, ended_by)
    return tuple(
        _doubt_reason(cause, run_id) if cause.path in doubted else _cause_reason(cause, run_id)
        for cause in ended_by
    )


async def _in_doubt(store: Store, run_id: RunId, plan: Plan, ended_by: Sequence[Cause]) -> frozenset[str]:
    """The steps that failed because it is unknown whether they took effect (`on_doubt: fail`)."""
    steps = dict(walk(plan.workflow))
    paths = {
        cause.path
        for cause in ended_by
        if (step := steps.get(plan_path(cause.path))) is not None and step.on_doubt == "fail"
    }
    if not paths:
        return frozenset()
    ends = {
        record.step_id: record.event_type
        async for record in records_of(store, run_id)
        if record.event_type in STEP_ENDS and record.step_id in paths
    }
    return frozenset(path for path in paths if ends.get(path) == EventType.STEP_INTERRUPTED)


def _doubt_reason(cause: Cause, run_id: str) -> Reason:
    text = f"step {cause.path!r} was interrupted, it is not known whether it happened, and the run ended because of it"
    commands = (
        _on_step("logs", run_id, cause.path, "what it printed until then"),
        NextCommand(f"podium resume {run_id}", "runs it again, although it may have happened"),
    )
    return Reason("failed", cause.path, text, None, commands)


def _cause_reason(cause: Cause, run_id: str) -> Reason:
    step = repr(cause.path)
    if cause.has_failed:
        text = f"step {step} failed, and the run ended because of it"
        again = NextCommand(f"podium resume {run_id}", "runs it again")
        return Reason("failed", cause.path, text, None, (again,))
    text = f"step {step} completed, and its outcome ended the run: it is not run again by `podium resume`"
    if not cause.has_transition:
        text = f"step {step} completed and has no transition; a completed step is not run again by `podium resume`"
    commands = (
        NextCommand(
            f"podium resume {run_id} --workflow FILE --force", "continues after it, with other handlers"
        ),
        NextCommand(f"podium rerun {run_id} --from {quote(cause.path)}", "runs it again, in a new run"),
    )
    return Reason("completed", cause.path, text, None, commands)


def reasons_of(machine: Machine, run_id: str, *, is_driven: bool = True) -> tuple[Reason, ...]:
    """What an open run waits for. The reasons of a hold come first: while it lasts, nothing else matters.

    Without a driver nothing runs, whatever the log says has started.
    """
    owed = machine.obligations()
    # The limit of a step that waits for a person is shown together with that.
    asked = {obligation.subject for obligation in owed if obligation.kind == "approval"}
    shown = [one for one in owed if not (one.kind == "limit" and one.subject in asked)]
    held = any(one.kind == "hold" for one in shown)
    shown.sort(key=lambda one: one.kind != "hold")
    return tuple(
        _reason_for(one, run_id, draining=held)
        if is_driven or one.kind not in _NEEDS_DRIVER
        else _left(one, run_id)
        for one in shown
    )


def reason_for(obligation: Obligation, run_id: str) -> Reason:
    """One thing that a run waits for, and what a person can do about it."""
    return _reason_for(obligation, run_id, draining=False)


# Only a driver continues these.
_NEEDS_DRIVER: Final = frozenset({"task", "slot", "probe"})


def _left(obligation: Obligation, run_id: str) -> Reason:
    """What the last driver of a run left unfinished, and no process continues."""
    step = f"step {obligation.subject!r}" + (
        f" (attempt {obligation.attempt})" if obligation.attempt > 1 else ""
    )
    resume = NextCommand(f"podium resume {run_id}", "continues the run")
    if obligation.kind != "task":
        text = f"{step} has not started, and no process drives the run"
        return Reason(obligation.kind, obligation.subject, text, obligation.deadline, (resume,))
    was = "was being stopped" if obligation.detail else "was running"
    text = f"{step} {was} when the driver of the run ended; no process drives the run"
    commands = (resume, _on_step("logs", run_id, obligation.subject, "what it printed until then"))
    return Reason("task", obligation.subject, text, obligation.deadline, commands)


def _not_started(run: Run, now: datetime) -> Reason:
    run_id = run.identity.run_id
    if run.start_at is not None and moment(run.start_at) > now:
        return Reason("start", run_id, "its start was delayed", run.start_at)
    text = "it waits in the queue; no process has started it"
    if run.pool is not None:
        text = f"it waits in the queue of pool {run.pool!r}"
        return Reason("start", run_id, text, None, (_host_of(run.pool),))
    return Reason("start", run_id, text, None, (NextCommand(f"podium resume {run_id}"),))


def _reason_for(obligation: Obligation, run_id: str, *, draining: bool) -> Reason:
    subject, attempt = obligation.subject, obligation.attempt
    again = f" (attempt {attempt})" if attempt > 1 else ""
    text = ""
    commands: tuple[NextCommand, ...] = ()
    match obligation.kind:
        case "task":
            text = f"step {subject!r}{again} is running"
            if obligation.detail:
                text = f"step {subject!r}{again} is being stopped"
            elif draining:
                text = f"step {subject!r}{again} still runs; what follows it waits until the run is resumed"
            commands = (_on_step("logs", run_id, subject),)
        case "slot":
            text = f"step {subject!r}{again} waits for a slot: the maximum number of tasks is running"
        case "timer":
            what = obligation.detail or "its turn"
            text = f"step {subject!r} waits for {what}"
            if obligation.detail == "the next try":
                commands = (_on_step("retry-step", run_id, subject),)
        case "probe":
            text = f"the condition of step {subject!r} is being looked up"
        case "approval":
            text = f"step {subject!r} waits for a person"
            commands = (_approve(obligation, run_id), _on_step("reject", run_id, subject))
        case "operator":
            text = f"step {subject!r} has failed and waits for an operator to retry or skip it"
            commands = (_on_step("retry-step", run_id, subject), _on_step("skip-step", run_id, subject))
        case "doubt":
            # Without the attempt: the doubt about one that was stopped is recorded under the next number.
            text = f"step {subject!r} was interrupted, and it is not known whether it happened"
            commands = (
                _on_step("approve", run_id, subject, "it did happen"),
                _on_step("reject", run_id, subject, "it did not happen: the step has failed"),
                _on_step("retry-step", run_id, subject, "run it again"),
                _on_step("skip-step", run_id, subject, "leave it out"),
            )
        case "limit":
            what = f"step {subject!r}" if subject else "the run"
            text = f"{what} is in progress until its limit"
        case "hold":
            text = "the run is paused"
            commands = (NextCommand(f"podium resume {run_id}"),)
            if subject == "budget":
                text = f"BUDGET_EXCEEDED: the budget {obligation.detail}".rstrip()
                raised = f"podium resume {run_id} --budget KEY=AMOUNT"
                commands = (NextCommand(raised, "usd, tokens, or STEP.usd for a step's own"),)
        case "budget":
            text = f"step {subject!r}{again} waits until the running agents have reported what they cost"
        case "record":
            text = f"{subject} has been decided and is not yet in the log"
            commands = (NextCommand(f"podium resume {run_id}"),)
        case "plan_approval":
            since = (
                f" since {obligation.since[:10]} {obligation.since[11:16]} UTC" if obligation.since else ""
            )
            text = f"the run waits for the approval of its plan (SHA-256 {obligation.detail}){since}"
            commands = (
                NextCommand(f"podium approve {run_id} --plan-sha256 {obligation.detail}", "it may start"),
                NextCommand(f"podium reject {run_id}", "it never starts"),
            )
        case "start":
            text = "the run has not started"
            commands = (NextCommand(f"podium resume {run_id}"),)
    return Reason(obligation.kind, subject, text, obligation.deadline, commands)


def _approve(obligation: Obligation, run_id: str) -> NextCommand:
    command = _on_step("approve", run_id, obligation.subject, values_wanted(obligation.form))
    return command._replace(text=f"{command.text} {field_options(obligation.form)}".rstrip())


def _on_step(command: str, run_id: str, step: str, meaning: str = "") -> NextCommand:
    return NextCommand(f"podium {command} {run_id} {quote(step)}", meaning)
