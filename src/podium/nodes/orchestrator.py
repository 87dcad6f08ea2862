"""The stateful façade around the pure executor.

A `NodeOrchestrator` only stores the definition that was injected. It loads nothing, writes nothing and calls
nothing; what it returns is a translation of the executor's result. One instance serves one workflow from one
thread; for anything more, call `execute_workflow` and keep the definitions yourself.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Protocol
from uuid import UUID, uuid4

from podium.nodes.action import utc_now
from podium.nodes.base import Operation
from podium.nodes.definition import ModelWorkflowDefinition, ModelWorkflowStep
from podium.nodes.enums import EnumExecutionMode
from podium.nodes.envelopes import ModelOrchestratorInput, ModelOrchestratorOutput
from podium.nodes.errors import EnumCoreErrorCode, ModelOnexError
from podium.nodes.executor import Clock, ErrorAction, IdFactory, execute_workflow, invalid_workflow
from podium.nodes.result import WorkflowExecutionResult
from podium.nodes.validation import Problem, ProblemKind


class ModelONEXContainer:
    """Represents the container of an orchestrator. Any object will do: it is stored, never called."""


class NodeCoreBase:
    """What every node has: its container."""

    def __init__(self, container: object) -> None:
        self.container = container


class MixinWorkflowExecution:
    """Provides the executor under its name in the specification."""

    async def execute_workflow_from_contract(
        self,
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
        return await execute_workflow(
            workflow_definition,
            workflow_steps,
            workflow_id,
            execution_mode,
            id_factory=id_factory,
            clock=clock,
            global_timeout_ms=global_timeout_ms,
            default_error_action=default_error_action,
        )


# Default error action of steps, by the operation's failure strategy.
_ERROR_ACTION_OF: Final[dict[str, ErrorAction]] = {"fail_fast": "stop", "continue_on_error": "continue"}


class NodeOrchestrator(NodeCoreBase, MixinWorkflowExecution):
    """Processes the steps of one injected workflow definition into actions."""

    # As a node of a contract: its type and name, and its only operation.
    node_type: ClassVar[str] = "orchestrator"
    name: ClassVar[str] = ""
    version: ClassVar[str] = "1.0.0"
    service: ClassVar[str] = ""
    operations: ClassVar[dict[str, Operation]] = {
        "process": Operation("process", ModelOrchestratorInput, ModelOrchestratorOutput)
    }

    workflow_definition: ModelWorkflowDefinition | None

    def __init__(self, container: object) -> None:
        super().__init__(container)
        self.workflow_definition = None

    async def process(
        self,
        input_data: ModelOrchestratorInput,
        *,
        id_factory: IdFactory = uuid4,
        clock: Clock = utc_now,
    ) -> ModelOrchestratorOutput:
        """Process one operation. Raises `ModelOnexError` if the definition is missing or anything is invalid."""
        if self.workflow_definition is None:
            raise ModelOnexError("Workflow definition not loaded", EnumCoreErrorCode.VALIDATION_ERROR)
        error_action = _ERROR_ACTION_OF.get(input_data.failure_strategy)
        if error_action is None:
            known = ", ".join(_ERROR_ACTION_OF)
            message = f"Unknown failure_strategy {input_data.failure_strategy!r}: use one of {known}"
            raise invalid_workflow(input_data.workflow_id, [Problem(ProblemKind.INVALID_VALUE, message)])

        # The default is not a choice: only an explicit mode overrides the definition's.
        mode_was_given = "execution_mode" in input_data.model_fields_set
        result = await self.execute_workflow_from_contract(
            self.workflow_definition,
            input_data.steps,
            input_data.workflow_id,
            execution_mode=input_data.execution_mode if mode_was_given else None,
            id_factory=id_factory,
            clock=clock,
            global_timeout_ms=input_data.global_timeout_ms,
            default_error_action=error_action,
        )
        return _convert_workflow_result_to_output(result)


class WorkflowOperation(Protocol):
    """What is known of a workflow while one of its nodes is called: a `ModelOrchestratorInput`, or a part of
    one.
    """

    @property
    def metadata(self) -> Mapping[str, Any]: ...

    @property
    def workflow_id(self) -> UUID: ...

    @property
    def operation_id(self) -> UUID: ...

    @property
    def execution_mode(self) -> EnumExecutionMode: ...


def _build_workflow_context(input_data: WorkflowOperation) -> dict[str, Any]:
    """The workflow as operations of nodes see it; the three reserved keys take precedence over the metadata."""
    context = dict(input_data.metadata)
    context["workflow_id"] = str(input_data.workflow_id)
    context["operation_id"] = str(input_data.operation_id)
    context["execution_mode"] = input_data.execution_mode.value
    return context


def _convert_workflow_result_to_output(result: WorkflowExecutionResult) -> ModelOrchestratorOutput:
    return ModelOrchestratorOutput(
        execution_status=result.execution_status.value,
        execution_time_ms=result.execution_time_ms,
        # Both are the moment of completion in this version; execution_time_ms is the duration.
        start_time=result.timestamp,
        end_time=result.timestamp,
        completed_steps=result.completed_steps,
        failed_steps=result.failed_steps,
        skipped_steps=result.skipped_steps,
        errors=result.errors,
        metrics=_build_output_metrics(result),
        actions_emitted=result.actions_emitted,
    )


def _build_output_metrics(result: WorkflowExecutionResult) -> dict[str, float]:
    return {
        "actions_count": float(len(result.actions_emitted)),
        "completed_count": float(len(result.completed_steps)),
        "failed_count": float(len(result.failed_steps)),
        "skipped_count": float(len(result.skipped_steps)),
    }
