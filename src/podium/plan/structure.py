"""Whether a plan is consistent: what the compiler guarantees is checked for a plan from outside.

The machine relies on it: a target that does not exist in any list, or a graph with a cycle, would not fail
the step but the run.
"""

from collections.abc import Iterator

import msgspec

from podium.errors import InvalidId
from podium.log.ids import check_id, check_step_id
from podium.plan.graph import order
from podium.plan.loading import InvalidPlan, InvalidStep
from podium.plan.plan import (
    MAX_NESTING,
    Block,
    Break,
    Call,
    Continue,
    ForEach,
    Goto,
    Group,
    Parallel,
    Plan,
    Step,
    While,
    Workflow,
)

# They mark iterations, visits and levels in the paths of steps.
_NOT_IN_NAMES = "/#[]|"


class _List(msgspec.Struct, frozen=True):
    """A list of steps, and the surrounding lists in which a step can continue."""

    names: frozenset[str]
    outer: "_List | None" = None
    in_loop: bool = False


def check_structure(plan: Plan) -> None:
    """Raises `InvalidPlan` or, about a step, `InvalidStep`."""
    try:
        check_id("planId", plan.metadata.plan_id)
        check_id("planVersion", plan.metadata.plan_version)
    except InvalidId as error:
        raise InvalidPlan(f"this is not a plan: {error}") from error
    if not -1000 <= plan.priority <= 1000:
        raise InvalidPlan(f"this is not a plan: priority {plan.priority} is not between -1000 and 1000")
    _check_workflow(plan.workflow, "", 1)


def _check_workflow(workflow: Workflow, path: str, depth: int) -> None:
    if not 0 <= workflow.entry < len(workflow.block.steps):
        raise InvalidPlan(
            f"this is not a plan: entry {workflow.entry} of workflow {workflow.name!r} is not the index of a step"
        )
    for name in ("max_transitions", "max_parallel", "max_output_size"):
        if getattr(workflow, name) < 1:
            raise InvalidPlan(f"this is not a plan: {name} of workflow {workflow.name!r} is less than 1")
    _check_block(workflow.block, path, depth, None)
    if workflow.error is not None:
        _check_block(Block("cleanup", (workflow.error,)), path, depth, None)
    if workflow.cleanup is not None:
        _check_block(workflow.cleanup, f"{path}_finally/", depth, None)


def _check_block(block: Block, path: str, depth: int, outer: _List | None, *, in_loop: bool = False) -> None:
    if depth > MAX_NESTING:
        raise InvalidPlan(f"this is not a plan: steps are nested more than {MAX_NESTING} levels deep")
    own = _List(frozenset(step.step_id for step in block.steps), outer, in_loop)
    seen: set[str] = set()
    for step in block.steps:
        here = f"{path}{step.step_id}"
        if step.step_id in seen:
            raise InvalidStep(f"this is not a plan: two steps have the path {here!r}")
        seen.add(step.step_id)
        _check_step(step, here, own)
        _check_body(step, here, depth, own)
    if block.discipline == "graph":
        _check_graph(block, path)


def _check_step(step: Step, here: str, own: _List) -> None:
    try:
        check_step_id(here)
    except InvalidId as error:
        raise InvalidStep(f"this is not a plan: {error}") from error
    if not step.step_id or any(mark in step.step_id for mark in _NOT_IN_NAMES):
        raise InvalidStep(f"this is not a plan: {here!r} is not a possible path of a step")
    for name in step.depends_on:
        if name not in own.names:
            raise InvalidStep(
                f"this is not a plan: step {here!r} depends on {name!r}, which is not in its list"
            )
    for problem in (*_wrong_targets(step, own), *_wrong_numbers(step)):
        raise InvalidStep(f"this is not a plan: step {here!r} {problem}")


def _wrong_targets(step: Step, own: _List) -> Iterator[str]:
    if step.on is None:
        return
    for target in (step.on.success, step.on.failure, step.on.timeout, step.on.skipped):
        if isinstance(target, Goto) and not _is_known(target.step, own):
            yield f"leads to {target.step!r}, which is neither in its list nor in one around it"
        elif isinstance(target, Break | Continue) and not own.in_loop:
            yield "leaves a loop and is in none"


def _is_known(name: str, own: _List) -> bool:
    around: _List | None = own
    while around is not None:
        if name in around.names:
            return True
        around = around.outer
    return False


def _wrong_numbers(step: Step) -> Iterator[str]:
    if step.timeout is not None and step.timeout <= 0:
        yield f"has the timeout {step.timeout}"
    if step.max_visits is not None and step.max_visits < 1:
        yield f"has max_visits {step.max_visits}"
    if step.retry is not None and (
        step.retry.attempts < 1 or min(step.retry.delay, step.retry.max_delay) < 0
    ):
        yield "has a retry that is not possible"
    for name in ("max_workers", "max_iterations"):
        most = getattr(step.body, name, None)
        if most is not None and most < 1:
            yield f"has {name} {most}"


def _check_body(step: Step, here: str, depth: int, own: _List) -> None:
    body = step.body
    match body:
        case Call():
            _check_workflow(body.workflow, f"{here}/", depth + 1)
        case Group():
            _check_block(body.block, f"{here}/", depth + 1, own, in_loop=own.in_loop)
        case Parallel():
            # Only the end of a concurrent branch leads out of it.
            _check_block(body.block, f"{here}/", depth + 1, None)
        case ForEach():
            outer = None if body.parallel else own
            _check_block(body.block, f"{here}/", depth + 1, outer, in_loop=True)
        case While():
            _check_block(body.block, f"{here}/", depth + 1, own, in_loop=True)
        case _:
            pass


def _check_graph(block: Block, path: str) -> None:
    index = {step.step_id: number for number, step in enumerate(block.steps)}
    cycle = order([[index[name] for name in step.depends_on] for step in block.steps]).cycle
    if cycle:
        names = ", ".join(repr(f"{path}{block.steps[number].step_id}") for number in cycle)
        raise InvalidStep(f"this is not a plan: these steps depend on each other in a circle: {names}")
