"""The state that the reducer folds events into. It covers one batch, so that it does not grow without limit."""

from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from podium.nodes.registration.fsm import State
from podium.ports.catalog import Projection


class ModelReducerState(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    # Nodes for which this batch has intents.
    processed_node_ids: frozenset[UUID] = Field(default_factory=frozenset)
    # The future registration of the node that the event is about; None if the node is unknown.
    registration: Projection | None = None
    # The states that the event led through.
    entered: tuple[State, ...] = ()
    # Why the event had no effect; None if it had one, or if nothing had to be done.
    code: str | None = None
