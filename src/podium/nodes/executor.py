"""The pure orchestrator: a definition and its steps give a result and actions.

Nothing is done here; every effect is an action for another node. There is one order of processing for all
modes: waves, and inside a wave the order of declaration. The same inputs give the same output, up to ids and
times, and those come in as `id_factory` and `clock`.

How a step ends:

    disabled                                                    skipped, and counts as done for its dependents
    the deadline has passed                                     failed
    a dependency failed or was skipped                          failed; its error_action is not applied
    skip_on_failure, and a step before it in the order failed   skipped; does not satisfy its dependents
    its action cannot be created                                failed; error_action `stop` ends the processing
    otherwise                                                   completed, with one action

Whatever a stop leaves unprocessed is skipped. The workflow has failed if any step has.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias
from uuid import UUID, uuid4

from podium.nodes.action import ModelAction, utc_now
from podium.nodes.definition import ModelWorkflowDefinition, ModelWorkflowStep
from podium.nodes.enums import EnumExecutionMode, EnumWorkflowState
from podium.nodes.errors import EnumCoreErrorCode, ModelOnexError
from podium.nodes.result import WorkflowExecutionResult
from podium.nodes.validation import (
    ERROR_ACTIONS,
    EXECUTION_MODES,
    ROUTES,
    Examination,
    Problem,
    ProblemKind,
    examine,
    order_steps,
)

Clock: TypeAlias = Callable[[], datetime]
IdFactory: TypeAlias = Callable[[], UUID]
ErrorAction: TypeAlias = Literal["stop", "continue", "retry", "compensate"]

HIGHEST_ACTION_PRIORITY: Final = 10
_ONE_MILLISECOND: Final = timedelta(milliseconds=1)

logger = logging.getLogger(__name__)


async def execute_workflow(
    workflow_definition: ModelWorkflowDefinition,
    workflow_steps: list[ModelWorkflowStep],
    workflow_id: UUID,
    execution_mode: EnumExecutionMode | None = None,
    *,
    id_factory: IdFactory = uuid4,
    clock: Clock = utc_now,
    global_timeout_ms: int | None = None,
    default_error_action: ErrorAction = "stop",
) -> WorkflowExecutionResult:
    """Create the actions of a workflow, in order.

    Synchronous inside: it never awaits. `default_error_action` is for steps that did not set their own. The
    deadline is the smaller of `global_timeout_ms` and the definition's timeout. Raises one `ModelOnexError`
    with all problems if the workflow is not valid; errors of a single step are in the result.
    """
    started = clock()
    examination = examine(workflow_definition, workflow_steps, execution_mode)
    problems = examination.problems
    if global_timeout_ms is not None and global_timeout_ms < 1:
        message = f"global_timeout_ms must be at least 1, got {global_timeout_ms}"
        problems.append(Problem(ProblemKind.INVALID_VALUE, message))
    if default_error_action not in ERROR_ACTIONS:
        message = (
            f"Unknown default_error_action {default_error_action!r}: use one of {', '.join(ERROR_ACTIONS)}"
        )
        problems.append(Problem(ProblemKind.INVALID_VALUE, message))
    if problems:
        raise invalid_workflow(workflow_id, problems)

    metadata = workflow_definition.workflow_metadata
    mode = execution_mode or EXECUTION_MODES[metadata.execution_mode]
    limit = metadata.timeout_ms if global_timeout_ms is None else min(global_timeout_ms, metadata.timeout_ms)
    books = _Books(workflow_steps)
    _process(
        books,
        examination,
        workflow_id,
        id_factory=id_factory,
        clock=clock,
        deadline=started + timedelta(milliseconds=limit),
        default_error_action=default_error_action,
    )
    ended = clock()
    result_metadata: dict[str, object] = {
        "execution_mode": mode.value,
        "workflow_name": metadata.workflow_name,
    }
    if mode is EnumExecutionMode.BATCH:
        result_metadata["batch_size"] = len(workflow_steps)
    return WorkflowExecutionResult(
        workflow_id=workflow_id,
        execution_status=EnumWorkflowState.FAILED if books.failed else EnumWorkflowState.COMPLETED,
        completed_steps=books.completed,
        failed_steps=books.failed,
        skipped_steps=books.skipped,
        actions_emitted=books.actions,
        # Rounded up, so that no work appears to have taken no time.
        execution_time_ms=max(0, -((started - ended) // _ONE_MILLISECOND)),
        metadata=result_metadata,
        errors=books.errors,
        timestamp=ended.isoformat(),
    )


def get_execution_order(workflow_steps: Sequence[ModelWorkflowStep]) -> list[UUID]:
    """The ids of all steps in the order in which they are processed, disabled ones included."""
    ordering = order_steps(workflow_steps)
    if ordering.cycle:
        raise ModelOnexError(
            "Cannot compute execution order: workflow contains cycles",
            EnumCoreErrorCode.VALIDATION_ERROR,
            {"cycle": [str(workflow_steps[index].step_id) for index in ordering.cycle]},
        )
    return [workflow_steps[index].step_id for wave in ordering.waves for index in wave]


async def validate_workflow_definition(
    workflow_definition: ModelWorkflowDefinition,
    workflow_steps: list[ModelWorkflowStep],
) -> list[str]:
    """All problems of a workflow in their fixed order; empty if it is valid. Never raises."""
    return [problem.message for problem in examine(workflow_definition, workflow_steps).problems]


def invalid_workflow(workflow_id: UUID, problems: list[Problem]) -> ModelOnexError:
    """The one error for a workflow that is not valid; its context lists every problem and its reason."""
    errors = [problem.message for problem in problems]
    return ModelOnexError(
        f"Workflow validation failed: {', '.join(errors)}",
        EnumCoreErrorCode.VALIDATION_ERROR,
        {
            "workflow_id": str(workflow_id),
            "errors": errors,
            "reasons": [problem.kind.value for problem in problems],
        },
    )


def _create_action_for_step(
    step: ModelWorkflowStep,
    workflow_id: UUID,
    step_to_action_map: Mapping[UUID, UUID],
    *,
    id_factory: IdFactory = uuid4,
    clock: Clock = utc_now,
) -> ModelAction:
    """The action of one step. `step_to_action_map` gives the order of the action's dependencies.

    Looked up by this name for every step, so that tests can replace it to inject faults.
    """
    action_type, target_node_type = ROUTES[step.step_type]
    needed = set(step.depends_on)
    return ModelAction(
        action_id=id_factory(),
        action_type=action_type,
        target_node_type=target_node_type,
        payload={
            "workflow_id": str(workflow_id),
            "step_id": str(step.step_id),
            "step_name": step.step_name,
        },
        dependencies=[action for step_id, action in step_to_action_map.items() if step_id in needed],
        priority=min(step.priority, HIGHEST_ACTION_PRIORITY),
        timeout_ms=step.timeout_ms,
        lease_id=id_factory(),
        # Only the node that executes the action increments it.
        epoch=0,
        retry_count=step.retry_count,
        metadata={"step_name": step.step_name, "correlation_id": str(step.correlation_id)},
        created_at=clock(),
    )


class _Books:
    """The end of each step, and its reason."""

    def __init__(self, steps: Sequence[ModelWorkflowStep]) -> None:
        self.steps = steps
        self.actions: list[ModelAction] = []
        self.completed: list[str] = []
        self.failed: list[str] = []
        self.errors: list[dict[str, str]] = []
        # The action of each completed step; None for every other.
        self.action_of: list[UUID | None] = [None] * len(steps)
        self._ended_otherwise = [False] * len(steps)

    def complete(self, index: int, action: ModelAction) -> None:
        self.actions.append(action)
        self.action_of[index] = action.action_id
        self._ended_otherwise[index] = True
        self.completed.append(str(self.steps[index].step_id))

    def fail(self, index: int, error_type: str, message: str) -> None:
        step = self.steps[index]
        self._ended_otherwise[index] = True
        self.failed.append(str(step.step_id))
        self.errors.append({"step_id": str(step.step_id), "error_type": error_type, "message": message})
        logger.warning("Step '%s' failed: %s", step.step_name, message)

    @property
    def skipped(self) -> list[str]:
        """Every step that neither completed nor failed, in the order of declaration."""
        return [
            str(step.step_id)
            for step, ended in zip(self.steps, self._ended_otherwise, strict=True)
            if not ended
        ]


def _process(
    books: _Books,
    examination: Examination,
    workflow_id: UUID,
    *,
    id_factory: IdFactory,
    clock: Clock,
    deadline: datetime,
    default_error_action: ErrorAction,
) -> None:
    for index in (index for wave in examination.waves for index in wave):
        step = books.steps[index]
        if not step.enabled:
            continue
        if clock() >= deadline:
            books.fail(index, "TIMEOUT", "the workflow's time ran out before the step was processed")
            continue
        # Ascending: the dependencies of an action are in the order of declaration, without duplicates.
        needed = sorted(set(examination.dependencies[index]))
        unmet = [other for other in needed if books.action_of[other] is None]
        if unmet:
            others = f" and {len(unmet) - 1} more" if len(unmet) > 1 else ""
            first = f"'{books.steps[unmet[0]].step_name}'"
            books.fail(index, "DEPENDENCY_NOT_MET", f"it depends on {first}{others}, which did not complete")
            continue
        if step.skip_on_failure and books.failed:
            continue
        actions = {books.steps[other].step_id: books.action_of[other] for other in needed}
        try:
            action = _create_action_for_step(
                step,
                workflow_id,
                actions,  # type: ignore[arg-type]  # none is unmet
                id_factory=id_factory,
                clock=clock,
            )
        except (MemoryError, RecursionError):
            # Not a failure of this step: the process itself has a problem.
            raise
        except Exception as error:
            books.fail(index, type(error).__name__, f"its action could not be created: {error}")
            chosen = step.error_action if "error_action" in step.model_fields_set else default_error_action
            if chosen == "stop":
                return
        else:
            books.complete(index, action)
