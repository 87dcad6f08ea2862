"""`when`, and the conditions of loops."""

from typing import Final

from podium.language.codes import Code
from podium.language.problems import suggestion
from podium.language.references import Names, Place, not_visible
from podium.language.scopes import NotVisible, find_step
from podium.language.tree import Mapping, Node, Scalar, Sequence
from podium.language.values import expression_of, text_of
from podium.patterns import lazy_pattern
from podium.plan.conditions import (
    All,
    AnyOf,
    Condition,
    EnvSet,
    FileExists,
    Holds,
    Not,
    StepIs,
    StepState,
)
from podium.text import quoted

_VALUE_OF_A_VARIABLE: Final = lazy_pattern(r"\$\{env\.(\w+)\}")
_STEP_STATES: Final[dict[str, StepState]] = {
    "step_ok": "ok",
    "step_failed": "failed",
    "step_skipped": "skipped",
    "step_ran": "ran",
}


def condition_of(node: Node, names: Names) -> Condition:
    """A condition whose shape was checked: true, false, or a mapping with one key."""
    if isinstance(node, Scalar):
        return bool(node.value)
    assert isinstance(node, Mapping)
    if not node.entries:
        return False  # already reported
    key, entry = next(iter(node.entries.items()))
    value = entry.value
    match key:
        case "all":
            return All(_conditions(value, names))
        case "any":
            return AnyOf(_conditions(value, names))
        case "not":
            return Not(condition_of(value, names))
        case "file_exists":
            return FileExists(text_of(value, names, Place.STORED))
        case "env_set":
            return _env_set(value, names)
        case "expr":
            return Holds(expression_of(value, names))
        case _:
            return _step_is(_STEP_STATES[key], value, names)


def _env_set(node: Node, names: Names) -> Condition:
    assert isinstance(node, Scalar)
    written = _VALUE_OF_A_VARIABLE.fullmatch(str(node.value))
    if written is not None:
        names.problems.error(
            Code.INVALID_FORMAT,
            node,
            f"'env_set' takes the name of a variable, but {quoted(written[0])} is its value.",
            f"Write `env_set: {written[1]}`.",
        )
        return False
    return EnvSet(text_of(node, names, Place.STORED))


def _conditions(node: Node, names: Names) -> tuple[Condition, ...]:
    assert isinstance(node, Sequence)
    return tuple(condition_of(item, names) for item in node.items)


def _step_is(state: StepState, node: Node, names: Names) -> Condition:
    assert isinstance(node, Scalar)
    step_id = step_named(node, names)
    return StepIs(state, step_id) if step_id is not None else False


def step_named(node: Scalar, names: Names) -> str | None:
    """The id of the step that a text names; None, with a report, if it cannot be named from here."""
    name = str(node.value)
    found = find_step(name, names.scope, names.step)
    if found is None:
        if names.problems.is_enough():
            return None
        known = [known for scope in names.scope.outwards() for known in scope.steps]
        if names.workflow.may_declare("steps", name, known):
            return None
        names.problems.error(
            Code.STEP_NOT_DEFINED,
            node,
            f"step {quoted(name)} does not exist.",
            suggestion(name, known, "steps"),
        )
        return None
    if isinstance(found, NotVisible):
        if names.workflow.may_wait_for(found) or names.problems.is_enough():
            return None
        names.problems.error(
            Code.STEP_NOT_VISIBLE,
            node,
            *not_visible(name, found, names, "`expr:` with ${%s.exit_code}"),
        )
        return None
    return found.step_id
