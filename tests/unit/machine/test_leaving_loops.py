"""Leaving loops: which loop is meant, and what is counted afterwards."""

import pytest

from podium.plan.plan import Join
from tests.unit.machine.building import for_each, on, plan, task
from tests.unit.machine.hosting import Host

ANY = Join("any")
MAJORITY = Join("majority")


@pytest.mark.rule("D11")
def test_a_break_leaves_only_the_innermost_loop() -> None:
    inner = for_each("i", 2, task("a", on=on(success="_loop_break")))
    host = Host(plan(for_each("o", 2, inner, task("b")), task("z"))).run()
    assert host.ran() == ["o[0]/i[0]/a", "o[0]/b", "o[1]/i[0]/a", "o[1]/b", "z"]


@pytest.mark.rule("D11")
def test_a_continue_goes_on_with_the_next_item_of_the_innermost_loop() -> None:
    inner = for_each("i", 2, task("a", on=on(success="_loop_continue")), task("never"))
    host = Host(plan(for_each("o", 1, inner, task("b")))).run()
    assert host.ran() == ["o[0]/i[0]/a", "o[0]/i[1]/a", "o[0]/b"]


@pytest.mark.rule("D12")
def test_the_success_rate_is_the_share_of_the_items_that_were_started() -> None:
    host = Host(plan(for_each("p", 4, task("a", on=on(success="_loop_break"))))).run()
    summary = host.last("p", "StepCompleted")["summary"]
    assert (summary["count"], summary["total"], summary["success_rate"]) == (1, 4, 1)


@pytest.mark.rule("D12")
@pytest.mark.parametrize(
    ("join", "failed", "ended"),
    [(ANY, 2, "Completed"), (ANY, 3, "Failed"), (MAJORITY, 1, "Completed"), (MAJORITY, 2, "Failed")],
)
def test_how_many_items_have_to_succeed_is_for_the_join_to_say(join: Join, failed: int, ended: str) -> None:
    outcomes = {f"p[{number}]/a": 1 for number in range(failed)}
    assert Host(plan(for_each("p", 3, task("a"), join=join)), outcomes).run().ended == ended


@pytest.mark.rule("D14")
@pytest.mark.parametrize("join", [ANY, MAJORITY])
def test_after_a_break_the_join_counts_only_what_was_started(join: Join) -> None:
    """One of two is left by a break from its failure, the other one fails: none of the others can make it good."""
    step = task("a", on=on(success="_loop_continue", timeout="_loop_break"))
    host = Host(plan(for_each("p", 6, step, workers=2, join=join))).start()
    host.time_out("p[0]/a")
    host.end("p[1]/a", 1)
    assert host.ran() == ["p[0]/a", "p[1]/a"]
    assert host.ended == "Failed"


@pytest.mark.rule("R056")
@pytest.mark.rule("D14")
def test_results_of_items_at_the_same_time_are_in_the_order_of_the_items() -> None:
    text = """
        steps:
          - name: p
            for_each: {items: [x, y, z], parallel: true, steps: [{name: a, command: [c]}]}
          - {name: r, set: {seen: "${steps.p.iterations}"}}
        outputs: {seen: "${context.seen}"}
        """
    host = Host(text).start()
    for number in (2, 0, 1):
        host.end(f"p[{number}]/a")
    host.run()
    assert [one["item"] for one in host.payload(-1)["outputs"]["seen"]] == ["x", "y", "z"]
