"""Whether a workflow definition with its steps can be executed.

One pass, O(V + E), answers that and also returns the order of execution. Problems are in a fixed order: the
definition, then each step as declared, then each dependency as declared, then cycles. Nothing here raises,
whatever the models contain: they may have been built without validation.

A disabled step is only checked for what others depend on (its id, its references, cycles through it); what it
would do may be valid only in a later version.
"""

from collections.abc import Sequence
from enum import StrEnum
from operator import attrgetter
from typing import Final, NamedTuple, get_args
from uuid import UUID

from annotated_types import Ge, Le
from pydantic import BaseModel

from podium.nodes.definition import (
    ModelWorkflowDefinition,
    ModelWorkflowDefinitionMetadata,
    ModelWorkflowStep,
)
from podium.nodes.enums import EnumActionType, EnumExecutionMode
from podium.plan import graph

# Target of an action, by step type. `conditional` is a reserved word without a target.
ROUTES: Final[dict[str, tuple[EnumActionType, str]]] = {
    "compute": (EnumActionType.COMPUTE, "NodeCompute"),
    "effect": (EnumActionType.EFFECT, "NodeEffect"),
    "reducer": (EnumActionType.REDUCE, "NodeReducer"),
    "orchestrator": (EnumActionType.ORCHESTRATE, "NodeOrchestrator"),
    "custom": (EnumActionType.CUSTOM, "NodeCustom"),
    "parallel": (EnumActionType.CUSTOM, "NodeCustom"),
}
RESERVED_STEP_TYPE: Final = "conditional"
EXECUTION_MODES: Final = {mode.value: mode for mode in EnumExecutionMode}
RESERVED_MODES: Final = frozenset({EnumExecutionMode.CONDITIONAL, EnumExecutionMode.STREAMING})
SUPPORTED_MODES: Final = tuple(mode.value for mode in EnumExecutionMode if mode not in RESERVED_MODES)


class ProblemKind(StrEnum):
    """The kind of rule that was broken, which determines a file's diagnostic."""

    INVALID_VALUE = "INVALID_VALUE"
    UNKNOWN_MODE = "UNKNOWN_MODE"
    RESERVED_MODE = "RESERVED_MODE"
    RESERVED_STEP_TYPE = "RESERVED_STEP_TYPE"
    DUPLICATE_STEP_ID = "DUPLICATE_STEP_ID"
    UNKNOWN_DEPENDENCY = "UNKNOWN_DEPENDENCY"
    CYCLE = "CYCLE"


class Problem(NamedTuple):
    """One broken rule: the sentence for people, and the place for programs."""

    kind: ProblemKind
    message: str
    path: tuple[str | int, ...] = ()
    # Indexes of other steps it is about: those of a cycle, each depending on the next and the last on the first;
    # for a duplicate the step that had the id first.
    related: tuple[int, ...] = ()


class Examination(NamedTuple):
    """Everything that is needed before executing; the order is only meaningful without problems."""

    problems: list[Problem]
    # Per step, the indexes of the enabled steps it depends on, as written: in any order, with repeats.
    dependencies: list[list[int]]
    waves: list[list[int]]


def examine(
    definition: ModelWorkflowDefinition,
    steps: Sequence[ModelWorkflowStep],
    execution_mode: EnumExecutionMode | None = None,
) -> Examination:
    """Check a workflow and order its steps. `execution_mode` is the caller's override, if there is one."""
    problems = _definition_problems(definition)
    if execution_mode is not None:
        problems += mode_problems(execution_mode)
    examined = examine_steps(steps)
    return examined._replace(problems=problems + examined.problems)


def examine_steps(steps: Sequence[ModelWorkflowStep]) -> Examination:
    """The part of `examine` that concerns the steps alone."""
    try:
        return _examine_steps(steps)
    except (AttributeError, TypeError):
        unusable = _unusable(steps)
        if not unusable:
            raise
        return Examination(unusable, [], [])


def order_steps(steps: Sequence[ModelWorkflowStep]) -> graph.Ordering:
    """The order of steps: waves of indexes, or the cycle that prevents one."""
    index_of: dict[int, int] = {}
    for index, step in enumerate(steps):
        index_of.setdefault(step.step_id.int, index)
    return _order(steps, _indexed_dependencies(steps, index_of))[1]


