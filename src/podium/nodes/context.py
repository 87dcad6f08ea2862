"""The context of a node's operation, besides its input."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from podium.nodes.action import ModelAction


@dataclass(frozen=True, slots=True)
class NodeContext:
    """Where and when an operation is executed. `now` is the only clock on which a node may base decisions."""

    now: datetime
    # That of the event that started the run; the run id if the event has none.
    correlation_id: str
    run_id: str
    step: str
    attempt: int
    # `action` and `workflow`, created on demand: that takes longer than most operations.
    facts: Callable[[], tuple[ModelAction, Mapping[str, Any]]] = field(repr=False, compare=False)

    @property
    def action(self) -> ModelAction:
        """The order that is being executed, with its lease and epoch."""
        return self.facts()[0]

    @property
    def workflow(self) -> Mapping[str, Any]:
        """In the form of the specification: `workflow_id`, `operation_id`, `execution_mode` and the metadata."""
        return self.facts()[1]


class ModelStepResult(BaseModel):
    """How a step that this one depends on has ended. A step without an output failed or was skipped."""

    model_config = ConfigDict(frozen=True)

    status: str = "skipped"
    output: Any = None
    error: dict[str, Any] | None = None
