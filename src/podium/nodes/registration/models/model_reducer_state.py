"""The state that the reducer folds events into. It covers one batch, so that it does not grow without limit."""

from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from podium.nodes.registration.fsm import State
from podium.ports.catalog import Projection


class ModelReducerState(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    # Nodes for which this batch has intents.
    processed_node_ids: frozenset[UUID] = Field(default_factory=frozenset)
    # Of the node that the event is about, as it is to be; None if the node is unknown.
    registration: Projection | None = None
    # The states that the event led through.
    entered: tuple[State, ...] = ()
    # Why the event could not be followed; None if it could, or if nothing had to be done.
    code: str | None = None