def _examine_steps(steps: Sequence[ModelWorkflowStep]) -> Examination:
    problems: list[Problem] = []
    # Keyed by the number of the UUID: hashing the UUID itself runs Python code for every look-up.
    index_of: dict[int, int] = {}
    for index, step in enumerate(steps):
        if not isinstance(step, ModelWorkflowStep):
            raise TypeError
        if step.enabled and not _is_sound(step):
            problems += _described(index, step)
        if index_of.setdefault(step.step_id.int, index) != index:
            message = f"Duplicate step ID: {step.step_id}"
            path = ("steps", index, "step_id")
            first = index_of[step.step_id.int]
            problems.append(Problem(ProblemKind.DUPLICATE_STEP_ID, message, path, (first,)))

    dependencies = _indexed_dependencies(steps, index_of)
    for index, step in enumerate(steps):
        if len(dependencies[index]) < len(step.depends_on):
            problems += _unknown_dependencies(index, step, index_of)

    dependencies, ordering = _order(steps, dependencies)
    if ordering.cycle:
        cycle = describe_cycle(ordering.cycle, [_name(step) for step in steps])
        first, then = ordering.cycle[0], ordering.cycle[1 % len(ordering.cycle)]
        needed = [index_of.get(other.int) for other in steps[first].depends_on]
        where = ("steps", first, "depends_on", needed.index(then))
        problems.append(
            Problem(ProblemKind.CYCLE, f"Workflow contains cycles: {cycle}", where, tuple(ordering.cycle))
        )
    return Examination(problems, dependencies, ordering.waves)


def _indexed_dependencies(steps: Sequence[ModelWorkflowStep], index_of: dict[int, int]) -> list[list[int]]:
    """Per step, the indexes of the steps it names; unknown names are omitted."""
    # Explicit loops: a nested comprehension would be an additional call for every step.
    every: list[list[int]] = []
    for step in steps:
        indexes: list[int] = []
        for needed in step.depends_on:
            index = index_of.get(needed.int)
            if index is not None:
                indexes.append(index)
        every.append(indexes)
    return every


def _order(
    steps: Sequence[ModelWorkflowStep], every: list[list[int]]
) -> tuple[list[list[int]], graph.Ordering]:
    """The effective dependencies, and the order they give."""
    disabled = {index for index, step in enumerate(steps) if not step.enabled}
    ordering = graph.order(every)
    if ordering.cycle or not disabled:
        return every, ordering
    # A graph without cycles has none in any part of it, so it is sufficient to check the full graph. A
    # disabled step counts as done: its dependants need not wait for it.
    enabled = [[needed for needed in group if needed not in disabled] for group in every]
    return enabled, graph.order(enabled)


def _unknown_dependencies(index: int, step: ModelWorkflowStep, index_of: dict[int, int]) -> list[Problem]:
    return [
        Problem(
            ProblemKind.UNKNOWN_DEPENDENCY,
            f"{_called(index, step)} depends on non-existent step: {needed}",
            ("steps", index, "depends_on", place),
        )
        for place, needed in enumerate(step.depends_on)
        if needed.int not in index_of
    ]


def _unusable(steps: object) -> list[Problem]:
    """Problems that prevent the steps from being examined at all."""
    if not isinstance(steps, list | tuple):
        message = f"Steps must be a list of ModelWorkflowStep, not {type(steps).__name__}"
        return [Problem(ProblemKind.INVALID_VALUE, message, ("steps",))]
    problems = []
    for index, step in enumerate(steps):
        if not isinstance(step, ModelWorkflowStep):
            message = f"Step at position {index} is not a ModelWorkflowStep but {type(step).__name__}"
        elif not _has_ids(step):
            message = f"{_called(index, step)} has no valid step_id and depends_on"
        else:
            continue
        problems.append(Problem(ProblemKind.INVALID_VALUE, message, ("steps", index)))
    return problems


def _has_ids(step: ModelWorkflowStep) -> bool:
    needed = getattr(step, "depends_on", None)
    return isinstance(needed, list) and all(isinstance(id_, UUID) for id_ in [step.step_id, *needed])


def _definition_problems(definition: ModelWorkflowDefinition) -> list[Problem]:
    metadata = getattr(definition, "workflow_metadata", None)
    if not isinstance(metadata, ModelWorkflowDefinitionMetadata):
        message = f"Workflow definition must be a ModelWorkflowDefinition, not {type(definition).__name__}"
        return [Problem(ProblemKind.INVALID_VALUE, message)]

    problems = []
    name = getattr(metadata, "workflow_name", None)
    if not isinstance(name, str) or not name:
        message = "Workflow name must not be empty"
        problems.append(Problem(ProblemKind.INVALID_VALUE, message, ("workflow_metadata", "workflow_name")))
    problems += mode_problems(getattr(metadata, "execution_mode", None))
    timeout = getattr(metadata, "timeout_ms", None)
    if not _is_within(timeout, *_WORKFLOW_TIMEOUT):
        message = f"Workflow timeout_ms must be at least {_WORKFLOW_TIMEOUT[0]}, got {timeout!r}"
        problems.append(Problem(ProblemKind.INVALID_VALUE, message, ("workflow_metadata", "timeout_ms")))
    return problems


