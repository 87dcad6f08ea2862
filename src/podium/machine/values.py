"""What names mean at a place in the tree.

The variable of the innermost loop takes precedence; steps are looked up from the scope outwards, up to the
workflow they belong to. What a step has not produced (yet) is MISSING.
"""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from msgspec import UNSET

from podium.expressions.evaluate import MISSING, EvaluationError, Missing
from podium.expressions.templates import fill_in
from podium.expressions.types import Value
from podium.log.times import Timestamp, seconds_between
from podium.machine.commands import Answers, Question
from podium.machine.program import EVERYTHING, Kind, Node
from podium.machine.recalled import RecalledTime
from podium.machine.tree import InnerResults, Iteration, Loop, Result, Scope, Visit, WorkflowState
from podium.plan.plan import ForEach

# The value of a name, or MISSING if it has none (yet).
Known: TypeAlias = "Value | Missing"


class Surroundings:
    """Facts about the host that decisions may read, given to a run once, at its start."""

    __slots__ = ("env", "now", "recalled", "run")

    def __init__(self) -> None:
        self.env: dict[str, str] = {}
        self.run: dict[str, Any] = {}
        self.now: Timestamp = ""
        self.recalled = RecalledTime()

    @property
    def measured(self) -> Timestamp:
        """The clock that measures durations."""
        return self.recalled.at(self.now)


class ScopeView:
    """The names at one scope, for conditions, templates and data."""

    __slots__ = ("_scope", "_surroundings", "answers", "questions")

    def __init__(self, scope: Scope, surroundings: Surroundings, answers: Answers | None = None) -> None:
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
    """The scopes around a place, up to its workflow: names are not visible beyond it."""
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
    """The newest result of a step, searched from the scope outwards."""
    for around in outwards(scope):
        if step in around.block.index:
            return around.results.get(step)
        if around.block.branches.get(step) is not None:
            block = around.results.get(around.block.branches[step])
            branches = block.inner.branches if block is not None and block.inner is not None else UNSET
            return branches.get(step) if branches is not UNSET else None
        main = _main_scope(around)
        if main is not None and step in main:
            return main[step]
    return None


def _main_scope(scope: Scope) -> dict[str, Result] | None:
    """`finally` and `_error` read the results of the workflow's main list."""
    owner = scope.owner
    if owner.call is None:
        return None
    return owner.call.main_results


# --- results --------------------------------------------------------------------------------------

_PLAIN: Final = frozenset({"status", "exit_code", "attempts", "visits", "timed_out"})
_INNER: Final = InnerResults.__struct_fields__


def read_result(result: Result, path: tuple[str | int, ...], place: int) -> Known:
    """`steps.X`, starting with the part at `place`."""
    if place == len(path):
        return as_value(result)
    name = path[place]
    if name == "skipped":
        return result.status == "skipped"
    if name in _PLAIN:
        return _into(getattr(result, str(name)), path, place + 1)
    if name in _INNER:
        return _inner(result.inner, path, place)
    if result.facts is None or name not in result.facts:
        return MISSING
    return _into(result.facts[str(name)], path, place + 1)


def _inner(inner: InnerResults | None, path: tuple[str | int, ...], place: int) -> Known:
    found = getattr(inner, str(path[place]), UNSET)
    if found is UNSET or found is None:
        return MISSING
    if path[place] == "iterations":
        return _iteration(found, path, place + 1)
    return _step_in(found, path, place + 1)


def _step_in(results: dict[str, Result], path: tuple[str | int, ...], place: int) -> Known:
    """The results of the steps of a list, or of one of them."""
    if place == len(path):
        return _as_values(results)
    result = results.get(path[place])  # type: ignore[arg-type]
    return read_result(result, path, place + 1) if result is not None else MISSING


def _iteration(iterations: dict[int, Iteration], path: tuple[str | int, ...], place: int) -> Known:
    if place == len(path):
        return [_shown(iterations[index]) for index in sorted(iterations)]
    one = iterations.get(path[place])  # type: ignore[arg-type]
    if one is None:
        return MISSING
    place += 1
    if place == len(path):
        return _shown(one)
    if path[place] == "steps":
        return _step_in(one.steps, path, place + 1)
    return _into(getattr(one, str(path[place]), MISSING), path, place + 1)


def _shown(one: Iteration) -> Value:
    return {"index": one.index, "item": one.item, "status": one.status, "steps": _as_values(one.steps)}


def _as_values(results: dict[str, Result]) -> dict[str, Value]:
    return {name: as_value(result) for name, result in results.items()}


def as_value(result: Result) -> Value:
    """A whole result as plain data."""
    value: dict[str, Any] = {
        "status": result.status,
        "exit_code": result.exit_code,
        "attempts": result.attempts,
        "visits": result.visits,
        "timed_out": result.timed_out,
        "skipped": result.status == "skipped",
        **(result.facts or {}),
    }
    for name in _INNER:
        found = getattr(result.inner, name, UNSET)
        if found is not UNSET:
            whole = _as_values(found or {}) if name != "iterations" else _iteration(found, (), 0)
            value[name] = whole
    return value


def kept_inner(node: Node, inner: InnerResults) -> InnerResults:
    """The results that references read."""
    return InnerResults(*(getattr(inner, name) if keeps(node, name) else UNSET for name in _INNER))


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
