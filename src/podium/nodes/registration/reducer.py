"""Every decision about a registration: a pure fold of one event into the state of its node, and what follows
from it.

    reduce(state, event, now)          before anything is done: the new state, and intents for both sides
    settle(state, applied, now, time)  after the intents were executed: what is applied, and what that leads to

Delivering an event again changes nothing, and an older one never replaces a newer one. `now` is an argument;
no other clock is used here.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, assert_never

from podium.nodes.registration.fsm import TERMINAL, State, Trigger, entered, has_effect
from podium.nodes.registration.models.model_orchestrator_config import ReducerRules, TimeInjection
from podium.nodes.registration.models.model_orchestrator_input import (
    NodeIntrospectionEvent,
    NodeOverdue,
    NodeRegistrationAcked,
    RegistrationEvent,
    RegistryRequestIntrospectionEvent,
)
from podium.nodes.registration.models.model_reducer_state import ModelReducerState
from podium.nodes.registration.ordering import (
    epoch_of,
    is_newer,
    is_older_ack,
    is_same_content,
    is_same_delivery,
    may_restart,
)
from podium.nodes.registration.refusals import refusal
from podium.nodes.registration.timeouts import passed_deadlines
from podium.nodes.registration.wanted import BOTH, Intent, Side, missing_sides, wanted_intents
from podium.ports.catalog import NodeDescription, Projection

NODE_UNKNOWN: Final = "NODE_UNKNOWN"
RATE_LIMITED: Final = "RATE_LIMITED"

Reduction = tuple[ModelReducerState, tuple[Intent, ...]]


@dataclass(frozen=True, slots=True)
class RegistrationReducer:
    """A `ProtocolReducer`. It stores nothing between calls, so that any number of threads may share one."""

    rules: ReducerRules
    time: TimeInjection

    def reduce(self, state: ModelReducerState, event: RegistrationEvent, now: datetime) -> Reduction:
        fresh = state.model_copy(update={"entered": (), "code": None})
        match event:
            case NodeIntrospectionEvent():
                return self._introspected(fresh, _described(event), now)
            case RegistryRequestIntrospectionEvent():
                return self._requested(fresh, event, now)
            case NodeRegistrationAcked():
                return self._acked(fresh, event, now)
            case NodeOverdue():
                return self._overdue(fresh, event, now)
            case _:
                assert_never(event)

    # --- a node describes itself ------------------------------------------------------------------

    def _introspected(self, state: ModelReducerState, node: NodeDescription, now: datetime) -> Reduction:
        row = state.registration
        if row is None:
            return self._start(state, node, now)
        if State(row.state) in TERMINAL:
            is_new = may_restart(row, node)
            return self._start(state, node, now) if is_new else self._again(state, row, node, now)
        if not is_newer(row, node):
            return self._again(state, row, node, now)
        if epoch_of(node.epoch) == epoch_of(row.node.epoch) and is_same_content(row.node, node):
            # Recorded, so that different content with an earlier time counts as older.
            return self._again(state, _changed(row, seen_at=node.timestamp), node, now)
        return self._update(state, row, node, now)

    def _again(
        self, state: ModelReducerState, row: Projection, node: NodeDescription, now: datetime
    ) -> Reduction:
        """Nothing new. A repeated delivery completes what the first one left undone."""
        if is_same_delivery(row, node):
            return self._repair(state, row, node, now)
        return _state(state, row), ()

    def _start(self, state: ModelReducerState, node: NodeDescription, now: datetime) -> Reduction:
        known = state.registration
        before = State(known.state) if known is not None else State.UNKNOWN
        revision = known.revision if known is not None else 0
        row = Projection(
            node=node, state=State.PENDING_REGISTRATION, revision=revision, seen_at=node.timestamp
        )
        code = refusal(node, self.rules)
        if code is None:
            return self._apply(state, row, BOTH, node, now, entered(before, Trigger.INTROSPECTED))
        passed = entered(before, Trigger.INTROSPECTED, Trigger.REFUSED)
        # Nothing was ever applied, or the end of the previous registration still has to be.
        sides = (known.consul_applied, known.postgres_applied) if known is not None else (True, True)
        row = _changed(
            row,
            state=passed[-1],
            consul_applied=sides[0],
            postgres_applied=sides[1],
            retry_at=known.retry_at if known is not None else None,
        )
        return _state(state, row, passed, code), ()

    def _update(
        self, state: ModelReducerState, row: Projection, node: NodeDescription, now: datetime
    ) -> Reduction:
        code = refusal(node, self.rules)
        if code is not None:
            return self._refuse_update(state, row, node, now, code)
        updated = _changed(row, node=node, seen_at=node.timestamp)
        if State(row.state) is State.AWAITING_ACK:
            updated = _changed(updated, ack_deadline=now + self.time.ack)
        if (earliest := self._earliest_update(row)) is not None and now < earliest:
            later = _changed(updated, consul_applied=False, postgres_applied=False, retry_at=earliest)
            return _state(state, later, (), RATE_LIMITED), ()
        return self._apply(state, updated, BOTH, node, now)

    def _refuse_update(
        self, state: ModelReducerState, row: Projection, node: NodeDescription, now: datetime, code: str
    ) -> Reduction:
        if not has_effect(State(row.state), Trigger.REFUSED):
            return _state(state, row, (), code), ()
        passed = entered(State(row.state), Trigger.REFUSED)
        # Some of it may have been applied, whatever was reported.
        refused = _changed(row, node=node, seen_at=node.timestamp, state=passed[-1])
        return self._apply(state, refused, BOTH, node, now, passed, code)

    def _earliest_update(self, row: Projection) -> datetime | None:
        interval = timedelta(milliseconds=self.rules.rate_limit.min_update_interval_ms)
        return row.applied_at + interval if row.applied_at is not None else None

    # --- other events -----------------------------------------------------------------------------

    def _requested(
        self, state: ModelReducerState, event: RegistryRequestIntrospectionEvent, now: datetime
    ) -> Reduction:
        row = state.registration
        if row is None:
            return _state(state, None, (), NODE_UNKNOWN), ()
        return self._apply(state, row, BOTH, event, now)

    def _acked(self, state: ModelReducerState, event: NodeRegistrationAcked, now: datetime) -> Reduction:
        row = state.registration
        if row is None:
            return _state(state, None, (), NODE_UNKNOWN), ()
        if is_older_ack(row, event.epoch, event.timestamp) or not has_effect(State(row.state), Trigger.ACKED):
            return _state(state, row), ()
        passed = entered(State(row.state), Trigger.ACKED, Trigger.ACTIVATED)
        active = _changed(
            row,
            state=passed[-1],
            ack_deadline=None,
            liveness_deadline=now + self.time.liveness,
            # Earlier heartbeats do not count.
            heartbeat_at=event.timestamp,
        )
        return _state(state, active, passed), ()

    def _overdue(self, state: ModelReducerState, event: NodeOverdue, now: datetime) -> Reduction:
        row = state.registration
        if row is None:
            return _state(state, None, (), NODE_UNKNOWN), ()
        passed = passed_deadlines(row, now)
        before = State(row.state)
        if "ack" in passed:
            led_to = entered(before, Trigger.ACK_DEADLINE_PASSED, Trigger.RETRIED)
        elif "liveness" in passed:
            led_to = entered(before, Trigger.LIVENESS_DEADLINE_PASSED)
        elif "retry" in passed:
            return self._repair(state, row, event, now)
        else:
            return _state(state, row), ()
        ended = _changed(row, state=led_to[-1], ack_deadline=None, liveness_deadline=None)
        return self._apply(state, ended, BOTH, event, now, led_to)

    # --- consequences -----------------------------------------------------------------------------

    def _repair(
        self,
        state: ModelReducerState,
        row: Projection,
        event: RegistrationEvent | NodeDescription,
        now: datetime,
    ) -> Reduction:
        missing = missing_sides(row)
        return self._apply(state, row, missing, event, now) if missing else (_state(state, row), ())

    def _apply(
        self,
        state: ModelReducerState,
        row: Projection,
        sides: Sequence[Side],
        event: RegistrationEvent | NodeDescription,
        now: datetime,
        passed: tuple[State, ...] = (),
        code: str | None = None,
    ) -> Reduction:
        """Request that these sides be applied; retried until that has succeeded."""
        open_sides = {f"{side}_applied": False for side in sides}
        row = _changed(row, **open_sides, applied_at=now, retry_at=now + self.time.retry)
        after = _state(state, row, passed, code)
        done = after.model_copy(update={"processed_node_ids": after.processed_node_ids | {row.node_id}})
        return done, wanted_intents(row, event.correlation_id, sides)


def settle(
    state: ModelReducerState, applied: Collection[Side], now: datetime, time: TimeInjection
) -> ModelReducerState:
    if (row := state.registration) is None:
        return state
    done = {f"{side}_applied": True for side in applied}
    row = _changed(row, **done)
    if missing_sides(row):
        return _state(state, row, state.entered)
    row = _changed(row, retry_at=None)
    led_to = entered(State(row.state), Trigger.BOTH_APPLIED, Trigger.ACK_AWAITED)
    if led_to:
        row = _changed(row, state=led_to[-1], ack_deadline=now + time.ack)
    return _state(state, row, (*state.entered, *led_to))


def _state(
    state: ModelReducerState,
    row: Projection | None,
    passed: tuple[State, ...] = (),
    code: str | None = None,
) -> ModelReducerState:
    kept = code if code is not None else state.code
    return state.model_copy(update={"registration": row, "entered": passed, "code": kept})


def _described(event: NodeIntrospectionEvent) -> NodeDescription:
    return NodeDescription(**dict(event))


def _changed(row: Projection, **values: Any) -> Projection:
    return row.model_copy(update=values)
