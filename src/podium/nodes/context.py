"""What an operation of a node is given beside its input."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from podium.nodes.action import ModelAction


@dataclass(frozen=True, slots=True)
class NodeContext:
    """Where and when an operation is carried out. `now` is the only clock that a node may decide by."""

    now: datetime
    # Of the event that started the run; the run id if the event has none.
    correlation_id: str
    run_id: str
    step: str
    attempt: int
    # The order that is being carried out, with its lease and epoch.
    action: ModelAction
    # As the specification builds it: `workflow_id`, `operation_id`, `execution_mode` and the metadata.
    workflow: Mapping[str, Any]


class ModelStepResult(BaseModel):
    """How a step that this one depends on has ended. A step without an output failed or was skipped."""

    model_config = ConfigDict(frozen=True)

    status: str = "skipped"
    output: Any = None
    error: dict[str, Any] | None = None
