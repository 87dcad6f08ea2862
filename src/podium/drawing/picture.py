"""A plan as a picture: boxes, boxes inside boxes, and arrows between them.

It contains no positions and no format: each writer of `podium graph` draws the same picture. Texts are taken
from the plan unchanged; callers that show them have to neutralise them first.

An arrow leads from a step to the step that follows. What does not lead to a step (the run fails, the loop is
left) is an *exit* of the box: drawn beside it, because a thousand arrows to one distant "error" could not be
followed. Transitions that no `on` block contains but the block's discipline implies are in the picture, too,
and marked.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final, Literal, TypeAlias, assert_never

import msgspec

from podium.expressions.evaluate import unparse, unparse_reference
from podium.expressions.types import Data, DataList, DataMap, Reference, Template, Text
from podium.machine.flow import Event, Way, way_on
from podium.plan.conditions import All, AnyOf, Condition, EnvSet, FileExists, Holds, Not, StepIs
from podium.plan.loading import FINALLY
from podium.plan.plan import (
    Agent,
    Approval,
    Block,
    Body,
    Break,
    Call,
    Command,
    Continue,
    End,
    Error,
    ErrorStep,
    ForEach,
    Gate,
    Goto,
    Group,
    Http,
    Join,
    Node,
    Parallel,
    Plan,
    Publish,
    Python,
    Set,
    Step,
    While,
    Workflow,
)
from podium.plan.scripts import script_in

# "goto": back to a step that contains this one; an arrow from a box to its own frame would be meaningless.
ExitKind: TypeAlias = Literal["end", "error", "failed", "stuck", "break", "continue", "goto"]

# A command or a message can have megabytes, which cannot be read in a picture.
MAX_LENGTH: Final = 200


@dataclass(frozen=True, slots=True)
class Exit:
    """A transition out of a step that does not lead to another step."""

    events: tuple[str, ...]
    kind: ExitKind
    text: str
    implied: bool


@dataclass(frozen=True, slots=True)
class Box:
    """A step, or where a workflow starts or ends."""

    number: int
    # The kind of a step, in the words of the language; or start, end, finally.
    kind: str
    name: str
    path: str = ""
    # What it does, in one line.
    detail: str = ""
    # Conditions, retries, limits.
    notes: tuple[str, ...] = ()
    exits: tuple[Exit, ...] = ()
    # The steps inside it; None for a task.
    inside: "tuple[Box, ...] | None" = None
    # For the picture of a run: the state of the step, in one word (`drawing/states.py`).
    state: str = ""


@dataclass(frozen=True, slots=True)
class Arrow:
    """From box to box. Without events: the target waits for the source."""

    source: int
    target: int
    events: tuple[str, ...] = ()
    implied: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    name: str
    description: str
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]

    def every_box(self) -> Iterator[Box]:
        """All boxes, each before those inside it."""
        pending = list(reversed(self.boxes))
        while pending:
            box = pending.pop()
            yield box
            pending.extend(reversed(box.inside or ()))


def picture_of(plan: Plan) -> Picture:
    drawing = _Drawing()
    boxes = drawing.workflow(plan.workflow, "")
    return Picture(plan.metadata.name, plan.metadata.description or "", boxes, tuple(drawing.arrows))


# --- boxes and arrows -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Level:
    """One list of steps on the way from the workflow to a step."""

    numbers: Mapping[str, int]
    # The box around the list.
    owner: int | None
    # Where the end of the list leads, if that is drawn; only for a workflow's main list.
    end: int | None = None
    # Steps that run concurrently, so there is no next step.
    concurrently: bool = False


class _Drawing:
    def __init__(self) -> None:
        self.arrows: list[Arrow] = []
        self._count = count()

    def workflow(self, workflow: Workflow, path: str, owner: int | None = None) -> tuple[Box, ...]:
        block, error = workflow.block, workflow.error
        start = Box(next(self._count), "start", "start")
        numbers = self._numbered(block.steps)
        if error is not None:
            numbers[error.step_id] = next(self._count)
        end = Box(next(self._count), "end", "end")
        level = _Level(numbers, owner, end.number, concurrently=block.discipline == "graph")
        boxes = [start, *self._steps(block, path, (level,), workflow.entry)]
        if block.discipline == "graph":
            self._around_graph(block, numbers, start.number, end.number)
        elif block.steps:
            entry = numbers[block.steps[workflow.entry].step_id]
            self.arrows.append(Arrow(start.number, entry, implied=True))
        if error is not None:
            failed = Exit(("always",), "failed", "the run fails", True)
            boxes.append(self._box(error, path, numbers[error.step_id], (level,), (failed,)))
        boxes.append(end)
        if workflow.cleanup is not None:
            boxes.append(self._cleanup(workflow.cleanup, path, end.number))
        return tuple(boxes)

    def _cleanup(self, block: Block, path: str, end: int) -> Box:
        number = next(self._count)
        level = _Level(self._numbered(block.steps), number)
        inside = tuple(self._steps(block, f"{path}{FINALLY}/", (level,)))
        self.arrows.append(Arrow(end, number, ("always",), implied=True))
        return Box(number, "finally", "finally", f"{path}{FINALLY}", "on every way out", inside=inside)

    def _around_graph(self, block: Block, numbers: Mapping[str, int], start: int, end: int) -> None:
        needed = {name for step in block.steps for name in step.depends_on}
        for step in block.steps:
            if not step.depends_on:
                self.arrows.append(Arrow(start, numbers[step.step_id], implied=True))
            if step.step_id not in needed:
                self.arrows.append(Arrow(numbers[step.step_id], end, implied=True))

    def _numbered(self, steps: Sequence[Step]) -> dict[str, int]:
        return {step.step_id: next(self._count) for step in steps}

    def _steps(self, block: Block, path: str, levels: tuple[_Level, ...], entry: int = 0) -> Iterator[Box]:
        level = levels[-1]
        following = [*(level.numbers[step.step_id] for step in block.steps[1:]), level.end]
        if entry:
            # `_start` is skipped.
            following[entry - 1] = following[entry]
        for step, after in zip(block.steps, following, strict=True):
            number = level.numbers[step.step_id]
            for dependency in dict.fromkeys(step.depends_on):
                self.arrows.append(Arrow(level.numbers[dependency], number))
            exits = self._ways(step, number, block, None if level.concurrently else after, levels)
            yield self._box(step, path, number, levels, exits)

    def _box(
        self, step: Step, path: str, number: int, levels: tuple[_Level, ...], exits: tuple[Exit, ...]
    ) -> Box:
        here = f"{path}{step.step_id}"
        body = step.body
        inside: tuple[Box, ...] | None = None
        match body:
            case Call():
                inside = self.workflow(body.workflow, f"{here}/", number)
            case Group() | Parallel() | ForEach() | While():
                concurrently = isinstance(body, Parallel) or body.block.discipline == "graph"
                level = _Level(self._numbered(body.block.steps), number, concurrently=concurrently)
                inside = tuple(self._steps(body.block, f"{here}/", (*levels, level)))
            case _:
                pass
        detail = _cut(detail_of(body))
        return Box(
            number, kind_of(body), step.name or step.step_id, here, detail, notes_of(step), exits, inside
        )

    def _ways(
        self, step: Step, number: int, block: Block, after: int | None, levels: tuple[_Level, ...]
    ) -> tuple[Exit, ...]:
        """The transitions of a step: arrows are added, exits are returned."""
        ways: dict[tuple[int | Exit, bool], list[str]] = {}
        asked = _events(step)
        for event in asked:
            # `allow_failure`: a failure counts as a success for what follows.
            counted: Event = "success" if step.allow_failure and event != "skipped" else event
            way = way_on(block.discipline, step.on, counted)
            place = self._place(way, after, block, levels)
            if place is not None:
                ways.setdefault((place, isinstance(way, Way)), []).append(event)
        exits: list[Exit] = []
        for (place, implied), events in ways.items():
            describe_events = ("always",) if len(events) == len(asked) else tuple(events)
            if isinstance(place, Exit):
                exits.append(Exit(describe_events, place.kind, place.text, implied))
            else:
                self.arrows.append(Arrow(number, place, describe_events, implied))
        return tuple(exits)

    def _place(
        self, way: object, after: int | None, block: Block, levels: tuple[_Level, ...]
    ) -> int | Exit | None:
        """The number of a box, an exit, or None if the step's list simply ends."""
        match way:
            case Way.NEXT:
                return after
            case Way.FAILED:
                return _out("failed", _WHO_FAILS.get(block.discipline, "the run fails"))
            case Way.NO_TRANSITION:
                return _out("stuck", _WHO_IS_STUCK.get(block.discipline, "no transition, the run fails"))
            case Goto(step=step_id):
                return _goto(step_id, levels)
            case End():
                # Only a neighbour gets an arrow: from further inside it would cross every frame.
                end = levels[-1].end
                return end if end is not None else _out("end", "end of the run")
            case Error(message=message):
                return _out("error", _cut(f"error: {describe_text(message)}"))
            case ErrorStep():
                error = levels[-1].numbers.get("_error") if len(levels) == 1 else None
                return error if error is not None else _out("error", "_error")
            case Break():
                return _out("break", "leave the loop")
            case Continue():
                return _out("continue", "next item or pass")
            case _:
                raise AssertionError(way)


