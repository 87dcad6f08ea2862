"""A plan prepared for being run: what is asked at every event is looked up once, here.

A node is a step; a block knows its nodes by name, and of a graph who waits for whom. Which fields of which results
anybody may ever read follows from the plan, so that nothing else has to be kept.
"""

from collections.abc import Iterator
from enum import IntEnum, auto
from typing import Any, Final

import msgspec

from podium.core.flow import Event, Way, way_on
from podium.core.machine.conditions import Ask, compile_condition
from podium.model.conditions import Condition
from podium.model.expressions import Reference
from podium.model.plan import (
    Agent,
    Approval,
    Block,
    Body,
    Call,
    ForEach,
    Gate,
    Group,
    Parallel,
    Plan,
    Set,
    Step,
    Target,
    While,
    Workflow,
)


class Kind(IntEnum):
    TASK = auto()
    GATE = auto()
    SET = auto()
    APPROVAL = auto()
    GROUP = auto()
    PARALLEL = auto()
    FOR_EACH = auto()
    WHILE = auto()
    CALL = auto()


_KINDS: Final[dict[type, Kind]] = {
    Gate: Kind.GATE,
    Set: Kind.SET,
    Approval: Kind.APPROVAL,
    Group: Kind.GROUP,
    Parallel: Kind.PARALLEL,
    ForEach: Kind.FOR_EACH,
    While: Kind.WHILE,
    Call: Kind.CALL,
}
EVENTS: Final[tuple[Event, ...]] = ("success", "failure", "timeout", "skipped")


class Node:
    """A step."""

    __slots__ = (
        "block", "body", "branches", "condition", "index", "items_again", "kept", "kind", "program", "references",
        "step", "step_id", "ways", "when",
    )  # fmt: skip

    def __init__(self, step: Step, index: int, block: "BlockProgram", kept: "Kept") -> None:
        self.step = step
        self.index = index
        self.step_id = step.step_id
        self.body: Body = step.body
        self.kind = _KINDS.get(type(step.body), Kind.TASK)
        self.when: Ask | None = compile_condition(step.when) if step.when is not None else None
        self.ways: dict[Event, Target | Way] = {
            event: way_on(block.discipline, step.on, event) for event in EVENTS
        }
        self.kept = kept.get(step.step_id, frozenset())
        if self.kind is Kind.PARALLEL:
            # Branches can be named by their plain names, too.
            self.kept |= {"branches"}
        # What a task's texts name: looked up when it is started.
        self.references: tuple[Reference, ...] = (
            tuple(dict.fromkeys(_references(step.body))) if self.kind is Kind.TASK else ()
        )
        # Of a for_each: its items follow from the plan and the inputs, so that nobody has to keep them.
        self.items_again = isinstance(step.body, ForEach) and all(
            reference.path[0] == "inputs" for reference in _references(step.body.items)
        )
        inner: Block | None = getattr(step.body, "block", None)
        self.block: BlockProgram | None = None
        # Of a parallel step: each branch is a list of one.
        self.branches: tuple[BlockProgram, ...] = ()
        if self.kind is Kind.PARALLEL and inner is not None:
            self.branches = tuple(BlockProgram(Block("branch", (one,)), kept) for one in inner.steps)
        elif inner is not None:
            self.block = BlockProgram(inner, kept)
        self.program: WorkflowProgram | None = (
            WorkflowProgram(step.body.workflow, kept) if isinstance(step.body, Call) else None
        )
        self.condition: Ask | None = (
            compile_condition(step.body.condition) if isinstance(step.body, While) else None
        )


