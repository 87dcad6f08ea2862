"""Events folded one after the other, as runs would do it: reduce, carry out the intents, settle."""

from collections.abc import Collection
from datetime import datetime
from itertools import pairwise
from uuid import UUID

from podium.nodes.registration.fsm import ARROWS, PASSED_THROUGH, State
from podium.nodes.registration.models.model_orchestrator_input import RegistrationEvent
from podium.nodes.registration.models.model_reducer_state import ModelReducerState
from podium.nodes.registration.reducer import RegistrationReducer, settle
from podium.nodes.registration.wanted import BOTH, Intent, Side
from podium.ports.catalog import Projection
from tests.unit.registration.building import REDUCER, TIME

_STEPS = {(before, after) for (before, _), after in ARROWS.items()}


class Fold:
    def __init__(self, reducer: RegistrationReducer = REDUCER) -> None:
        self.rows: dict[UUID, Projection] = {}
        self.reducer = reducer

    def run(
        self, event: RegistrationEvent, now: datetime, works: Collection[Side] = BOTH
    ) -> tuple[ModelReducerState, tuple[Intent, ...]]:
        """`works`: the sides that can be reached."""
        before = self.rows.get(event.node_id)
        state, intents = self.reducer.reduce(ModelReducerState(registration=before), event, now)
        applied = {intent.kind for intent in intents if intent.kind in works}
        after = settle(state, applied, now, TIME)
        if after.registration is not None:
            self.rows[event.node_id] = after.registration
        check(before, after)
        return after, intents


def check(before: Projection | None, after: ModelReducerState) -> None:
    """What holds after every event."""
    row = after.registration
    start = State(before.state) if before is not None else State.UNKNOWN
    chain = (start, *after.entered)
    assert set(pairwise(chain)) <= _STEPS
    if row is None:
        return
    state = State(row.state)
    assert chain[-1] is state
    assert state not in PASSED_THROUGH
    assert (row.ack_deadline is not None) == (state is State.AWAITING_ACK)
    assert (row.liveness_deadline is not None) == (state is State.ACTIVE)
    assert (row.retry_at is None) == (row.consul_applied and row.postgres_applied)
    if before is not None:
        assert (row.node.epoch or 0, row.seen_at) >= (before.node.epoch or 0, before.seen_at)
