"""Finds the step that a signal names: not reached yet, live, or over; and why a signal has no effect."""

from typing import Final, Literal, TypeAlias

import msgspec

from podium.machine import graphs
from podium.machine.agenda import Agenda
from podium.machine.tree import Phase, Scope, Stage, Visit
from podium.plan.loading import FINALLY, plan_path, walk
from podium.plan.plan import Approval, ForEach, Goto, Step, While

INVALID: Final = "SIGNAL_INVALID_PAYLOAD"
IGNORED: Final = "SIGNAL_IGNORED"
RUNNING: Final = "STEP_RUNNING"
TERMINAL: Final = "STEP_TERMINAL"
NOT_TERMINAL: Final = "STEP_NOT_TERMINAL"
_ERROR: Final = "_error"


class Refusal(str):
    """Why a signal has no effect, with a code for programs."""

    __slots__ = ("code",)
    code: str

    def __new__(cls, reason: str, code: str = IGNORED) -> "Refusal":
        made = super().__new__(cls, reason)
        made.code = code
        return made


Where: TypeAlias = Literal["unknown", "ahead", "live", "over"]


class Location(msgspec.Struct, frozen=True):
    where: Where
    visit: Visit | None = None
    # The list that contains it, if that is open.
    scope: Scope | None = None
    place: int = -1


_AHEAD: Final = Location("ahead")
_OVER: Final = Location("over")


def step_at(m: Agenda, path: str) -> Step | None:
    """The step of the plan that a path leads to: with an index for every loop around it, or without any
    marks.
    """
    plain = plan_path(path)
    steps = dict(walk(m.plan.workflow))
    if path == plain or plain not in steps:
        return steps.get(plain)
    *outer, last = path.split("/")
    *names, name = plain.split("/")
    around = (steps.get("/".join(names[:depth])) for depth in range(1, len(names) + 1))
    marked = all(_is_loop(step) == ("[" in part) for step, part in zip(around, outer, strict=True))
    return steps[plain] if marked and last == name else None


def _is_loop(step: Step | None) -> bool:
    return step is not None and isinstance(step.body, ForEach | While)


def unknown_step(m: Agenda, path: str) -> Refusal:
    from podium.expressions.small_schema import nearest  # rarely needed

    known = [one for one, _ in walk(m.plan.workflow)]
    near = nearest(plan_path(path), known, 3)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"steps: {_listed(known)}"
    return Refusal(f"the plan has no step {path!r}; {hint}", INVALID)


def _listed(names: list[str], most: int = 10) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def locate(m: Agenda, path: str) -> Location:
    """Walks down along the path; a path without marks means every instance of the step."""
    if step_at(m, path) is None:
        return Location("unknown")
    if m.root is None:
        return _AHEAD
    found = m.find_scope(path)
    if found is not None:
        return _in_list(*found)
    outer, _, _ = path.rpartition("/")
    return _outside(m, path, outer)


def _in_list(scope: Scope, index: int) -> Location:
    visit = scope.live.get(index)
    if visit is not None:
        return Location("live", visit, scope, index)
    if scope.graph is not None:
        where: Where = "ahead" if scope.graph.states[index] == graphs.WAITING else "over"
        return Location(where, None, scope, index)
    return Location("over" if index in scope.visits else "ahead", None, scope, index)


def _outside(m: Agenda, path: str, outer: str) -> Location:
    """The list that contains it is not open: not yet, or not any more."""
    stage = _stage_of(path)
    if outer.rpartition("/")[2] == FINALLY:
        outer = outer.rpartition("/")[0]
    if not outer:
        return _by_stage(m.root, stage)
    name, attempt, index = _marks(outer)
    around = locate(m, name)
    if around.visit is None:
        return Location(around.where)
    visit = around.visit
    if visit.phase is Phase.SETTLED:
        return _OVER
    if attempt is None and index is None and (visit.attempt > 1 or visit.loop is not None):
        return _by_branch(visit, path)
    if (attempt or 1) != visit.attempt:
        return _OVER if (attempt or 1) < visit.attempt else _AHEAD
    if visit.call is not None:
        return _by_stage(visit, stage)
    if index is None or visit.loop is None:
        return _AHEAD
    return _OVER if index < visit.loop.index else _AHEAD


def _by_branch(visit: Visit, path: str) -> Location:
    loop = visit.loop
    name = path.rpartition("/")[2]
    return _OVER if loop is not None and name in loop.branches else _AHEAD


def _stage_of(path: str) -> Stage:
    *outer, name = path.split("/")
    if outer and outer[-1] == FINALLY:
        return Stage.FINALLY
    return Stage.ERROR if name == _ERROR else Stage.MAIN


def _by_stage(visit: Visit | None, stage: Stage) -> Location:
    if visit is None or visit.call is None:
        return _AHEAD
    return _AHEAD if visit.call.stage < stage else _OVER


def _marks(outer: str) -> tuple[str, int | None, int | None]:
    """`Deploy#2[3]`: the path of the composite, its attempt and the iteration."""
    before, slash, last = outer.rpartition("/")
    name, _, index = last.partition("[")
    name, _, attempt = name.partition("#")
    return before + slash + name, _number(attempt), _number(index.removesuffix("]"))


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() else None


def may_come_back(m: Agenda) -> bool:
    """Whether a step that is over may be visited again: by `goto`, or by a rejection that names a step."""
    return any(isinstance(step.body, Approval) or _has_goto(step) for _, step in walk(m.plan.workflow))


def _has_goto(step: Step) -> bool:
    on = step.on
    return on is not None and any(
        isinstance(target, Goto) for target in (on.success, on.failure, on.timeout, on.skipped)
    )