def mode_problems(mode: object) -> list[Problem]:
    path = ("workflow_metadata", "execution_mode")
    known = EXECUTION_MODES.get(mode) if isinstance(mode, str) else mode
    if not isinstance(known, EnumExecutionMode):
        message = f"Invalid execution mode {mode!r}: use one of {', '.join(SUPPORTED_MODES)}"
        return [Problem(ProblemKind.UNKNOWN_MODE, message, path)]
    if known in RESERVED_MODES:
        message = (
            f"Execution mode '{known.value}' is reserved for future versions and MUST NOT be used in v1.0"
        )
        return [Problem(ProblemKind.RESERVED_MODE, message, path)]
    return []


def _is_sound(step: ModelWorkflowStep) -> bool:
    """A fast check for the usual step; `_described` finds the messages for the others."""
    try:
        return (
            step.step_type in ROUTES
            and step.error_action in ERROR_ACTIONS
            and step.step_name != ""
            and type(step.step_name) is str
            and all(map(_is_within, _BOUNDED_VALUES(step), _LOWEST, _HIGHEST))
        )
    except (AttributeError, TypeError):
        return False


def _described(index: int, step: ModelWorkflowStep) -> list[Problem]:
    problems: list[Problem] = []

    def add(kind: ProblemKind, field: str, message: str) -> None:
        problems.append(Problem(kind, f"{_called(index, step)} {message}", ("steps", index, field)))

    if not _name(step):
        add(ProblemKind.INVALID_VALUE, "step_name", "must have a step_name")
    step_type = getattr(step, "step_type", None)
    if step_type == RESERVED_STEP_TYPE:
        message = f"has step_type '{RESERVED_STEP_TYPE}', which is reserved for future versions"
        add(ProblemKind.RESERVED_STEP_TYPE, "step_type", message)
    elif not isinstance(step_type, str) or step_type not in ROUTES:
        add(
            ProblemKind.INVALID_VALUE,
            "step_type",
            f"has invalid step_type {step_type!r}: use one of {', '.join(ROUTES)}",
        )
    if getattr(step, "error_action", None) not in ERROR_ACTIONS:
        action = getattr(step, "error_action", None)
        add(
            ProblemKind.INVALID_VALUE,
            "error_action",
            f"has invalid error_action {action!r}: use one of {', '.join(ERROR_ACTIONS)}",
        )
    for field, (lowest, highest) in _BOUNDS.items():
        value = getattr(step, field, None)
        if not _is_within(value, lowest, highest):
            message = f"has {field} {value!r}, which is not between {lowest} and {highest}"
            add(ProblemKind.INVALID_VALUE, field, message)
    return problems


def _name(step: ModelWorkflowStep) -> str:
    name = getattr(step, "step_name", None)
    return name if isinstance(name, str) else ""


def _called(index: int, step: ModelWorkflowStep) -> str:
    return f"Step '{_name(step)}'" if _name(step) else f"Step at position {index}"


def describe_cycle(cycle: Sequence[int], names: Sequence[str]) -> str:
    """A cycle for people, from its first step back to it; a long one is truncated."""
    shown = " -> ".join(f"'{names[index]}'" for index in cycle[:_MAX_NAMES])
    if len(cycle) > _MAX_NAMES:
        shown += f" -> ... ({len(cycle) - _MAX_NAMES} more)"
    return f"{shown} -> '{names[cycle[0]]}'"


def _is_within(value: object, lowest: int, highest: int) -> bool:
    return type(value) is int and lowest <= value <= highest


def _bounds_of(model: type[BaseModel], field: str) -> tuple[int, int]:
    """The bounds declared by the model, so that they are defined once."""
    lowest, highest = 0, 2**63
    for rule in model.model_fields[field].metadata:
        if isinstance(rule, Ge):
            lowest = int(rule.ge)  # type: ignore[call-overload]
        elif isinstance(rule, Le):
            highest = int(rule.le)  # type: ignore[call-overload]
    return lowest, highest


_MAX_NAMES: Final = 10
# Only the fields that are passed to an action: a value that the action would refuse is reported before
# anything runs.
_BOUNDS: Final = {
    field: _bounds_of(ModelWorkflowStep, field) for field in ("timeout_ms", "retry_count", "priority")
}
_BOUNDED_VALUES: Final = attrgetter(*_BOUNDS)
_LOWEST: Final = [lowest for lowest, _ in _BOUNDS.values()]
_HIGHEST: Final = [highest for _, highest in _BOUNDS.values()]
_WORKFLOW_TIMEOUT: Final = _bounds_of(ModelWorkflowDefinitionMetadata, "timeout_ms")
ERROR_ACTIONS: Final = get_args(ModelWorkflowStep.model_fields["error_action"].annotation)
