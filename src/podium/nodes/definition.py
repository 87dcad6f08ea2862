"""What a node contract declares: the workflow definition and its steps.

Names, defaults, bounds and configurations are those of the specification. Some fields are *reserved*: they
are kept through a round trip and the executor does not read them. A reserved field that was not set and has no
value is left out of dumps, so that a document comes back as it was written.
"""

import re
from typing import Any, ClassVar, Literal
from uuid import UUID, uuid4

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from podium.nodes.enums import EnumFailureRecoveryStrategy


class ModelSemVer(BaseModel):
    """A version of three numbers; the text '1.2.3' is accepted wherever one is expected."""

    model_config = ConfigDict(frozen=True)

    major: int = Field(default=..., ge=0)
    minor: int = Field(default=..., ge=0)
    patch: int = Field(default=..., ge=0)

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: object) -> object:
        if isinstance(value, dict | ModelSemVer):
            return value
        if not isinstance(value, str) or not _SEMVER.fullmatch(value):
            raise ValueError(f"{value!r} is not a version; write three numbers like 1.2.3")
        return dict(zip(("major", "minor", "patch"), map(int, value.split(".")), strict=True))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


SEMVER_TEXT = r"(0|[1-9][0-9]{0,8})(\.(0|[1-9][0-9]{0,8})){2}"
_SEMVER = re.compile(SEMVER_TEXT)


class _WithReservedFields(BaseModel):
    """Leaves reserved fields that are unset and None out of dumps."""

    optional_reserved_fields: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _without_unset_reserved(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = dump(self)
        for name in self.optional_reserved_fields - self.model_fields_set:
            if data.get(name, ...) is None:
                del data[name]
        return data


class ModelWorkflowNode(BaseModel):
    """A node of the execution graph: carried out by runs, never read by the executor."""

    model_config = ConfigDict(extra="allow")

    version: ModelSemVer | None = None
    node_id: UUID | str
    node_type: str
    description: str | None = None
    node_requirements: dict[str, Any] = Field(default_factory=dict)
    dependencies: list[UUID | str] = Field(default_factory=list)


class ModelExecutionGraph(BaseModel):
    """What a run carries out if the contract has no steps; `execute_workflow` never reads it."""

    model_config = ConfigDict(extra="ignore", use_enum_values=False, validate_assignment=True)

    version: ModelSemVer = Field(default=..., description="Model version")
    nodes: list[ModelWorkflowNode] = Field(default_factory=list, description="Nodes in the execution graph")


class ModelCoordinationRules(BaseModel):
    """Rules for coordination. Runs apply them (docs/nodes.md); `execute_workflow` reads none of them."""

    model_config = ConfigDict(extra="ignore", use_enum_values=False, validate_assignment=True)

    version: ModelSemVer = Field(default=..., description="Model version")
    synchronization_points: list[str] = Field(
        default_factory=list, description="Named synchronization points in the workflow (reserved)"
    )
    parallel_execution_allowed: bool = Field(
        default=True, description="Whether parallel execution is allowed"
    )
    failure_recovery_strategy: EnumFailureRecoveryStrategy = Field(
        default=EnumFailureRecoveryStrategy.RETRY, description="Strategy for handling failures"
    )
    max_retries: int = Field(default=3, description="Reserved")
    retry_delay_ms: int = Field(default=1000, description="Reserved")


class ModelWorkflowDefinitionMetadata(BaseModel):
    """What a workflow is called and how it wants to be processed."""

    model_config = ConfigDict(
        extra="ignore", use_enum_values=False, validate_assignment=True, from_attributes=True
    )

    version: ModelSemVer = Field(default=..., description="Model version")
    workflow_name: str = Field(default=..., description="Name of the workflow", min_length=1)
    workflow_version: ModelSemVer = Field(default=..., description="Version of the workflow")
    description: str = Field(default=..., description="Description of the workflow")
    execution_mode: str = Field(
        default="sequential",
        description="sequential, parallel or batch; conditional and streaming are reserved",
    )
    timeout_ms: int = Field(default=600000, description="Workflow timeout in milliseconds", ge=1000)


class ModelWorkflowDefinition(_WithReservedFields):
    """A complete workflow definition; its steps travel beside it."""

    model_config = ConfigDict(extra="ignore", use_enum_values=False, validate_assignment=True)
    optional_reserved_fields = frozenset({"saga_pattern"})

    version: ModelSemVer = Field(default=..., description="Model version")
    workflow_metadata: ModelWorkflowDefinitionMetadata = Field(default=..., description="Workflow metadata")
    execution_graph: ModelExecutionGraph = Field(
        default=..., description="Execution graph, for contract generation only; the executor never reads it"
    )
    coordination_rules: ModelCoordinationRules = Field(
        default_factory=lambda: ModelCoordinationRules(version=ModelSemVer(major=1, minor=0, patch=0)),
        description="Rules for workflow coordination",
    )
    compensation_enabled: bool = Field(default=False, description="Reserved")
    saga_pattern: str | None = Field(default=None, description="Reserved")
    checkpoint_enabled: bool = Field(default=False, description="Reserved")


class ModelWorkflowStep(_WithReservedFields):
    """One step of a workflow: which kind of node does it, after which other steps, and how failure counts."""

    model_config = ConfigDict(extra="ignore", use_enum_values=False, validate_assignment=True, frozen=True)
    optional_reserved_fields = frozenset({"compensation_action", "idempotency_key"})

    correlation_id: UUID = Field(
        default_factory=uuid4, description="UUID for tracking the step across operations"
    )
    step_id: UUID = Field(default_factory=uuid4, description="Unique identifier for this workflow step")
    step_name: str = Field(
        default=..., description="Human-readable name for this step", min_length=1, max_length=200
    )
    step_type: Literal[
        "compute", "effect", "reducer", "orchestrator", "conditional", "parallel", "custom"
    ] = Field(default=..., description="Which kind of node the step's action is for")

    timeout_ms: int = Field(
        default=30000, description="Step execution timeout in milliseconds", ge=100, le=300000
    )
    retry_count: int = Field(default=3, description="Number of retry attempts on failure", ge=0, le=10)

    enabled: bool = Field(default=True, description="Whether this step is enabled for execution")
    skip_on_failure: bool = Field(
        default=False, description="Whether to skip this step if previous steps failed"
    )

    continue_on_error: bool = Field(
        default=False, description="Advisory: error_action alone decides what a failure does"
    )
    error_action: Literal["stop", "continue", "retry", "compensate"] = Field(
        default="stop", description="Action to take when the step fails"
    )

    max_memory_mb: int | None = Field(
        default=None, description="Maximum memory usage in megabytes", ge=1, le=32768
    )
    max_cpu_percent: int | None = Field(
        default=None, description="Maximum CPU usage percentage", ge=1, le=100
    )

    priority: int = Field(
        default=100,
        description="Authoring-time hint (1-1000), clamped to 1-10 for the action's priority",
        ge=1,
        le=1000,
    )
    order_index: int = Field(default=0, description="Metadata only; never decides an order", ge=0)

    depends_on: list[UUID] = Field(default_factory=list, description="List of step IDs this step depends on")

    parallel_group: str | None = Field(
        default=None, description="An opaque label without effect", max_length=100
    )
    max_parallel_instances: int = Field(
        default=1, description="Maximum parallel instances of this step", ge=1, le=100
    )

    compensation_action: str | None = Field(default=None, description="Reserved")
    checkpoint_required: bool = Field(default=False, description="Reserved")
    idempotency_key: str | None = Field(default=None, description="Reserved")
