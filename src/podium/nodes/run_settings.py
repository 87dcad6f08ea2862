"""Settings of a contract for its runs, beyond the models of the specification.

The specification's executor ignores all of this; only `nodes/compiling.py` reads it. Models that forbid
unknown keys make such a key an error, because an ineffective key there would change how failures are treated.
`defer_build`: most commands need the names of the fields only, so a validator is built when it is first used.
"""

from typing import Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from podium.nodes.definition import (
    ModelCoordinationRules,
    ModelExecutionGraph,
    ModelWorkflowDefinition,
    ModelWorkflowStep,
)
from podium.nodes.sections import Sections

RetriedError: TypeAlias = Literal["EffectExecutionError", "ConnectionError", "TimeoutError"]
RETRIED_ERRORS: Final[tuple[RetriedError, ...]] = ("EffectExecutionError", "ConnectionError", "TimeoutError")


class RetryPolicy(BaseModel):
    """How an effect tries again inside one attempt of its step."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    max_retries: int = Field(default=3, ge=0, le=10, description="How many more tries there are")
    initial_delay_ms: int = Field(default=100, ge=0, le=60_000, description="Pause before the first of them")
    exponential_base: int = Field(default=2, ge=1, le=10, description="How much longer each pause is")
    max_delay_ms: int = Field(default=5000, ge=0, le=300_000, description="The longest pause")
    retry_on: list[RetriedError] = Field(
        default_factory=lambda: list(RETRIED_ERRORS), description="Errors that are tried again"
    )


class CircuitBreaker(BaseModel):
    """When a service that keeps failing is not called for a while."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    enabled: bool = True
    failure_threshold: int = Field(
        default=5, ge=1, le=1000, description="Failed attempts in a row that open it"
    )
    reset_timeout_ms: int = Field(default=60_000, ge=1, le=86_400_000, description="How long it stays open")


class ErrorType(BaseModel):
    """What a kind of error means for its step."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    name: str = Field(min_length=1, max_length=100)
    description: str | None = None
    recoverable: bool = Field(default=True, description="false: the step is not tried again")
    retry_strategy: Literal["none", "exponential_backoff"] = Field(
        default="none", description="none: the step fails immediately"
    )


class ErrorHandling(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)

    retry_policy: RetryPolicy | None = None
    circuit_breaker: CircuitBreaker | None = None
    error_types: list[ErrorType] = []


class StepNode(BaseModel):
    """Which node carries out a step."""

    model_config = ConfigDict(defer_build=True)

    node: str | None = Field(default=None, description="Name of the node; by default the step's own")
    operation: str | None = Field(default=None, description="Operation of the node, if it has several")
    config: dict[str, Any] = Field(default_factory=dict, description="Given to the node")
    allow_failure: bool = Field(
        default=False, description="Steps that depend on it run although it failed, and the run may succeed"
    )


class RunStep(StepNode, ModelWorkflowStep):
    """A step as a file may have it."""


class GraphNode(StepNode):
    """A node of the execution graph as a run needs it; its other keys are kept and not read."""

    node_id: str
    node_type: Literal["compute", "effect", "reducer", "orchestrator", "custom"]
    depends_on: list[str] | None = None
    dependencies: list[str] | None = None
    enabled: bool = True
    timeout_ms: int = Field(default=30000, ge=100, le=300000)
    retry_count: int | None = Field(default=None, ge=0, le=10)
    error_action: Literal["stop", "continue", "retry", "compensate"] = "stop"
    priority: int = Field(default=100, ge=1, le=1000)


class RunRules(ModelCoordinationRules):
    """Coordination rules as a file may have them."""

    model_config = ConfigDict(defer_build=True)

    execution_mode: str | None = Field(default=None, description="The same as in the metadata")
    max_parallel_branches: int | None = Field(
        default=None, ge=1, le=1000, description="How many steps run at the same time"
    )
    timeout_ms: int | None = Field(default=None, ge=1000, description="Workflow timeout in milliseconds")
    max_retries: int = Field(default=3, ge=0, le=10, description="Step retries, without delay")


class RunDefinition(ModelWorkflowDefinition):
    model_config = ConfigDict(defer_build=True)

    execution_graph: ModelExecutionGraph
    coordination_rules: RunRules = Field(
        default_factory=lambda: RunRules.model_validate({"version": "1.0.0"})
    )


class RunCoordination(BaseModel):
    model_config = ConfigDict(defer_build=True)

    workflow_definition: RunDefinition


class RunnableContract(Sections):
    """All keys that a contract file may have; its JSON Schema is generated from this."""

    workflow_coordination: RunCoordination
    steps: list[RunStep] = Field(default_factory=list)
    error_handling: ErrorHandling | None = None