# What fails if it is not the run.
_WHO_FAILS: Final = {"branch": "this part fails", "graph": "dependants are skipped"}
_WHO_IS_STUCK: Final = {
    "branch": "no transition, this part fails",
    "pass": "no transition, the pass ends",
}


def _out(kind: ExitKind, text: str) -> Exit:
    return Exit((), kind, text, False)


def _events(step: Step) -> tuple[Event, ...]:
    """The outcomes to be drawn: a timeout is handled like a failure unless `on` names it."""
    events: list[Event] = ["success", "failure"]
    if step.on is not None and step.on.timeout is not None:
        events.append("timeout")
    if step.when is not None and not isinstance(step.body, Gate):
        events.append("skipped")
    return tuple(events)


def _goto(step_id: str, levels: tuple[_Level, ...]) -> int | Exit:
    number = next(level.numbers[step_id] for level in reversed(levels) if step_id in level.numbers)
    if any(level.owner == number for level in levels):
        return _out("goto", f"again: {step_id}")
    return number


# --- words ----------------------------------------------------------------------------------------


def kind_of(body: Body) -> str:
    """The kind of a step, in the word that a workflow file uses."""
    match body:
        case ForEach():
            return "for_each"
        case Group():
            return "steps"
        case While(until=True):
            return "repeat_until"
        case Command() if script_in(body) is not None:
            return "shell"
        case _:
            return str(body.__struct_config__.tag)


