"""Which changes of a workflow an open run can accept (D31), and replacing its workflow.

What has happened is in the log, and is folded again with the new plan. So what was decided must be decided in
the same way again: steps, their kinds, where outcomes lead, conditions, loops and joins are the structure.
What a task does, its time limit and its retries may be changed. Budgets affect decisions, too, and may
nevertheless be changed: an open run receives them by a signal, and its plan keeps the old ones for what has
happened.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgspec

from podium.errors import PlanNotApproved, PodiumError
from podium.log.events import EventRecord, EventType
from podium.log.ids import RunId
from podium.log.payloads import SignedBy
from podium.log.runs import Run
from podium.log.times import timestamp
from podium.log.transitions import RunStatus
from podium.machine import Machine
from podium.machine.accounts import Amount
from podium.machine.commands import ScopeReport
from podium.machine.reopening import causes
from podium.operations.parts import Parts
from podium.plan.budgets import Budgets, budgets_of, with_budgets
from podium.plan.loading import plan_bytes, walk
from podium.plan.plan import Approval, Call, ForEach, Group, Parallel, Plan, Step, While, Workflow
from podium.ports.store import Store
from podium.runtime import holders
from podium.runtime.lock import RunLock, RunLocked
from podium.runtime.plan_file import replace_plan
from podium.runtime.reading import records_of
from podium.runtime.spilling import Values

# Keys of a step that may change: how it is described, and how it is retried.
_FREE: Final = ("name", "description", "labels", "retry", "timeout", "idempotent", "on_doubt")
_COMPOSITES: Final = (Call, Group, Parallel, ForEach, While)
# Keys of a workflow that its decisions depend on.
_DECIDING: Final = ("entry", "inputs", "outputs", "context", "max_transitions")


class WorkflowChanged(PodiumError):
    """A run cannot continue with a workflow that differs in its structure."""

    code = "WORKFLOW_CHANGED"


def structural_changes(old: Plan, new: Plan) -> list[str]:
    """Changes that an open run cannot accept: one line for each step, in the order of the new plan."""
    before, after = _shapes(old), _shapes(new)
    changes = [f"{path}: it is new" for path in after if path not in before]
    changes += [f"{path}: it is gone" for path in before if path not in after]
    for path, shape in after.items():
        known = before.get(path, shape)
        differing = [part for part in shape if part not in known or not _same(known[part], shape[part])]
        differing += [part for part in known if part not in shape]
        if differing:
            changes.append(f"{path}: {', '.join(differing)}")
    if not changes and list(before) != list(after):
        changes.append("the order of the steps")
    return changes


def _same(a: Any, b: Any) -> bool:
    """In Python 1 is True and 1.0; in a workflow these are three values."""
    return a == b and msgspec.json.encode(a, order="deterministic") == msgspec.json.encode(
        b, order="deterministic"
    )


def _shapes(plan: Plan) -> dict[str, dict[str, Any]]:
    shapes = {path: _shape(step) for path, step in walk(plan.workflow)}
    return {"the workflow": {"name": plan.metadata.plan_id, **_workflow(plan.workflow)}, **shapes}


def _workflow(workflow: Workflow) -> dict[str, Any]:
    return {
        "discipline": workflow.block.discipline,
        **{name: getattr(workflow, name) for name in _DECIDING},
    }


def _shape(step: Step) -> dict[str, Any]:
    body = step.body
    shape = {
        name: getattr(step, name)
        for name in step.__struct_fields__
        if name not in (*_FREE, "step_id", "body")
    }
    shape["kind"] = body.__struct_config__.tag
    if isinstance(body, Call):
        return {**shape, "inputs": body.inputs, **_workflow(body.workflow)}
    if isinstance(body, _COMPOSITES):
        shape["discipline"] = body.block.discipline
    elif getattr(body, "work", None) is not None or isinstance(body, Approval):
        return shape
    return {
        **shape,
        **{
            name: getattr(body, name)
            for name in body.__struct_fields__
            if name not in ("block", "max_workers", "budget")
        },
    }


async def replace_workflow(
    parts: Parts,
    tenant_id: str,
    run_id: RunId,
    plan: Plan,
    source: bytes,
    *,
    force: bool = False,
    signatures: bytes | None = None,
) -> dict[str, Any]:
    """From now on the run uses `plan`. Raises `RunNotFound`, also for another tenant's run, and
    `WorkflowChanged`; `force` allows another structure.

    Returns the parameters that the run still has to receive (`UPDATE_PARAMS`): budgets that have changed.

    Even with force, what has happened must have the same result under the new plan: the state of a run is
    undefined if its log has steps that its plan does not know.
    """
    store, directory = parts.store, parts.directory(run_id)
    await store.runs.find(tenant_id, run_id)
    lock = RunLock(directory.lock, run_id)
    await _take(store, lock, run_id)
    try:
        run = await store.runs.find(tenant_id, run_id)
        if run.status is RunStatus.COMPLETED:
            return {}  # it never continues, which is reported to callers who try
        if run.needs_approval:
            raise PlanNotApproved(run_id, run.plan_sha256, sha256(plan_bytes(plan)).hexdigest())
        signed_by, signed = await _check_signed(parts, run, plan, signatures), plan
        old = await parts.plan_of(run)
        changes = structural_changes(old, plan)
        if changes and not force:
            raise WorkflowChanged(
                f"the workflow of run {run_id!r} has another structure: {'; '.join(changes)}. "
                f"Use --force to continue with it anyway, or --changed to start a new run with it"
            )
        kept = parts.values(run_id)
        until = await _before_the_routed_end(store, run_id, old, kept)
        progress = await _progress_of(store, run_id, old, kept, until)
        plan, written = _with_its_budgets(run_id, plan, old, progress)
        if signed_by and plan != signed:
            raise WorkflowChanged(
                f"run {run_id!r} keeps the budgets that it has, and the signed workflow has others: write them in the "
                f"file as they were, sign it again, and raise them with `podium resume {run_id} --budget KEY=AMOUNT`"
            )
        if not progress.is_kept_by(await _progress_of(store, run_id, plan, kept, until)):
            raise WorkflowChanged(
                f"run {run_id!r} cannot continue with this workflow: what has happened in it does "
                f"not fit ({'; '.join(changes) or 'retries, limits or budgets of what has run'}). "
                f"Use `podium resume {run_id} --changed --workflow FILE` to start a new run with it"
            )
        await replace_plan(
            store,
            run,
            directory,
            plan,
            source,
            at=timestamp(parts.clock.now()),
            forced=bool(changes),
            signatures=signatures,
            signed_by=signed_by,
        )
    finally:
        lock.release()
    return {"written": msgspec.to_builtins(written)} if written else {}


async def _check_signed(parts: Parts, run: Run, plan: Plan, signatures: bytes | None) -> tuple[SignedBy, ...]:
    if signatures is None and parts.signing() is None:
        return ()
    from podium.operations.signed_runs import check_replacement

    return await check_replacement(parts, run, plan, signatures)


def _with_its_budgets(run_id: RunId, plan: Plan, old: Plan, progress: "_Progress") -> tuple[Plan, Budgets]:
    """The plan with the budgets on which past decisions were based, and those that an open run has to
    receive.
    """
    first = budgets_of(old)
    known = {**first, **progress.written}
    others = {path: one for path, one in budgets_of(plan).items() if path in known and known[path] != one}
    if progress.has_started and not progress.ended:
        return with_budgets(plan, first), others
    if not others.keys().isdisjoint(progress.written):
        raise WorkflowChanged(
            f"run {run_id!r} has ended, and its budgets were changed while it was open: they stay as they were then. "
            "Write them so in the file; should one be used up, the run stops again and can be given more"
        )
    # It does not react to signals now. Changed budgets apply from its start, if that makes no difference.
    return with_budgets(plan, {path: one for path, one in first.items() if path not in others}), {}


async def _take(store: Store, lock: RunLock, run_id: RunId) -> None:
    """Hold a run that no other process drives. Raises `RunLocked`.

    A driver whose lease has lapsed because it is frozen is fenced off, whatever lock it holds. The lease that
    is claimed for that is never live: it takes no slot from other runs, and the next driver gets it
    immediately.
    """
    claim = partial(store.claim, run_id, owner=holders.new_owner(), ttl=timedelta())
    if await lock.take(claim) is not None:
        return
    if await claim() is None:
        # The lock is for this host only; a process on another one may be driving the run.
        held = await store.held_lease(run_id)
        if held is not None and not holders.is_gone(held.lease.owner):
            lock.release()
            raise RunLocked(run_id, holders.describe(held.lease.owner))


class _Progress(NamedTuple):
    inconsistent: bool
    ended: bool
    # What agents have cost, and which of them wait for budget.
    spent: Amount
    line: list[str]
    waits: list[tuple[str, str]]
    attempts: list[int]
    has_started: bool
    # Budgets that it received while it was open.
    written: Budgets
    # Iterations and branches that were opened, and the items that they were opened for.
    scopes: dict[str, Any]

    def is_kept_by(self, other: "_Progress") -> bool:
        """Whether they are equal; a later attempt than the next is accepted, because other retries count
        differently.

        An iteration that was opened must have a place in the other plan, for the same item, even if nothing waits
        in it any more: what was done for one item is not done for another.
        """
        return (
            self[:5] == other[:5]
            and all(
                path in other.scopes and _same(item, other.scopes[path]) for path, item in self.scopes.items()
            )
            and all(a <= b for a, b in zip(self.attempts, other.attempts, strict=True))
        )


async def _before_the_routed_end(
    store: Store, run_id: RunId, plan: Plan, payloads: Callable[[], Values] | None
) -> int | None:
    """If an outcome that only has to be routed again ended the run: the record that contained the outcome.

    Up to that record the other plan must have the same result. After it nothing has happened but the end
    itself, so it may lead elsewhere. None if a step was recorded after it (`finally`, or one that was
    stopped): that fits one plan only.
    """
    machine = Machine(plan)
    fell: int | None = None
    async for record in records_of(store, run_id, values=payloads):
        was_open = machine.at_verdict is None
        machine.advance(record)
        if record.step_id is not None:
            fell = record.run_seq if was_open and machine.at_verdict is not None else None
    ended_by = causes(machine) if machine.terminal else []
    return fell if ended_by and not any(cause.has_failed for cause in ended_by) else None


async def _progress_of(
    store: Store,
    run_id: RunId,
    plan: Plan,
    payloads: Callable[[], Values] | None,
    until: int | None = None,
) -> "_Progress":
    """The state of a run if its log, or what precedes `until`, is folded with a plan."""
    machine = Machine(plan)
    last: EventRecord | None = None
    scopes: dict[str, Any] = {}
    async for record in records_of(store, run_id, values=payloads):
        if record.run_seq == until:
            break
        scopes.update((one.path, one.item) for one in machine.advance(record) if isinstance(one, ScopeReport))
        last = record
    ended = machine.terminal or until is not None
    if ended and last is not None:
        # Only what it would resume matters; nothing of this is recorded.
        again = msgspec.structs.replace(
            last, event_type=EventType.RUN_REOPENED, run_seq=last.run_seq + 1, step_id=None, payload=b"{}"
        )
        machine.advance(again)
    waits = sorted((one.kind, one.subject, one.attempt) for one in machine.obligations())
    return _Progress(
        machine.inconsistent,
        ended,
        machine.spending.total,
        list(machine.spending.queue),
        [(kind, subject) for kind, subject, _ in waits],
        [attempt for _, _, attempt in waits],
        machine.root is not None,
        machine.spending.written,
        scopes,
    )
