"""The table of the life of a registration: total, as settled, and equal to its diagram."""

from itertools import product
from pathlib import Path

import pytest

import podium.nodes.registration
from podium.nodes.registration.fsm import (
    ARROWS,
    EVENT_OF,
    PASSED_THROUGH,
    TABLE,
    TERMINAL,
    State,
    Trigger,
    diagram,
    entered,
)

README = Path(podium.nodes.registration.__file__).with_name("README.md")


@pytest.mark.rule("RG08")
def test_the_table_has_every_pair_of_state_and_trigger() -> None:
    assert set(TABLE) == set(product(State, Trigger))
    assert all(isinstance(after, State) for after in TABLE.values())


@pytest.mark.rule("RG08")
def test_the_life_of_a_registration_is_the_settled_one() -> None:
    moves = {
        f"{before} {trigger} {after}" for (before, trigger), after in TABLE.items() if before is not after
    }
    assert moves == {
        "UNKNOWN introspected PENDING_REGISTRATION",
        "PENDING_REGISTRATION both_applied ACCEPTED",
        "PENDING_REGISTRATION refused REJECTED",
        "ACCEPTED ack_awaited AWAITING_ACK",
        "AWAITING_ACK acked ACK_RECEIVED",
        "AWAITING_ACK ack_deadline_passed ACK_TIMED_OUT",
        "ACK_TIMED_OUT retried PENDING_REGISTRATION",
        "ACK_RECEIVED activated ACTIVE",
        "ACTIVE liveness_deadline_passed LIVENESS_EXPIRED",
        "LIVENESS_EXPIRED introspected PENDING_REGISTRATION",
        "REJECTED introspected PENDING_REGISTRATION",
    }


@pytest.mark.rule("RG08")
def test_the_diagram_in_the_readme_is_the_table() -> None:
    assert f"```mermaid\n{diagram()}\n```" in README.read_text()
    drawn = [line.split() for line in diagram().splitlines() if ": " in line]
    assert [(one[0], one[3], one[2].rstrip(":")) for one in drawn] == [
        (before, trigger, after) for (before, trigger), after in ARROWS.items()
    ]


@pytest.mark.rule("RG08")
def test_only_a_new_introspection_leads_out_of_a_terminal_state() -> None:
    for state, trigger in product(TERMINAL, Trigger):
        assert (TABLE[state, trigger] is not state) == (trigger is Trigger.INTROSPECTED)


@pytest.mark.rule("RG08")
def test_states_that_are_passed_through_have_one_way_on() -> None:
    for state in PASSED_THROUGH:
        assert len([one for one in ARROWS if one[0] is state]) == 1


@pytest.mark.rule("RG05")
def test_every_state_but_the_one_without_a_row_and_awaiting_ack_publishes_an_event_of_its_own() -> None:
    assert set(State) - set(EVENT_OF) == {State.UNKNOWN, State.AWAITING_ACK}
    assert len(set(EVENT_OF.values())) == len(EVENT_OF)


@pytest.mark.rule("RG08")
def test_a_trigger_without_effect_leads_nowhere() -> None:
    assert entered(State.ACTIVE, Trigger.ACKED, Trigger.HEARTBEAT) == ()
    assert entered(State.AWAITING_ACK, Trigger.ACKED, Trigger.ACTIVATED) == (State.ACK_RECEIVED, State.ACTIVE)
