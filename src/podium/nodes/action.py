"""An action: work handed to another node, with the lease that proves who ordered it."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from pydantic import BaseModel, ConfigDict, Field, field_validator

from podium.nodes.enums import EnumActionType
from podium.nodes.errors import EnumCoreErrorCode, ModelOnexError
from podium.nodes.json_values import first_unserializable


def utc_now() -> datetime:
    """The default clock: aware UTC, everywhere."""
    return datetime.now(UTC)


class ModelAction(BaseModel):
    """What a target node is asked to do. `dependencies` are ids of actions, never of steps."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_enum_values=False)

    action_id: UUID = Field(default_factory=uuid4, description="Unique identifier for this action")
    action_type: EnumActionType = Field(default=..., description="Type of action for execution routing")
    target_node_type: str = Field(
        default=..., description="Target node type for action execution", min_length=1, max_length=100
    )
    payload: dict[str, Any] = Field(default_factory=dict, description="Action payload data")
    dependencies: list[UUID] = Field(
        default_factory=list, description="List of action IDs this action depends on (NOT step IDs)"
    )
    priority: int = Field(default=1, description="Execution priority (higher = more urgent)", ge=1, le=10)
    timeout_ms: int = Field(default=30000, description="Execution timeout in milliseconds", ge=100, le=300000)
    lease_id: UUID = Field(default=..., description="Lease ID proving Orchestrator ownership")
    epoch: int = Field(default=..., description="Monotonically increasing version number", ge=0)
    retry_count: int = Field(default=0, description="Number of retry attempts on failure", ge=0, le=10)
    metadata: dict[str, Any] = Field(
        default_factory=dict, description="Additional metadata for action execution"
    )
    created_at: datetime = Field(default_factory=utc_now, description="Timestamp when action was created")

    @field_validator("payload")
    @classmethod
    def _payload_is_json(cls, payload: dict[str, Any]) -> dict[str, Any]:
        if problem := first_unserializable(payload):
            raise ModelOnexError(
                f"Action payload is not JSON-serializable: {problem}",
                EnumCoreErrorCode.VALIDATION_ERROR,
                {"field": "payload", "problem": problem},
            )
        return payload
