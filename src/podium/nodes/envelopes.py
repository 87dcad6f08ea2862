"""Input and output of `NodeOrchestrator.process`."""

from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from pydantic import BaseModel, ConfigDict, Field, field_validator

from podium.nodes.action import utc_now
from podium.nodes.definition import ModelWorkflowStep
from podium.nodes.enums import EnumExecutionMode
from podium.nodes.errors import EnumCoreErrorCode, ModelOnexError
from podium.nodes.json_values import first_unserializable


class ModelOrchestratorInput(BaseModel):
    """One operation: the steps of a workflow and how to process them."""

    model_config = ConfigDict(arbitrary_types_allowed=True, use_enum_values=False)

    workflow_id: UUID = Field(default=..., description="Unique workflow identifier")
    steps: list[ModelWorkflowStep] = Field(default=..., description="Fully typed ModelWorkflowStep instances")
    operation_id: UUID = Field(default_factory=uuid4, description="Unique operation identifier")
    execution_mode: EnumExecutionMode = Field(
        default=EnumExecutionMode.SEQUENTIAL,
        description="Execution mode; when it is not given, the definition's applies",
    )
    max_parallel_steps: int = Field(default=5, description="Maximum number of parallel steps")
    global_timeout_ms: int = Field(default=300000, description="Global workflow timeout (5 minutes default)")
    failure_strategy: str = Field(default="fail_fast", description="Strategy for handling failures")
    load_balancing_enabled: bool = Field(default=False, description="Enable load balancing for operations")
    dependency_resolution_enabled: bool = Field(
        default=True, description="Enable automatic dependency resolution"
    )
    metadata: dict[str, Any] = Field(default_factory=dict, description="Additional workflow metadata")
    timestamp: datetime = Field(default_factory=utc_now, description="Workflow creation timestamp")


class ModelCustomFields(BaseModel):
    """Fields that an orchestrator adds to its output."""

    model_config = ConfigDict(extra="allow")


class ModelOrchestratorOutput(BaseModel):
    """The result of one operation. Everything in it is derived from the executor's result."""

    execution_status: str = Field(default=..., description="Overall execution status")
    execution_time_ms: int = Field(default=..., description="Total execution time in milliseconds")
    start_time: str = Field(
        default=..., description="Completion timestamp (ISO format), the same as end_time"
    )
    end_time: str = Field(
        default=..., description="Completion timestamp (ISO format), the same as start_time"
    )
    completed_steps: list[str] = Field(default_factory=list, description="List of completed step IDs")
    failed_steps: list[str] = Field(default_factory=list, description="List of failed step IDs")
    skipped_steps: list[str] = Field(default_factory=list, description="List of skipped step IDs")
    step_outputs: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Outputs from each step"
    )
    final_result: Any | None = Field(default=None, description="Final orchestration result")
    output_variables: dict[str, Any] = Field(
        default_factory=dict, description="Output variables from the orchestration"
    )
    errors: list[dict[str, str]] = Field(
        default_factory=list, description="List of errors (each with 'step_id', 'error_type', 'message')"
    )
    metrics: dict[str, float] = Field(default_factory=dict, description="Performance metrics")
    parallel_executions: int = Field(default=0, description="Number of parallel execution batches completed")
    actions_emitted: list[Any] = Field(
        default_factory=list, description="List of actions emitted during workflow processing"
    )
    custom_outputs: ModelCustomFields | None = Field(
        default=None, description="Custom output fields for orchestrator-specific data"
    )

    @field_validator("step_outputs")
    @classmethod
    def _step_outputs_are_json(cls, outputs: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        if problem := first_unserializable(outputs):
            raise ModelOnexError(
                f"Step outputs are not JSON-serializable: {problem}",
                EnumCoreErrorCode.VALIDATION_ERROR,
                {"field": "step_outputs", "problem": problem},
            )
        return outputs
