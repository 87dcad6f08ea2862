"""Is a workflow definition with its steps one that can be executed?

One pass, O(V + E), answers that and yields the order of execution, so that nobody has to ask twice. Problems
come in a fixed order: the definition, then each step as declared, then each dependency as declared, then
cycles. Nothing here raises, whatever the models contain: they may have been built without validation.

A disabled step is only checked for what others rely on (its id, its references, cycles through it); what it
would do may well be valid only in a later version.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple, TypeGuard, get_args
from uuid import UUID

from annotated_types import Ge, Le
from pydantic import BaseModel

from podium.core import graph
from podium.nodes.definition import (
    ModelWorkflowDefinition,
    ModelWorkflowDefinitionMetadata,
    ModelWorkflowStep,
)
from podium.nodes.enums import EnumActionType, EnumExecutionMode

# Where an action of each step type goes. `conditional` is a word of the language without a route: reserved.
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
    """What kind of rule was broken; a file's diagnostic is chosen by it."""

    INVALID_VALUE = "INVALID_VALUE"
    UNKNOWN_MODE = "UNKNOWN_MODE"
    RESERVED_MODE = "RESERVED_MODE"
    RESERVED_STEP_TYPE = "RESERVED_STEP_TYPE"
    DUPLICATE_STEP_ID = "DUPLICATE_STEP_ID"
    UNKNOWN_DEPENDENCY = "UNKNOWN_DEPENDENCY"
    CYCLE = "CYCLE"


class Problem(NamedTuple):
    """One broken rule: the sentence for people, and where it is for programs."""

    kind: ProblemKind
    message: str
    path: tuple[str | int, ...] = ()
    # For a cycle: indexes of its steps, each depending on the next and the last on the first.
    cycle: tuple[int, ...] = ()


class Examination(NamedTuple):
    """Everything there is to know before executing; the order is only meaningful without problems."""

    problems: list[Problem]
    # Per step, the indexes of the enabled steps it depends on: ascending, each once.
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
    if not _are_steps(steps):
        return Examination(_not_steps(steps), [], [])

    problems: list[Problem] = []
    index_of: dict[UUID, int] = {}
    for index, step in enumerate(steps):
        problems += _step_problems(index, step)
        if index_of.setdefault(step.step_id, index) != index:
            message = f"Duplicate step ID: {step.step_id}"
            problems.append(Problem(ProblemKind.DUPLICATE_STEP_ID, message, ("steps", index, "step_id")))

    for index, step in enumerate(steps):
        problems += [
            Problem(
                ProblemKind.UNKNOWN_DEPENDENCY,
                f"{_called(index, step)} depends on non-existent step: {needed}",
                ("steps", index, "depends_on", place),
            )
            for place, needed in enumerate(step.depends_on)
            if needed not in index_of
        ]

    dependencies, ordering = _order(steps, index_of)
    if ordering.cycle:
        message = f"Workflow contains cycles: {told_cycle(ordering.cycle, [_name(step) for step in steps])}"
        path = ("steps", ordering.cycle[0], "depends_on")
        problems.append(Problem(ProblemKind.CYCLE, message, path, tuple(ordering.cycle)))
    return Examination(problems, dependencies, ordering.waves)


def order_steps(steps: Sequence[ModelWorkflowStep]) -> graph.Ordering:
    """The one order of steps: waves of indexes, or the cycle that prevents it."""
    index_of: dict[UUID, int] = {}
    for index, step in enumerate(steps):
        index_of.setdefault(step.step_id, index)
    return _order(steps, index_of)[1]


def _order(
    steps: Sequence[ModelWorkflowStep], index_of: dict[UUID, int]
) -> tuple[list[list[int]], graph.Ordering]:
    every = [sorted({index_of[needed] for needed in step.depends_on if needed in index_of}) for step in steps]
    disabled = {index for index, step in enumerate(steps) if not step.enabled}
    ordering = graph.order(every)
    if ordering.cycle or not disabled:
        return every, ordering
    # A graph without cycles has none in any part of it, so the full graph was the one to check. A disabled
    # step counts as done: whatever waits for it need not wait.
    enabled = [[needed for needed in group if needed not in disabled] for group in every]
    return enabled, graph.order(enabled)


