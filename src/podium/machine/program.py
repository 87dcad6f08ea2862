"""A plan prepared for execution: what is needed at every event is looked up once, here.

A node is a step; a block knows its nodes by name, and the dependants in a graph. Which fields of which
results may ever be read follows from the plan, so nothing else has to be kept.
"""

from collections.abc import Iterator
from enum import IntEnum, auto
from typing import Any, Final

from podium.expressions.types import Reference
from podium.machine.conditions import Ask, compile_condition
from podium.machine.flow import Event, Way, way_on
from podium.plan.conditions import Condition
from podium.plan.plan import (
    PLAIN_WORK,
    Agent,
    Approval,
    Block,
    Body,
    Call,
    ForEach,
    Gate,
    Group,
    Join,
    Parallel,
    Plan,
    Publish,
    Set,
    Step,
    Target,
    While,
    Work,
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
    PUBLISH = auto()


# Constants for a check that runs for every step: see `tree.py`.
TASK: Final = Kind.TASK
GATE: Final = Kind.GATE
GROUP: Final = Kind.GROUP
PARALLEL: Final = Kind.PARALLEL
FOR_EACH: Final = Kind.FOR_EACH
WHILE: Final = Kind.WHILE


_KINDS: Final[dict[type, Kind]] = {
    Gate: Kind.GATE,
    Set: Kind.SET,
    Publish: Kind.PUBLISH,
    Approval: Kind.APPROVAL,
    Group: Kind.GROUP,
    Parallel: Kind.PARALLEL,
    ForEach: Kind.FOR_EACH,
    While: Kind.WHILE,
    Call: Kind.CALL,
}
EVENTS: Final[tuple[Event, ...]] = ("success", "failure", "timeout", "skipped")


DEFAULT_WORKERS: Final = 10


class Node:
    """A step."""

    __slots__ = (
        "_references",
        "block",
        "body",
        "branches",
        "condition",
        "index",
        "items_again",
        "join",
        "kept",
        "kind",
        "notifies",
        "program",
        "step",
        "step_id",
        "ways",
        "when",
        "workers",
    )  # fmt: skip

    def __init__(
        self,
        step: Step,
        index: int,
        block: "BlockProgram",
        kept: "Kept",
        program: "WorkflowProgram | None" = None,
    ) -> None:
        """`program`: for a call whose workflow is prepared already."""
        self.step = step
        self.index = index
        self.step_id = step.step_id
        self.body: Body = step.body
        self.kind = _KINDS.get(type(step.body), Kind.TASK)
        self.when: Ask | None = compile_condition(step.when) if step.when is not None else None
        self.ways: dict[Event, Target | Way] = {
            event: way_on(block.discipline, step.on, event) for event in EVENTS
        }
        # Whether its end may cause a notification.
        self.notifies = bool(step.notify or (isinstance(step.body, Call) and step.body.workflow.notify))
        self.kept = kept.get(step.step_id, frozenset())
        if self.kind is Kind.PARALLEL:
            # Branches can also be referred to by their plain names.
            self.kept |= {"branches"}
        self._references: tuple[Reference, ...] | None = None
        # For a for_each: its items follow from the plan and the inputs, so they need not be stored.
        self.items_again = isinstance(step.body, ForEach) and all(
            reference.path[0] == "inputs" for reference in references_in(step.body.items)
        )
        # For a composite: how many items or branches run concurrently, and when it is decided.
        self.workers = _workers(step.body)
        self.join = step.body.join if isinstance(step.body, ForEach | Parallel) else Join()
        inner: Block | None = getattr(step.body, "block", None)
        self.block: BlockProgram = NO_STEPS
        # For a parallel step: each branch is a list of one.
        self.branches: tuple[BlockProgram, ...] = ()
        if self.kind is Kind.PARALLEL and inner is not None:
            self.branches = tuple(BlockProgram(Block("branch", (one,)), kept) for one in inner.steps)
        elif inner is not None:
            self.block = BlockProgram(inner, kept)
        if program is None and isinstance(step.body, Call):
            program = WorkflowProgram(step.body.workflow, kept)
        self.program = program
        self.condition: Ask = (
            compile_condition(step.body.condition) if isinstance(step.body, While) else _is_true
        )

    @property
    def references(self) -> tuple[Reference, ...]:
        """The references in a task's texts; computed when it is started for the first time."""
        if self._references is None:
            found = references_in(self.body)
            if isinstance(self.body, Agent) and self.body.resume is not None:
                # The conversation to continue, and its cost so far.
                found += [Reference(("steps", self.body.resume, field)) for field in _OF_A_SESSION]
            self._references = tuple(dict.fromkeys(found))
        return self._references


def _workers(body: Body) -> int:
    match body:
        case Parallel():
            return body.max_workers
        case ForEach(parallel=True):
            return body.max_workers if body.max_workers is not None else DEFAULT_WORKERS
        case _:
            return 1


class BlockProgram:
    """A list of steps: a flow, or a graph with the dependants of each step."""

    __slots__ = ("branches", "dependents", "discipline", "entry", "index", "is_graph", "needs", "nodes")

    def __init__(self, block: Block, kept: "Kept", entry: int = 0) -> None:
        self.discipline = block.discipline
        # Where it is entered. Nothing falls through to that step: it is `_start`, or the first.
        self.entry = entry
        self.is_graph = block.discipline == "graph"
        self.nodes = tuple(Node(step, index, self, kept) for index, step in enumerate(block.steps))
        self.index = {node.step_id: node.index for node in self.nodes}
        # Branches can also be referred to in the list around them: name -> the parallel step.
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


# The list of a step without steps inside.
NO_STEPS: Final = BlockProgram(Block("branch", ()), {})


def _is_true(_view: object) -> bool:
    return True


class WorkflowProgram:
    """A workflow: the run itself, or what a `call` holds."""

    __slots__ = ("block", "cleanup", "error", "shared", "workflow")

    def __init__(self, workflow: Workflow, kept: "Kept") -> None:
        self.workflow = workflow
        # References in the workflow's own texts, which apply to every task of it.
        self.shared = tuple(dict.fromkeys(references_in((workflow.env, workflow.providers))))
        self.block = BlockProgram(workflow.block, kept, workflow.entry)
        error = workflow.error
        self.error = BlockProgram(Block("cleanup", (error,)), kept) if error is not None else None
        self.cleanup = BlockProgram(workflow.cleanup, kept) if workflow.cleanup is not None else None


Kept = dict[str, frozenset[str]]


def run_node(program: WorkflowProgram) -> Node:
    """The run as a step: a call of its own plan."""
    return Node(Step("", Call(program.workflow)), 0, NO_STEPS, {}, program)


def program_of(plan: Plan) -> WorkflowProgram:
    """The program of a plan; many runs of one plan share it."""
    global _newest
    for known, program in _newest:
        if known is plan:
            return program
    program = WorkflowProgram(plan.workflow, kept_fields(plan.workflow))
    _newest = ((plan, program), *_newest[: _MAX_KEPT - 1])
    return program


_MAX_KEPT: Final = 8
# Replaced as a whole, because threads may read it at the same time.
_newest: tuple[tuple[Plan, WorkflowProgram], ...] = ()


# --- what is read later ---------------------------------------------------------------------------

_OF_A_SESSION: Final = ("session", "sessionUsage")
# Every field: a reference names the whole result.
EVERYTHING: Final = "*"
_INTO: Final = frozenset({"iterations", "last", "branches", "steps"})


def kept_fields(workflow: Workflow) -> Kept:
    """For each step, by its id, the fields that some reference reads. Equal ids in different lists are
    treated as one.

    A reference that ends before the field of a step inside (`steps.Loop`, `steps.Loop.iterations`) passes on
    everything inside, and its receiver may read any of it: nothing in there is left out.
    """
    kept: dict[str, set[str]] = {}
    whole: set[str] = set()
    for part in _parts(workflow):
        if type(part) is Reference:
            if part.path[0] == "steps" and len(part.path) > 1:
                _keep(part.path, 1, kept, whole)
        elif type(part) is Agent and part.resume is not None:
            kept.setdefault(part.resume, set()).update(_OF_A_SESSION)
    if whole:
        for step_id in _inside_of(workflow, whole):
            kept.setdefault(step_id, set()).add(EVERYTHING)
    return {step: frozenset(fields) for step, fields in kept.items()}


def _keep(path: tuple[str | int, ...], place: int, kept: dict[str, set[str]], whole: set[str]) -> None:
    """`path[place]` is a step; what follows is a field of it, or leads to a step inside it."""
    step = str(path[place])
    fields = kept.setdefault(step, set())
    if place + 1 == len(path):
        fields.add(EVERYTHING)
        whole.add(step)
        return
    name = str(path[place + 1])
    fields.add(name)
    if name not in _INTO:
        return
    rest = place + 2
    if name == "iterations":
        rest += 1
        if rest < len(path) and path[rest] == "steps":
            rest += 1
    if rest < len(path):
        _keep(path, rest, kept, whole)
    else:
        whole.add(step)


def _inside_of(workflow: Workflow, whole: set[str]) -> Iterator[str]:
    """The ids of the steps inside those named. Excludes called workflows: a `call` passes on its outputs
    only.
    """
    pending = [
        block
        for part in _parts(workflow)
        if type(part) is Step and part.step_id in whole and (block := getattr(part.body, "block", None))
    ]
    while pending:
        for step in pending.pop().steps:
            yield step.step_id
            if block := getattr(step.body, "block", None):
                pending.append(block)


def references_in(part: Any) -> list[Reference]:
    return [found for found in _parts(part) if type(found) is Reference]


_PLAIN: Final = frozenset({str, int, float, bool, type(None)})


def _parts(part: Any) -> Iterator[Any]:
    """The structs of a plan. Uses a stack, since plans can be wide; plain values are not even pushed."""
    pending = [part] if type(part) not in _PLAIN else []
    while pending:
        found = pending.pop()
        kind = type(found)
        if kind is tuple or kind is list:
            inside = found
        elif kind is dict:
            inside = found.values()
        elif kind is Work and found == PLAIN_WORK:
            continue
        else:
            yield found
            inside = [getattr(found, name) for name in kind.__struct_fields__]
        pending.extend([one for one in inside if type(one) not in _PLAIN and one])


__all__ = ["EVERYTHING", "BlockProgram", "Condition", "Kind", "Node", "WorkflowProgram", "program_of"]
