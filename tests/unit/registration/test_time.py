"""Time: only `now` decides, and it never goes back."""

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.nodes.registration.fsm import State
from podium.nodes.registration.intake import TICK_REFUSED, next_time, overdue_run, renewals, run_for
from podium.nodes.registration.models.model_orchestrator_config import Timeouts
from podium.nodes.registration.timeouts import passed_deadlines
from podium.ports.catalog import DueNode, Projection
from tests.unit.registration.building import TIME, ack, at, heartbeat, introspection, node_id, overdue
from tests.unit.registration.folding import Fold

DAY = 86_400


@pytest.mark.rule("RG07")
def test_a_year_of_ticks_expires_a_node_at_the_tick_after_its_last_deadline() -> None:
    time = TIME.model_copy(update={"timeouts_ms": Timeouts(ack=30_000, liveness=DAY * 1000, retry=5_000)})
    fold = Fold(type(Fold().reducer)(Fold().reducer.rules, time))
    fold.run(introspection(), at(0))
    fold.run(ack(seconds=1), at(1))
    now, expired_at = None, None
    for second in range(600, 365 * DAY, 600):
        now, _ = next_time(now, at(second), at(second))
        assert now is not None
        row = fold.rows[node_id()]
        if second % (DAY // 2) == 0 and second <= 300 * DAY:
            (renewal,) = renewals([heartbeat(seconds=second)], now, time, 500)[0]
            fold.rows[node_id()] = row.model_copy(update={"liveness_deadline": renewal.deadline})
        elif passed_deadlines(row, now):
            fold.run(overdue(seconds=second), now)
            expired_at = expired_at or second
    assert fold.rows[node_id()].state == State.LIVENESS_EXPIRED
    assert expired_at == 301 * DAY


@pytest.mark.rule("R03")
@given(st.lists(st.tuples(st.integers(-1000, 1000), st.integers(0, 1000)), max_size=30))
def test_time_never_goes_back_and_no_wrong_clock_moves_it_more_than_30_s_ahead(ticks: list[Any]) -> None:
    now, newest = None, None
    for said, received in ticks:
        after, code = next_time(now, at(said), at(received))
        assert (code == TICK_REFUSED) == (said > received + 30)
        newest = max(received, newest) if newest is not None else received
        assert after is None or now is None or after >= now
        assert after is None or after <= at(newest + 30)
        now = after


@pytest.mark.rule("R03")
def test_the_limit_of_a_tick_is_30_s_ahead_of_the_time_of_its_message() -> None:
    assert next_time(None, at(30), at(0)) == (at(30), None)
    assert next_time(at(1), at(30) + timedelta(microseconds=1), at(0)) == (at(1), TICK_REFUSED)


@pytest.mark.rule("RG07")
@pytest.mark.parametrize("wrong", [-10_000_000, 0, 10_000_000])
def test_clocks_of_nodes_decide_about_no_deadline(wrong: int) -> None:
    fold = Fold()
    fold.run(introspection(seconds=wrong), at(0))
    assert fold.rows[node_id()].ack_deadline == at(30)
    fold.run(ack(seconds=wrong), at(10))
    assert fold.rows[node_id()].liveness_deadline == at(100)
    ((renewal,),) = renewals([heartbeat(seconds=wrong + 1)], at(20), TIME, 500)
    assert renewal.deadline == at(110)


@pytest.mark.rule("RG07")
def test_a_deadline_has_passed_at_its_very_time_and_not_before() -> None:
    row = Projection(
        node=introspection(), state="ACTIVE", seen_at=at(0), liveness_deadline=at(90), retry_at=at(5)
    )
    assert passed_deadlines(row, at(5) - timedelta(microseconds=1)) == ()
    assert passed_deadlines(row, at(5)) == ("retry",)
    assert passed_deadlines(row, at(90)) == ("liveness", "retry")


@pytest.mark.rule("RG13")
def test_heartbeats_are_renewed_in_batches_with_the_newest_of_each_node() -> None:
    beats = [
        heartbeat(1, seconds=5),
        heartbeat(2, seconds=1),
        heartbeat(1, seconds=3),
        heartbeat(3, seconds=1),
    ]
    batches = renewals(beats, at(10), TIME, 2)
    assert [[(one.node_id, one.timestamp) for one in batch] for batch in batches] == [
        [(node_id(1), at(5)), (node_id(2), at(1))],
        [(node_id(3), at(1))],
    ]
    ((newest,),) = renewals(
        [heartbeat(1, seconds=9, epoch=1), heartbeat(1, seconds=1, epoch=2)], at(10), TIME, 9
    )
    assert newest.epoch == 2


@pytest.mark.rule("R06")
def test_the_id_of_a_run_request_is_that_of_its_event() -> None:
    one = run_for("NodeRegistrationAcked", ack())
    assert one == run_for("NodeRegistrationAcked", ack())
    assert one.request_id == f"NodeRegistrationAcked:{node_id()}:{ack().correlation_id}"
    assert one.concurrency_key == str(node_id())
    due = DueNode(node_id=node_id(), deadline=at(30))
    early, late = overdue_run(due, at(31), TIME), overdue_run(due, at(34), TIME)
    assert early.request_id == late.request_id == f"RuntimeTick:{node_id()}:{at(30).isoformat()}"
    assert early.event["correlation_id"] == late.event["correlation_id"]


@pytest.mark.rule("R06")
def test_a_deadline_that_is_still_there_is_asked_for_again_after_growing_pauses() -> None:
    due = DueNode(node_id=node_id(), deadline=at(0))
    ids = [overdue_run(due, at(seconds), TIME).request_id for seconds in range(3600)]
    starts = [second for second in range(1, 3600) if ids[second] != ids[second - 1]]
    assert starts[:6] == [5, 15, 35, 75, 155, 315]
    assert {after - before for before, after in pairwise(starts[5:])} == {320}
    assert overdue_run(due, at(-1), TIME).request_id == ids[0]
