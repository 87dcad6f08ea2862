"""The reducer: pure, idempotent, independent of the order of events; each rule by an example."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podium.nodes.registration.fsm import State
from podium.nodes.registration.models.model_orchestrator_config import RateLimit, ReducerRules
from podium.nodes.registration.models.model_orchestrator_input import (
    NodeIntrospectionEvent,
    RegistrationEvent,
)
from podium.nodes.registration.models.model_reducer_state import ModelReducerState
from podium.nodes.registration.protocols import ProtocolReducer
from podium.nodes.registration.reducer import RegistrationReducer
from tests.unit.registration.building import REDUCER, TIME, ack, at, introspection, node_id, overdue, request
from tests.unit.registration.folding import Fold

Delivery = tuple[RegistrationEvent, datetime]
EPOCHS = st.sampled_from([None, 0, 1, 2, 3])
SIDES = st.sets(st.sampled_from(["consul", "postgres"]))
VERSIONS = st.sampled_from(["1.0.0", "1.0.1", "not a version"])

DESCRIPTIONS = st.lists(
    st.tuples(EPOCHS, st.integers(0, 50), st.sampled_from(["1.0.0", "2.0.0", "3.0.0"])),
    min_size=1,
    max_size=8,
    unique_by=lambda one: (one[0] or 0, one[1]),
)


@st.composite
def deliveries(draw: Any, nodes: int = 1) -> list[Delivery]:
    """Events at rising times; their own timestamps are in any order."""
    found: list[Delivery] = []
    now = 0
    for _ in range(draw(st.integers(1, 12))):
        now += draw(st.sampled_from([1, 5, 30, 90, 400]))
        number, said = draw(st.integers(1, nodes)), draw(st.integers(0, 500))
        kind = draw(st.sampled_from(["introspection", "ack", "overdue", "request"]))
        epoch = draw(EPOCHS)
        event: RegistrationEvent
        match kind:
            case "introspection":
                event = introspection(number, seconds=said, epoch=epoch, node_version=draw(VERSIONS))
            case "ack":
                event = ack(number, seconds=said, epoch=epoch)
            case "overdue":
                event = overdue(number, seconds=now)
            case _:
                event = request(number, seconds=said)
        found.append((event, at(now)))
    return found


@pytest.mark.rule("RG09")
@given(deliveries(), st.lists(SIDES, min_size=12, max_size=12))
def test_no_sequence_of_events_leaves_the_table(events: list[Delivery], works: list[set[Any]]) -> None:
    fold = Fold()
    for (event, now), sides in zip(events, works, strict=False):
        fold.run(event, now, sides)  # checks what holds after each event


@pytest.mark.rule("RG09")
@given(deliveries())
def test_the_same_arguments_give_the_same_result_and_stay_as_they_are(events: list[Delivery]) -> None:
    fold = Fold()
    for event, now in events:
        state = ModelReducerState(registration=fold.rows.get(event.node_id))
        before = (state.model_dump_json(), event.model_dump_json())
        assert REDUCER.reduce(state, event, now) == REDUCER.reduce(state, event, now)
        assert (state.model_dump_json(), event.model_dump_json()) == before
        fold.run(event, now)


@pytest.mark.rule("RG10")
@given(deliveries(), st.data())
def test_events_that_are_delivered_again_change_nothing(events: list[Delivery], data: st.DataObject) -> None:
    # A request asks for both sides once more; its duplicates are found by the id of the run.
    events = [one for one in events if type(one[0]).__name__ != "RegistryRequestIntrospectionEvent"]
    once, repeated = Fold(), Fold()
    for index, (event, now) in enumerate(events):
        once.run(event, now)
        repeated.run(event, now)
        for again in data.draw(st.lists(st.integers(0, index), max_size=4)):
            earlier = events[again][0]
            # What may not come again later is an event that was refused because its time had not come.
            if _had_effect(events[: again + 1]):
                _, intents = repeated.run(earlier, getattr(earlier, "now", now))
                assert intents == ()
        assert repeated.rows == once.rows


def _had_effect(events: list[Delivery]) -> bool:
    fold = Fold()
    for event, now in events[:-1]:
        fold.run(event, now)
    before = dict(fold.rows)
    fold.run(*events[-1])
    return fold.rows != before


@pytest.mark.rule("RG10")
@given(deliveries(nodes=3), st.randoms(use_true_random=False))
def test_events_of_different_nodes_may_be_interleaved_in_any_way(events: list[Delivery], random: Any) -> None:
    in_order, mixed = Fold(), Fold()
    for event, now in events:
        in_order.run(event, now)
    queues = [[one for one in events if one[0].node_id == node_id(number)] for number in (1, 2, 3)]
    while any(queues):
        mixed.run(*random.choice([queue for queue in queues if queue]).pop(0))
    assert mixed.rows == in_order.rows


@pytest.mark.rule("RG11")
@given(DESCRIPTIONS, st.randoms(use_true_random=False))
def test_the_newest_description_of_a_live_node_wins_in_whatever_order_they_arrive(
    said: list[tuple[int | None, int, str]], random: Any
) -> None:
    newest = max(said, key=lambda one: (one[0] or 0, one[1]))
    random.shuffle(said)
    fold = Fold()
    for index, (epoch, seconds, version) in enumerate(said):
        fold.run(introspection(seconds=seconds, epoch=epoch, node_version=version), at(100 + index))
    row = fold.rows[node_id()]
    assert (row.node.epoch or 0, row.seen_at, row.node.node_version) == (
        newest[0] or 0,
        at(newest[1]),
        newest[2],
    )


@pytest.mark.rule("RG12")
@settings(max_examples=20)
@given(st.lists(deliveries(), min_size=16, max_size=16))
def test_sixteen_threads_may_share_a_reducer(sequences: list[list[Delivery]]) -> None:
    def folded(events: list[Delivery]) -> Any:
        fold = Fold()
        return [fold.run(event, now) for event, now in events]

    expected = [folded(events) for events in sequences]
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(folded, sequences)) == expected


def test_the_reducer_is_one_of_the_protocol() -> None:
    assert isinstance(REDUCER, ProtocolReducer)


# --- by example -----------------------------------------------------------------------------------


def _kinds(intents: Any) -> list[str]:
    return [f"{one.kind}.{one.operation}" for one in intents]


def _active(epoch: int | None = None) -> Fold:
    fold = Fold()
    fold.run(introspection(epoch=epoch), at(0))
    fold.run(ack(seconds=1, epoch=epoch), at(1))
    assert fold.rows[node_id()].state == State.ACTIVE
    return fold


def _expired(epoch: int | None = None) -> Fold:
    fold = _active(epoch)
    _, intents = fold.run(overdue(seconds=91), at(91))
    assert _kinds(intents) == ["consul.deregister", "postgres.retire_registration"]
    assert fold.rows[node_id()].state == State.LIVENESS_EXPIRED
    return fold


@pytest.mark.rule("R10")
@pytest.mark.parametrize(
    ("old", "new", "seconds", "restarts"),
    [
        (1, 2, 0, True),
        (1, 1, 500, False),
        (2, 1, 500, False),
        (None, None, 500, True),
        (None, None, 0, False),
        (None, 1, 0, True),
        (None, 0, 500, False),
        (1, None, 500, False),
    ],
)
def test_a_terminal_node_registers_again_with_a_higher_epoch_or_without_any_with_a_later_time(
    old: int | None, new: int | None, seconds: int, restarts: bool
) -> None:
    fold = _expired(old)
    fold.run(introspection(seconds=seconds, epoch=new), at(600))
    assert (fold.rows[node_id()].state == State.AWAITING_ACK) == restarts


@pytest.mark.rule("RG11")
def test_an_update_of_an_active_node_replaces_its_content_and_applies_both_sides() -> None:
    fold = _active(1)
    state, intents = fold.run(introspection(seconds=5, epoch=1, node_version="1.1.0"), at(10))
    assert _kinds(intents) == ["consul.register", "postgres.upsert_registration"]
    assert (state.entered, fold.rows[node_id()].state) == ((), State.ACTIVE)
    assert fold.rows[node_id()].node.node_version == "1.1.0"


@pytest.mark.rule("RG11")
def test_content_from_between_two_equal_ones_counts_as_older() -> None:
    fold = Fold()
    fold.run(introspection(seconds=1), at(10))
    fold.run(introspection(seconds=3), at(11))
    _, intents = fold.run(introspection(seconds=2, node_version="0.9.0"), at(12))
    assert intents == ()
    assert fold.rows[node_id()].node.node_version == "1.0.0"


def test_an_update_restarts_the_deadline_of_the_acknowledgement() -> None:
    fold = Fold()
    fold.run(introspection(), at(0))
    fold.run(introspection(seconds=5, node_version="1.1.0"), at(20))
    assert fold.rows[node_id()].ack_deadline == at(50)


@pytest.mark.rule("R09")
def test_a_refused_update_rejects_a_pending_node_and_leaves_an_active_one_as_it_is() -> None:
    fold = Fold()
    fold.run(introspection(), at(0), works={"postgres"})
    state, intents = fold.run(introspection(seconds=5, node_version="x"), at(1))
    assert (state.entered, state.code) == ((State.REJECTED,), "NODE_VERSION_INVALID")
    assert _kinds(intents) == ["consul.deregister", "postgres.retire_registration"]

    fold = _active()
    before = fold.rows[node_id()]
    state, intents = fold.run(introspection(seconds=5, node_version="x"), at(2))
    assert (state.code, intents, fold.rows[node_id()]) == ("NODE_VERSION_INVALID", (), before)


@pytest.mark.rule("R09")
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"node_type": "compute"}, "NODE_TYPE_NOT_ALLOWED"),
        ({"node_version": "1"}, "NODE_VERSION_INVALID"),
        ({"node_role": "a b"}, "NODE_NAME_INVALID"),
        ({"endpoints": {"": "http://a/"}}, "NODE_NAME_INVALID"),
        ({"endpoints": {"a.b": "http://a/"}}, "NODE_NAME_INVALID"),
        ({"endpoints": {"a": "ftp://a/"}}, "ENDPOINT_INVALID"),
        ({"endpoints": {"a": "http://"}}, "ENDPOINT_INVALID"),
        ({"endpoints": {"a": "http://a:port/"}}, "ENDPOINT_INVALID"),
        ({"endpoints": {"a": "http://a/ b"}}, "ENDPOINT_INVALID"),
        ({"endpoints": {"a": "http://a/" + 512 * "b"}}, "ENDPOINT_INVALID"),
        ({"endpoints": {"a": "http://a/", "b": "http://b/", "c": "http://c/"}}, "NODE_TOO_LARGE"),
        ({"metadata": {"a": 1000 * "b"}}, "NODE_TOO_LARGE"),
    ],
)
def test_what_can_never_succeed_is_rejected(fields: dict[str, Any], code: str) -> None:
    rules = ReducerRules(allowed_node_types=("effect",), max_endpoints=2, max_content_bytes=900)
    state, intents = Fold(RegistrationReducer(rules, TIME)).run(introspection(**fields), at(0))
    assert (state.entered, state.code) == ((State.PENDING_REGISTRATION, State.REJECTED), code)
    assert intents == ()


@pytest.mark.rule("RG13")
def test_content_that_changes_too_fast_is_applied_later_with_the_newest() -> None:
    rules = ReducerRules(rate_limit=RateLimit(min_update_interval_ms=10_000))
    fold = Fold(RegistrationReducer(rules, TIME))
    fold.run(introspection(), at(0))
    for second in (1, 2):
        state, intents = fold.run(introspection(seconds=second, node_version=f"1.{second}.0"), at(second))
        assert (state.code, intents) == ("RATE_LIMITED", ())
    assert fold.rows[node_id()].due_at == at(10)
    state, intents = fold.run(overdue(seconds=10), at(10))
    assert _kinds(intents) == ["consul.register", "postgres.upsert_registration"]
    assert intents[1].payload.node_version == "1.2.0"  # type: ignore[union-attr]
    assert fold.rows[node_id()].retry_at is None


@pytest.mark.rule("RG10")
def test_an_ack_of_an_older_epoch_or_an_earlier_registration_changes_nothing() -> None:
    fold = Fold()
    fold.run(introspection(epoch=2), at(0))
    fold.run(ack(epoch=1), at(1))
    assert fold.rows[node_id()].state == State.AWAITING_ACK

    fold = _expired()
    fold.run(introspection(seconds=200), at(200))
    fold.run(ack(seconds=1), at(201))
    assert fold.rows[node_id()].state == State.AWAITING_ACK
    fold.run(ack(seconds=201), at(202))
    assert fold.rows[node_id()].state == State.ACTIVE


@pytest.mark.rule("RG02")
def test_a_delivery_that_comes_again_repairs_only_the_side_that_is_missing() -> None:
    fold = Fold()
    fold.run(introspection(), at(0), works={"consul"})
    state, intents = fold.run(introspection(), at(1))
    assert _kinds(intents) == ["postgres.upsert_registration"]
    assert state.entered == (State.ACCEPTED, State.AWAITING_ACK)


@pytest.mark.rule("R15")
def test_an_expired_node_that_could_not_be_removed_is_removed_later() -> None:
    fold = _active()
    state, _ = fold.run(overdue(seconds=91), at(91), works={"postgres"})
    assert state.entered == (State.LIVENESS_EXPIRED,)
    state, intents = fold.run(overdue(seconds=96), at(96))
    assert (_kinds(intents), state.entered) == (["consul.deregister"], ())
    assert fold.rows[node_id()].due_at is None


def test_models_are_frozen_and_refuse_unknown_fields() -> None:
    with pytest.raises(ValueError, match="extra_forbidden"):
        NodeIntrospectionEvent.model_validate(introspection().model_dump() | {"more": 1})
    with pytest.raises(ValueError, match="frozen"):
        ModelReducerState().code = "x"  # type: ignore[misc]