class BlockProgram:
    """A list of steps: a flow, or a graph with who waits for whom."""

    __slots__ = ("branches", "dependents", "discipline", "index", "is_graph", "needs", "nodes")

    def __init__(self, block: Block, kept: "Kept") -> None:
        self.discipline = block.discipline
        self.is_graph = block.discipline == "graph"
        self.nodes = tuple(Node(step, index, self, kept) for index, step in enumerate(block.steps))
        self.index = {node.step_id: node.index for node in self.nodes}
        # Branches can be named in the list around them, too: name -> the parallel step.
        self.branches = {
            branch.nodes[0].step_id: node.step_id for node in self.nodes for branch in node.branches
        }
        self.needs: tuple[int, ...] = ()
        self.dependents: tuple[tuple[int, ...], ...] = ()
        if self.is_graph:
            self._wire()

    def _wire(self) -> None:
        dependents: list[list[int]] = [[] for _ in self.nodes]
        needs: list[int] = []
        for node in self.nodes:
            needed = {self.index[name] for name in node.step.depends_on}
            needs.append(len(needed))
            for index in sorted(needed):
                dependents[index].append(node.index)
        self.needs = tuple(needs)
        self.dependents = tuple(map(tuple, dependents))


class WorkflowProgram:
    """A workflow: the run itself, or what a `call` holds."""

    __slots__ = ("block", "cleanup", "error", "workflow")

    def __init__(self, workflow: Workflow, kept: "Kept") -> None:
        self.workflow = workflow
        self.block = BlockProgram(workflow.block, kept)
        error = workflow.error
        self.error = BlockProgram(Block("cleanup", (error,)), kept) if error is not None else None
        self.cleanup = BlockProgram(workflow.cleanup, kept) if workflow.cleanup is not None else None


Kept = dict[str, frozenset[str]]


def program_of(plan: Plan) -> WorkflowProgram:
    return WorkflowProgram(plan.workflow, kept_fields(plan.workflow))


# --- what is read later ---------------------------------------------------------------------------

# Stands for every field: somebody names the whole result.
EVERYTHING: Final = "*"
_INTO: Final = frozenset({"iterations", "last", "branches", "steps"})


def kept_fields(workflow: Workflow) -> Kept:
    """For each step, by its id, the fields that some reference reads. Ids of different lists are not told apart."""
    kept: dict[str, set[str]] = {}
    for reference in _references(workflow):
        path = reference.path
        if path[0] == "steps" and len(path) > 1:
            _keep(path, 1, kept)
    for step in _agents(workflow):
        if isinstance(step.body, Agent) and step.body.resume is not None:
            kept.setdefault(step.body.resume, set()).add("session")
    return {step: frozenset(fields) for step, fields in kept.items()}


def _keep(path: tuple[str | int, ...], place: int, kept: dict[str, set[str]]) -> None:
    """`path[place]` is a step; what follows is a field of it, or leads to a step inside it."""
    fields = kept.setdefault(str(path[place]), set())
    if place + 1 == len(path):
        fields.add(EVERYTHING)
        return
    name = str(path[place + 1])
    fields.add(name)
    rest = place + 2
    if name == "iterations":
        rest += 1
        if rest < len(path) and path[rest] == "steps":
            rest += 1
    if name in _INTO and rest < len(path):
        _keep(path, rest, kept)


def _agents(workflow: Workflow) -> Iterator[Step]:
    for part in _parts(workflow):
        if isinstance(part, Step) and isinstance(part.body, Agent):
            yield part


def _references(part: Any) -> Iterator[Reference]:
    return (found for found in _parts(part) if isinstance(found, Reference))


def _parts(part: Any) -> Iterator[Any]:
    """Everything a plan is made of, with a stack: plans can be wide."""
    pending = [part]
    while pending:
        found = pending.pop()
        if isinstance(found, msgspec.Struct):
            yield found
            pending.extend(getattr(found, name) for name in reversed(found.__struct_fields__))
        elif isinstance(found, tuple | list):
            pending.extend(reversed(found))
        elif isinstance(found, dict):
            pending.extend(reversed(found.values()))


__all__ = ["EVERYTHING", "BlockProgram", "Condition", "Kind", "Node", "WorkflowProgram", "program_of"]
