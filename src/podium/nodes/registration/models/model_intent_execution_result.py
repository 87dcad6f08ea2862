"""The result of executing an intent."""

from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict


class ModelIntentExecutionResult(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["consul", "postgres"]
    operation: str
    node_id: UUID
    correlation_id: UUID
    success: bool
    # A code, never the text of an exception.
    error: str | None = None
    # Revision of the projection, if the intent changed it.
    revision: int | None = None