def _are_steps(steps: object) -> TypeGuard[Sequence[ModelWorkflowStep]]:
    return isinstance(steps, list | tuple) and all(
        isinstance(step, ModelWorkflowStep)
        and isinstance(getattr(step, "step_id", None), UUID)
        and isinstance(getattr(step, "depends_on", None), list)
        and all(isinstance(needed, UUID) for needed in step.depends_on)
        for step in steps
    )


def _not_steps(steps: object) -> list[Problem]:
    """Why `steps` cannot be looked into at all."""
    if not isinstance(steps, list | tuple):
        message = f"Steps must be a list of ModelWorkflowStep, not {type(steps).__name__}"
        return [Problem(ProblemKind.INVALID_VALUE, message, ("steps",))]
    problems = []
    for index, step in enumerate(steps):
        if not isinstance(step, ModelWorkflowStep):
            message = f"Step at position {index} is not a ModelWorkflowStep but {type(step).__name__}"
            problems.append(Problem(ProblemKind.INVALID_VALUE, message, ("steps", index)))
        elif not _are_steps([step]):
            message = f"Step at position {index} has no valid step_id and depends_on"
            problems.append(Problem(ProblemKind.INVALID_VALUE, message, ("steps", index)))
    return problems


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


def _step_problems(index: int, step: ModelWorkflowStep) -> list[Problem]:
    try:
        if not step.enabled or _is_sound(step):
            return []
    except (AttributeError, TypeError):
        pass  # built without validation; told below, field by field
    return _described(index, step)


def _is_sound(step: ModelWorkflowStep) -> bool:
    """The quick answer for the usual step; `_described` finds the words for the others."""
    for field, (lowest, highest) in _BOUNDS.items():
        value = getattr(step, field)
        if type(value) is not int or not lowest <= value <= highest:
            return False
    return (
        step.step_type in ROUTES
        and step.error_action in ERROR_ACTIONS
        and type(step.step_name) is str
        and step.step_name != ""
    )


def _described(index: int, step: ModelWorkflowStep) -> list[Problem]:
    problems: list[Problem] = []

    def add(kind: ProblemKind, field: str, message: str) -> None:
        problems.append(Problem(kind, f"{_called(index, step)} {message}", ("steps", index, field)))

    name = getattr(step, "step_name", None)

    if not isinstance(name, str) or not name:
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


def told_cycle(cycle: Sequence[int], names: Sequence[str]) -> str:
    """A cycle as people read it, from its first step back to it; of a long one only the beginning."""
    shown = " -> ".join(f"'{names[index]}'" for index in cycle[:_MOST_NAMES])
    if len(cycle) > _MOST_NAMES:
        shown += f" -> ... ({len(cycle) - _MOST_NAMES} more)"
    return f"{shown} -> '{names[cycle[0]]}'"


def _is_within(value: object, lowest: int, highest: int) -> bool:
    return type(value) is int and lowest <= value <= highest


def _bounds_of(model: type[BaseModel], field: str) -> tuple[int, int]:
    """The bounds as the model declares them, so that they are written down once."""
    lowest, highest = 0, 2**63
    for rule in model.model_fields[field].metadata:
        if isinstance(rule, Ge):
            lowest = int(rule.ge)  # type: ignore[call-overload]
        elif isinstance(rule, Le):
            highest = int(rule.le)  # type: ignore[call-overload]
    return lowest, highest


_MOST_NAMES: Final = 10
# Only the fields that reach an action: a value the action would refuse is better told before anything runs.
_BOUNDS: Final = {
    field: _bounds_of(ModelWorkflowStep, field) for field in ("timeout_ms", "retry_count", "priority")
}
_WORKFLOW_TIMEOUT: Final = _bounds_of(ModelWorkflowDefinitionMetadata, "timeout_ms")
ERROR_ACTIONS: Final = get_args(ModelWorkflowStep.model_fields["error_action"].annotation)
