"""Nodes that every Podium has."""

from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from podium.nodes.base import NodeCompute, NodeEffect, NodeReducer, operation
from podium.nodes.context import NodeContext
from podium.nodes.errors import ReducerError


class EventInput(BaseModel):
    model_config = ConfigDict(frozen=True)

    event: dict[str, Any] = {}


class EventOutput(BaseModel):
    model_config = ConfigDict(frozen=True)

    event: dict[str, Any]
    correlation_id: str


class ReceiveEvent(NodeEffect):
    """Passes the run's event to the steps after it, with its correlation id."""

    name = "receive_event"

    @operation
    async def receive(self, data: EventInput, context: NodeContext) -> EventOutput:
        return EventOutput(event=data.event, correlation_id=context.correlation_id)


class OutputsInput(BaseModel):
    model_config = ConfigDict(frozen=True)

    outputs: dict[str, Any] = {}


class MergedOutput(BaseModel):
    model_config = ConfigDict(frozen=True)

    outputs: dict[str, Any]


class MergeOutputs(NodeCompute):
    """Returns the outputs of all its dependencies, by their names."""

    name = "merge_outputs"

    @operation
    def merge(self, data: OutputsInput, context: NodeContext) -> MergedOutput:
        return MergedOutput(outputs=data.outputs)


class FieldsConfig(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    fields: tuple[str, ...]


class FieldsInput(EventInput):
    config: FieldsConfig


class RequireFields(NodeReducer):
    """Refuses an event that lacks one of the fields; its code is FIELDS_MISSING."""

    name = "require_fields"

    @operation
    def check(self, data: FieldsInput, context: NodeContext) -> EventOutput:
        if any(field not in data.event for field in data.config.fields):
            raise ReducerError("FIELDS_MISSING")
        return EventOutput(event=data.event, correlation_id=context.correlation_id)


BUILT_IN: Final = (ReceiveEvent, MergeOutputs, RequireFields)
