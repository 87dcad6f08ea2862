"""The budgets of a plan, by the paths of the steps that have them; the run's own has the empty path."""

from collections.abc import Mapping
from typing import TypeAlias

from msgspec.structs import replace

from podium.plan.loading import FINALLY, walk
from podium.plan.plan import (
    Agent,
    Block,
    Budget,
    Call,
    ForEach,
    Group,
    Parallel,
    Plan,
    Step,
    While,
    Workflow,
)

Budgets: TypeAlias = Mapping[str, Budget | None]


def budgets_of(plan: Plan) -> dict[str, Budget | None]:
    """The budget of everything that can have one; None where there is none."""
    found = {"": plan.workflow.budget}
    for path, step in walk(plan.workflow):
        match step.body:
            case Agent(work=work):
                found[path] = work.budget
            case (
                Group(budget=budget) | Parallel(budget=budget) | ForEach(budget=budget) | While(budget=budget)
            ):
                found[path] = budget
            case Call(workflow=called):
                found[path] = called.budget
            case _:
                pass
    return found


def with_budgets(plan: Plan, budgets: Budgets) -> Plan:
    """The same plan with these budgets; what is not named keeps its own."""
    return replace(plan, workflow=_workflow(plan.workflow, budgets, ""))


def _workflow(workflow: Workflow, budgets: Budgets, path: str) -> Workflow:
    inside = f"{path}/" if path else ""
    error, cleanup = workflow.error, workflow.cleanup
    return replace(
        workflow,
        budget=budgets.get(path, workflow.budget),
        block=_block(workflow.block, budgets, inside),
        error=_step(error, budgets, inside) if error is not None else None,
        cleanup=_block(cleanup, budgets, f"{inside}{FINALLY}/") if cleanup is not None else None,
    )


def _block(block: Block, budgets: Budgets, inside: str) -> Block:
    return replace(block, steps=tuple(_step(step, budgets, inside) for step in block.steps))


def _step(step: Step, budgets: Budgets, inside: str) -> Step:
    path, body = f"{inside}{step.step_id}", step.body
    match body:
        case Agent():
            if path not in budgets:
                return step
            return replace(step, body=replace(body, work=replace(body.work, budget=budgets[path])))
        case Group() | Parallel() | ForEach() | While():
            block = _block(body.block, budgets, f"{path}/")
            return replace(step, body=replace(body, block=block, budget=budgets.get(path, body.budget)))
        case Call():
            return replace(step, body=replace(body, workflow=_workflow(body.workflow, budgets, path)))
        case _:
            return step
