"""What names mean at a place in the tree.

The variable of the innermost loop is before everything else; steps are looked for from the scope outwards, up to
the workflow they belong to. What a step has not given, or not given yet, is MISSING.
"""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from podium.expressions.evaluate import MISSING, EvaluationError, Missing
from podium.expressions.templates import fill_in
from podium.expressions.types import Value
from podium.log.times import Timestamp, seconds_between
from podium.machine.commands import Question
from podium.machine.program import EVERYTHING, Kind, Node
from podium.machine.recalled import RecalledTime
from podium.machine.tree import Loop, Result, Scope, Visit, WorkflowState
from podium.plan.plan import ForEach

# What a name means, or that it means nothing (yet).
Known: TypeAlias = "Value | Missing"


class Surroundings:
    """What a run is given once, at its start: names of the host that decisions may read."""

    __slots__ = ("env", "now", "recalled", "run")

    def __init__(self) -> None:
        self.env: dict[str, str] = {}
        self.run: dict[str, Any] = {}
        self.now: Timestamp = ""
        self.recalled = RecalledTime()

    @property
    def measured(self) -> Timestamp:
        """The time by which durations are measured."""
        return self.recalled.at(self.now)


class ScopeView:
    """The names at one scope, for conditions, templates and data."""

    __slots__ = ("_scope", "_surroundings", "answers", "questions")

    def __init__(
        self, scope: Scope, surroundings: Surroundings, answers: dict[Question, bool] | None = None
    ) -> None:
        self._scope = scope
        self._surroundings = surroundings
        self.answers = answers or {}
        self.questions: list[Question] = []

    def lookup(self, path: tuple[str | int, ...]) -> Known:
        first = path[0]
        value: Any
        if first == "context":
            value = workflow_of(self._scope).context
        elif first == "steps":
            return self._step(path)
        elif first == "inputs":
            value = workflow_of(self._scope).inputs
        elif first == "env":
            value = self._surroundings.env
        elif first == "run":
            value = self._run()
        elif first == "loop":
            return _into(*self._loop(path))
        else:
            value = self._variable(first)
        return _into(value, path, 1)

    def step_is(self, state: str, step: str) -> bool:
        result = find_result(self._scope, step)
        if result is None:
            return False
        match state:
            case "ok":
                return result.status == "completed"
            case "failed":
                return result.status == "failed"
            case "skipped":
                return result.status == "skipped"
            case _:
                return result.status != "skipped"

    # --- names ------------------------------------------------------------------------------------

    def _variable(self, name: str | int) -> Any:
        for scope in outwards(self._scope):
            owner = scope.owner.node
            if owner.kind is Kind.FOR_EACH and owner.body.variable == name:  # type: ignore[union-attr]
                return scope.item
        return MISSING

    def _run(self) -> dict[str, Any]:
        root = self._scope
        while not root.owner.is_root:
            root = root.owner.scope
        call = root.owner.call
        if call is None or call.verdict is None:
            return self._surroundings.run
        verdict = call.verdict
        ended = {"status": verdict.status, "error": verdict.error, "exit_code": verdict.exit_code}
        return {**self._surroundings.run, **ended}

    def _loop(self, path: tuple[str | int, ...]) -> tuple[Any, tuple[str | int, ...], int]:
        place = 1
        scope = _loop_around(self._scope)
        while place < len(path) and path[place] == "parent" and scope is not None:
            place += 1
            scope = _loop_around(scope.owner.scope)
        if scope is None or scope.owner.loop is None:
            return MISSING, path, place
        return self._loop_fields(scope, scope.owner.loop, scope.owner), path, place

    def _loop_fields(self, scope: Scope, loop: Loop, visit: Visit) -> dict[str, Any]:
        if visit.node.kind is Kind.FOR_EACH:
            return {
                "index": scope.index,
                "total": loop.total,
                "first": scope.index == 0,
                "last": scope.index == loop.total - 1,
            }
        elapsed = seconds_between(loop.started_at, self._surroundings.measured)
        limit = visit.node.body.max_duration  # type: ignore[union-attr]
        return {"iteration": scope.index, "elapsed": elapsed, "remaining_time": max(0, limit - elapsed)}

    def _step(self, path: tuple[str | int, ...]) -> Known:
        result = find_result(self._scope, str(path[1]))
        return read_result(result, path, 2) if result is not None else MISSING


def outwards(scope: Scope) -> Iterator[Scope]:
    """The scopes around a place, up to the workflow it belongs to: names end there."""
    yield scope
    while scope.owner.call is None:
        scope = scope.owner.scope
        yield scope


