"""Plans for tests, written as short as they can be."""

from typing import Any

import msgspec

from podium.expressions.types import Compare, Data, DataList, Reference, Template
from podium.plan.conditions import Condition, FileExists, Holds
from podium.plan.loading import plan_of
from podium.plan.plan import (
    PLAIN_WORK,
    Agent,
    Approval,
    Block,
    Break,
    Budget,
    Call,
    Command,
    Continue,
    Discipline,
    End,
    Error,
    ErrorStep,
    ForEach,
    FormField,
    Gate,
    Goto,
    Group,
    Handlers,
    Join,
    Parallel,
    Plan,
    Prompt,
    Set,
    Step,
    Target,
    While,
    Work,
    Workflow,
)

_RESERVED: dict[str, Target] = {
    "_end": End(),
    "_error": ErrorStep(),
    "_loop_break": Break(),
    "_loop_continue": Continue(),
}
YES: Condition = True
NO: Condition = False


def on(**events: str) -> Handlers:
    """Step names, reserved targets, or `!text` for an error."""
    return Handlers(**{event: _target(name) for event, name in events.items()})


def _target(name: str) -> Target:
    if name.startswith("!"):
        return Error(name[1:])
    return _RESERVED.get(name) or Goto(name)


def ref(*path: str | int, default: str | None = None) -> Reference:
    return Reference(path, default)


def text(*parts: str | Reference) -> Template:
    return Template(parts)


def equals(left: Any, right: Any) -> Condition:
    return Holds(Compare(left, (("==", right),)))


def raising() -> Condition:
    """A condition that cannot be evaluated: texts and numbers have no order."""
    return Holds(Compare("a", (("<", 1),)))


def file(name: str) -> Condition:
    return FileExists(name)


# --- steps ----------------------------------------------------------------------------------------


def task(name: str, *words: Any, **facts: Any) -> Step:
    return Step(name, Command(("run", *words)), **facts)


def agent(
    name: str,
    usd: float | None = None,
    *,
    provider: str = "claude",
    budget: Budget | None = None,
    **facts: Any,
) -> Step:
    """`usd`: the step's own budget, if it is only dollars."""
    own = Budget(usd=usd) if usd is not None else budget
    work = PLAIN_WORK if own is None else Work(budget=own)
    return Step(name, Agent(provider, Prompt("do it"), work), **facts)


def with_budget(step: Step, budget: Budget) -> Step:
    """A composite with a budget of its own."""
    body = msgspec.structs.replace(step.body, budget=budget)
    return msgspec.structs.replace(step, body=body)


def gate(name: str, when: Condition | None = None, **facts: Any) -> Step:
    return Step(name, Gate(), when=when, **facts)


def put(name: str, values: dict[str, Data], **facts: Any) -> Step:
    return Step(name, Set(values), **facts)


def approval(name: str, *, form: dict[str, FormField] | None = None, **facts: Any) -> Step:
    return Step(name, Approval("May it?", form or {}), **facts)


def group(name: str, *steps: Step, **facts: Any) -> Step:
    return Step(name, Group(Block("branch", steps)), **facts)


def graph(name: str, *steps: Step, **facts: Any) -> Step:
    return Step(name, Group(Block("graph", steps)), **facts)


def parallel(name: str, *steps: Step, join: Join | None = None, max_workers: int = 10, **facts: Any) -> Step:
    body = Parallel(Block("branch", steps), join or Join(), max_workers)
    return Step(name, body, **facts)


def for_each(
    name: str,
    items: int | list[Data] | Data,
    *steps: Step,
    join: Join | None = None,
    workers: int = 0,
    discipline: Discipline = "branch",
    **facts: Any,
) -> Step:
    """`workers`: so many items at once; 0: one after the other."""
    listed: Any = list(range(items)) if isinstance(items, int) else items
    body = ForEach(
        DataList(tuple(listed)) if isinstance(listed, list) else listed,
        Block(discipline, steps),
        parallel=workers > 0,
        max_workers=workers or None,
        join=join or Join(),
        **{key: facts.pop(key) for key in ("variable", "max_iterations") if key in facts},
    )
    return Step(name, body, **facts)


def while_(name: str, condition: Condition, *steps: Step, **facts: Any) -> Step:
    own = {
        key: facts.pop(key)
        for key in ("until", "max_iterations", "max_duration", "check_interval")
        if key in facts
    }
    return Step(name, While(condition, Block("pass", steps), **own), **facts)


def call(name: str, workflow: Workflow, inputs: dict[str, Data] | None = None, **facts: Any) -> Step:
    return Step(name, Call(workflow, inputs or {}), **facts)


# --- workflows ------------------------------------------------------------------------------------


def workflow(
    *steps: Step, discipline: Discipline = "implied", cleanup: tuple[Step, ...] = (), **facts: Any
) -> Workflow:
    return Workflow(
        "test",
        Block(discipline, steps),
        cleanup=Block("cleanup", cleanup) if cleanup else None,
        **facts,
    )


def plan(*steps: Step, **facts: Any) -> Plan:
    return plan_of(workflow(*steps, **facts))
