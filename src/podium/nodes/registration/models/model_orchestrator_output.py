"""The outcome of a run."""

from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from podium.nodes.registration.models.model_intent_execution_result import ModelIntentExecutionResult


class ModelOrchestratorOutput(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    correlation_id: UUID
    # partial: exactly one side is applied.
    status: Literal["success", "partial", "failed"]
    consul_applied: bool
    postgres_applied: bool
    # Codes, never texts.
    consul_error: str | None = None
    postgres_error: str | None = None
    intent_results: tuple[ModelIntentExecutionResult, ...] = ()
    total_execution_time_ms: float = 0.0
    # Why nothing could be done: NODE_UNKNOWN, or the rule that refused the node.
    code: str | None = None