def workflow_of(scope: Scope) -> WorkflowState:
    while scope.owner.call is None:
        scope = scope.owner.scope
    return scope.owner.call


def _loop_around(scope: Scope) -> Scope | None:
    for around in outwards(scope):
        if around.owner.node.kind in (Kind.FOR_EACH, Kind.WHILE):
            return around
    return None


def find_result(scope: Scope, step: str) -> Result | None:
    """The newest result of a step, looked for from the scope outwards."""
    for around in outwards(scope):
        if step in around.block.index:
            return around.results.get(step)
        if around.block.branches.get(step) is not None:
            block = around.results.get(around.block.branches[step])
            branches = (
                block.fields.get("branches") if block is not None and block.fields is not None else None
            )
            return branches.get(step) if branches is not None else None
        main = _main_scope(around)
        if main is not None and step in main:
            return main[step]
    return None


def _main_scope(scope: Scope) -> dict[str, Result] | None:
    """`finally` and `_error` read what the workflow's own list has left."""
    owner = scope.owner
    if owner.call is None:
        return None
    return owner.call.main_results


# --- results --------------------------------------------------------------------------------------

_PLAIN: Final = frozenset({"status", "exit_code", "attempts", "visits", "timed_out"})


def read_result(result: Result, path: tuple[str | int, ...], place: int) -> Known:
    """`steps.X` from the part at `place` on."""
    if place == len(path):
        return as_value(result)
    name = path[place]
    if name == "skipped":
        return result.status == "skipped"
    if name in _PLAIN:
        return _into(getattr(result, str(name)), path, place + 1)
    fields = result.fields
    if fields is None or name not in fields:
        return MISSING
    value = fields[str(name)]
    rest = place + 1
    if name == "iterations":
        return _iteration(value, path, rest)
    if name in ("last", "branches", "steps"):
        if value is None or rest == len(path):
            return MISSING if value is None else {step: as_value(one) for step, one in value.items()}
        inner = value.get(path[rest])
        return read_result(inner, path, rest + 1) if inner is not None else MISSING
    return _into(value, path, rest)


def _iteration(iterations: dict[int, dict[str, Any]], path: tuple[str | int, ...], place: int) -> Known:
    if place == len(path):
        return [_shown(iterations[index]) for index in sorted(iterations)]
    one = iterations.get(path[place])  # type: ignore[arg-type]
    if one is None:
        return MISSING
    place += 1
    if place == len(path):
        return _shown(one)
    if path[place] != "steps":
        return _into(one.get(str(path[place]), MISSING), path, place + 1)
    place += 1
    if place == len(path):
        return {name: as_value(result) for name, result in one["steps"].items()}
    inner = one["steps"].get(path[place])
    return read_result(inner, path, place + 1) if inner is not None else MISSING


def _shown(iteration: dict[str, Any]) -> Value:
    return {**iteration, "steps": {name: as_value(result) for name, result in iteration["steps"].items()}}


def as_value(result: Result) -> Value:
    """A whole result as plain data."""
    value: dict[str, Any] = {
        "status": result.status,
        "exit_code": result.exit_code,
        "attempts": result.attempts,
        "visits": result.visits,
        "timed_out": result.timed_out,
        "skipped": result.status == "skipped",
    }
    for name, field in (result.fields or {}).items():
        if name == "iterations":
            value[name] = [_shown(field[index]) for index in sorted(field)]
        elif name in ("last", "branches", "steps"):
            value[name] = {inner: as_value(one) for inner, one in (field or {}).items()}
        else:
            value[name] = field
    return value


def keeps(node: Node, field: str) -> bool:
    return field in node.kept or EVERYTHING in node.kept


def _into(value: Any, path: tuple[str | int, ...], place: int) -> Known:
    """Follow the rest of a path into plain data."""
    found: Known = value
    for part in path[place:]:
        if isinstance(found, dict) and isinstance(part, str):
            found = found.get(part, MISSING)
        elif isinstance(found, list) and isinstance(part, int) and 0 <= part < len(found):
            found = found[part]
        else:
            return MISSING
    return found


def items_of(view: ScopeView, node: Node) -> list[Any]:
    body = node.body
    if not isinstance(body, ForEach):
        return []
    items = fill_in(body.items, view.lookup)
    if not isinstance(items, list):
        raise EvaluationError(f"'items' is {'empty' if items is None else 'no list'}")
    if body.max_iterations is not None and len(items) > body.max_iterations:
        raise EvaluationError(
            f"there are {len(items)} items, more than max_iterations, {body.max_iterations}"
        )
    return items