def detail_of(body: Body) -> str:
    """What a step does, in a line."""
    match body:
        case Command():
            script = script_in(body)
            return script if script is not None else " ".join(map(describe_text, body.argv))
        case Agent():
            return f"{body.provider}: {describe_text(body.prompt.text or body.prompt.file or '')}"
        case Http():
            return f"{body.method} {describe_text(body.url)}"
        case Python():
            return body.function
        case Node():
            return f"{body.type} {body.node}: {body.operation}"
        case Approval():
            return describe_text(body.message)
        case Set():
            return ", ".join(f"{key} = {describe_data(value)}" for key, value in body.values.items())
        case Publish():
            return f"{body.topic}: {describe_data(body.body)}"
        case Gate():
            return ""
        case Call():
            return body.workflow.name
        case Group():
            return "in their order" if body.block.discipline != "graph" else "by their dependencies"
        case Parallel():
            return f"{len(body.block.steps)} at the same time{_join(body.join)}"
        case ForEach():
            concurrently = f", {body.max_workers or 10} at the same time" if body.parallel else ""
            return f"{body.variable} in {describe_data(body.items)}{concurrently}{_join(body.join)}"
        case While():
            return f"{describe_condition(body.condition)}, {body.max_iterations} passes at most"
        case _:
            assert_never(body)


def notes_of(step: Step) -> tuple[str, ...]:
    notes = []
    if step.when is not None:
        notes.append(_cut(f"when {describe_condition(step.when)}"))
    if step.retry is not None and step.retry.attempts > 1:
        notes.append(f"{step.retry.attempts} attempts")
    if step.timeout is not None and step.on is not None and step.on.timeout is not None:
        notes.append(f"timeout {step.timeout:g} s")
    if step.allow_failure:
        notes.append("may fail")
    return tuple(notes)


def _join(join: Join) -> str:
    first = ", the first failure decides" if join.fail_fast else ""
    return first if join.wait_for == "all" else f", {join.wait_for} must succeed"


def describe_condition(condition: Condition) -> str:
    match condition:
        case bool():
            return "true" if condition else "false"
        case All(of=parts):
            return " and ".join(map(_describe_part, parts))
        case AnyOf(of=parts):
            return " or ".join(map(_describe_part, parts))
        case Not(of=part):
            return f"not {_describe_part(part)}"
        case StepIs(state=state, step=step):
            return f"{step} {state}"
        case FileExists(path=path):
            return f"file {describe_text(path)} exists"
        case EnvSet(name=name):
            return f"{describe_text(name)} is set"
        case Holds(expression=expression):
            return unparse(expression)
        case _:
            assert_never(condition)


def _describe_part(condition: Condition) -> str:
    text = describe_condition(condition)
    return f"({text})" if isinstance(condition, All | AnyOf | Holds) else text


def describe_text(text: Text) -> str:
    if isinstance(text, str):
        return text
    return "".join(part if isinstance(part, str) else unparse_reference(part) for part in text.parts)


def describe_data(data: Data) -> str:
    match data:
        case Reference():
            return unparse_reference(data)
        case str() | Template():
            return describe_text(data)
        case DataList(items=items):
            return f"[{', '.join(map(describe_data, items))}]"
        case DataMap(entries=entries):
            return f"{{{', '.join(f'{key}: {describe_data(value)}' for key, value in entries.items())}}}"
        case _:
            return msgspec.json.encode(data).decode()


def _cut(text: str) -> str:
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 1]}…"
