"""The routing table: where an outcome leads when no handler names it, and when one does."""

import pytest

from podium.machine.flow import Event, Way, way_on
from podium.plan.plan import Discipline, End, Goto, Handlers, Target

NEXT, FAILED, NONE = Way.NEXT, Way.FAILED, Way.NO_TRANSITION


@pytest.mark.rule("D01", "D02", "D05", "R064", "R065")
@pytest.mark.parametrize(
    ("discipline", "success", "failure", "unnamed"),
    [
        ("strict", NONE, NONE, NONE),
        ("implied", NEXT, FAILED, NONE),
        ("compatible", NEXT, NEXT, NEXT),
        ("branch", NEXT, FAILED, NONE),
        ("pass", NEXT, NEXT, NONE),
        ("cleanup", NEXT, NEXT, NEXT),
    ],
)
def test_the_discipline_decides_what_no_handler_names(
    discipline: Discipline, success: Way, failure: Way, unnamed: Way
) -> None:
    assert way_on(discipline, None, "success") is success
    assert way_on(discipline, None, "failure") is failure
    assert way_on(discipline, None, "timeout") is failure
    assert way_on(discipline, Handlers(failure=End()), "success") is unnamed
    assert way_on(discipline, Handlers(success=End()), "failure") is unnamed
    assert way_on(discipline, Handlers(success=End()), "timeout") is unnamed


@pytest.mark.rule("D18")
@pytest.mark.parametrize(
    "discipline", ["strict", "implied", "compatible", "branch", "pass", "cleanup", "graph"]
)
def test_a_skip_never_lacks_a_transition(discipline: Discipline) -> None:
    assert way_on(discipline, None, "skipped") is NEXT
    assert way_on(discipline, Handlers(failure=End()), "skipped") is NEXT


@pytest.mark.rule("D08", "D18", "R035")
@pytest.mark.parametrize(
    ("handlers", "event", "target"),
    [
        (Handlers(success=Goto("a")), "success", Goto("a")),
        (Handlers(failure=Goto("a")), "failure", Goto("a")),
        (Handlers(failure=Goto("a")), "timeout", Goto("a")),
        (Handlers(failure=Goto("a"), timeout=Goto("b")), "timeout", Goto("b")),
        (Handlers(success=Goto("a")), "skipped", Goto("a")),
        (Handlers(success=Goto("a"), skipped=Goto("b")), "skipped", Goto("b")),
    ],
)
def test_a_handler_decides_if_it_names_the_event(handlers: Handlers, event: Event, target: Target) -> None:
    for discipline in ("strict", "implied", "compatible", "branch", "pass", "cleanup", "graph"):
        assert way_on(discipline, handlers, event) == target


@pytest.mark.rule("D65")
def test_in_a_graph_a_failure_without_handler_is_told_to_the_dependants() -> None:
    assert way_on("graph", None, "success") is NEXT
    assert way_on("graph", None, "failure") is FAILED
    assert way_on("graph", None, "timeout") is FAILED
    assert way_on("graph", Handlers(success=End()), "failure") is FAILED
    assert way_on("graph", Handlers(failure=End()), "success") is NEXT
