"""What agents cost: charged, set aside before a launch, waited for, stopped for, raised."""

from random import Random
from typing import Any

import pytest

from podium.log.events import EventType
from podium.machine.spending import Spending
from podium.plan.plan import Budget, Join, Retry
from tests.torture.invariants import check
from tests.unit.machine.building import (
    agent,
    call,
    for_each,
    group,
    on,
    parallel,
    plan,
    task,
    with_budget,
    workflow,
)
from tests.unit.machine.hosting import Host, restored


def run_events(host: Host) -> list[str]:
    kinds = (EventType.RUN_PAUSED, EventType.RUN_RESUMED, EventType.RUN_COMPLETED, EventType.RUN_FAILED)
    return [record.event_type for record in host.log if record.event_type in kinds]


def charges(host: Host) -> list[dict[str, Any]]:
    places = range(len(host.log))
    return [host.payload(n) for n in places if host.log[n].event_type == EventType.BUDGET_CHARGED]


def held(host: Host) -> dict[str, Any]:
    """What the newest RunPaused says of the budget."""
    places = [n for n, record in enumerate(host.log) if record.event_type == EventType.RUN_PAUSED]
    told: dict[str, Any] = host.payload(places[-1])
    return told


def at_once(*steps: Any, **facts: Any) -> Any:
    return plan(parallel("p", *steps, max_workers=len(steps)), **facts)


# --- charging -------------------------------------------------------------------------------------


def test_every_attempt_that_tells_its_usage_is_charged_for() -> None:
    host = Host(plan(agent("a", retry=Retry(2)), agent("b"), task("c"))).start()
    host.end("a", 1, usage={"inputTokens": 9, "outputTokens": 1, "tokens": 10, "costUsd": 0.5})
    host.fire()
    host.end("a", usage={"tokens": 5})
    host.end("b")
    host.end("c")
    assert charges(host) == [
        {
            "stepId": "a",
            "inputTokens": 9,
            "outputTokens": 1,
            "tokens": 10,
            "costUsd": 0.5,
            "total": {"tokens": 10, "costUsd": 0.5},
        },
        {"stepId": "a", "tokens": 5, "total": {"tokens": 15, "costUsd": 0.5}},
    ]
    told = [r for r in host.log if r.event_type == EventType.BUDGET_CHARGED]
    assert [(r.step_id, r.logical_attempt_id) for r in told] == [(None, 1), (None, 2)]
    assert host.ended == "Completed"


def test_what_was_stopped_is_charged_for_before_the_run_ends() -> None:
    host = Host(at_once(agent("a"), task("b", on=on(success="_end")))).start()
    host.end("p/b")
    host.end("p/a", usage={"costUsd": 0.25})
    assert [one["stepId"] for one in charges(host)] == ["p/a"]
    assert host.ended == "Completed"


@pytest.mark.parametrize(
    "usage",
    [
        None,
        3,
        [],
        {},
        {"costUsd": -1},
        {"costUsd": "x"},
        {"tokens": True},
        {"tokens": 10**12},
        {"costUsd": 1e300},
    ],
)
def test_a_usage_that_is_none_charges_nothing(usage: Any) -> None:
    host = Host(plan(agent("a"))).start()
    host.end("a", usage=usage)
    assert charges(host) == []
    assert host.ended == "Completed"


def test_what_is_free_is_not_charged_for_and_lets_others_begin() -> None:
    host = Host(at_once(*(agent(f"a{n}") for n in range(3)), budget=Budget(usd=1))).start()
    host.end("p/a0", usage={"costUsd": 0.0, "tokens": 0})
    assert charges(host) == []
    assert len(host.ran()) == 3


def test_tenths_add_up() -> None:
    steps = (agent(f"a{n}", 0.1) for n in range(10))
    host = Host(plan(*steps, budget=Budget(usd=1)), lambda _task: {"usage": {"costUsd": 0.1}}).run()
    assert host.ended == "Completed"
    assert charges(host)[-1]["total"]["costUsd"] == 1.0


# --- the soft limit -------------------------------------------------------------------------------


def test_the_soft_limit_is_told_once_and_the_run_goes_on() -> None:
    steps = (agent(f"a{n}", 0.5) for n in range(4))
    host = Host(plan(*steps, budget=Budget(usd=9, soft=1)), lambda _task: {"usage": {"costUsd": 0.5}}).run()
    assert host.ended == "Completed"
    assert [one.get("softLimits") for one in charges(host)] == [
        None,
        [{"usd": 9, "spentUsd": 1.0, "soft": 1}],
        None,
        None,
    ]


def test_a_soft_limit_that_was_raised_is_told_again() -> None:
    host = Host(plan(*(agent(f"a{n}") for n in range(3)), budget=Budget(soft=1))).start()
    host.end("a0", usage={"costUsd": 1})
    host.signal("UPDATE_PARAMS", params={"budget": {"soft": 2}})
    host.end("a1", usage={"costUsd": 1})
    host.end("a2", usage={"costUsd": 1})
    assert ["softLimits" in one for one in charges(host)] == [True, True, False]


def test_a_step_has_a_soft_limit_of_its_own() -> None:
    loop = with_budget(for_each("l", 3, agent("a")), Budget(soft=0.5))
    host = Host(plan(loop), lambda _task: {"usage": {"costUsd": 0.25}}).run()
    assert [one.get("softLimits") for one in charges(host)] == [
        None,
        [{"of": "l", "soft": 0.5, "spentUsd": 0.5}],
        None,
    ]


# --- what is set aside ----------------------------------------------------------------------------


def test_the_budget_of_the_step_is_set_aside_first_of_all() -> None:
    host = Host(at_once(agent("a", 0.7), agent("b", 0.7), budget=Budget(usd=1, reserve=0.1))).start()
    assert host.ran() == ["p/a"]


def test_the_reserve_is_set_aside_for_who_has_no_budget() -> None:
    host = Host(at_once(*(agent(f"a{n}") for n in range(5)), budget=Budget(usd=1, reserve=0.4))).start()
    assert host.ran() == ["p/a0", "p/a1"]


def test_the_nearest_reserve_counts() -> None:
    inner = with_budget(for_each("l", 5, agent("a"), workers=5), Budget(reserve=0.2))
    host = Host(plan(inner, budget=Budget(usd=1, reserve=1))).start()
    assert len(host.ran()) == 5


def test_the_first_of_a_provider_runs_alone_and_the_others_are_expected_to_cost_as_much() -> None:
    host = Host(at_once(*(agent(f"a{n}") for n in range(6)), budget=Budget(usd=1))).start()
    assert host.ran() == ["p/a0"]
    host.end("p/a0", usage={"costUsd": 0.2})
    assert host.ran() == ["p/a0", "p/a1", "p/a2", "p/a3", "p/a4"]
    assert run_events(host) == []


def test_the_first_of_a_provider_waits_until_nobody_else_runs() -> None:
    steps = (agent("a", 0.2), agent("b", provider="codex"), agent("c", 0.1))
    host = Host(at_once(*steps, budget=Budget(usd=1))).start()
    assert host.ran() == ["p/a"]
    assert [one.subject for one in host.machine.obligations() if one.kind == "budget"] == ["p/b", "p/c"]
    host.end("p/a", usage={"costUsd": 0.1})
    assert host.ran() == ["p/a", "p/b"]
    host.end("p/b", usage={"costUsd": 0.1})
    assert host.ran() == ["p/a", "p/b", "p/c"]


def test_nobody_begins_beside_the_first_of_a_provider_whoever_pays() -> None:
    """Also when the purse around both has enough for both."""
    inner = with_budget(group("g", agent("a", provider="codex")), Budget(usd=1))
    host = Host(at_once(inner, group("h", task("t"), agent("b", 0.1)), budget=Budget(usd=10))).start()
    host.end("p/h/t")
    assert host.ran() == ["p/g/a", "p/h/t"] or host.ran() == ["p/h/t", "p/g/a"]
    host.end("p/g/a")
    assert host.ran()[-1] == "p/h/b"


def test_a_provider_is_expected_to_cost_the_most_it_has_cost() -> None:
    host = Host(plan(*(agent(f"a{n}") for n in range(3)), budget=Budget(usd=1))).start()
    host.end("a0", usage={"costUsd": 0.45})
    host.end("a1", usage={"costUsd": 0.15})
    assert held(host)["budget"]["neededUsd"] == 0.45


def test_a_failed_attempt_tells_what_a_provider_costs() -> None:
    host = Host(plan(agent("a", allow_failure=True), agent("b"), budget=Budget(usd=1))).start()
    host.end("a", 1, usage={"costUsd": 0.7})
    assert held(host)["budget"] == {"usd": 1, "spentUsd": 0.7, "neededUsd": 0.7, "neededTokens": 0}


def test_without_a_limit_nobody_waits() -> None:
    host = Host(at_once(*(agent(f"a{n}") for n in range(5)), budget=Budget(soft=1))).start()
    assert len(host.ran()) == 5


def test_tokens_are_set_aside_too() -> None:
    steps = (agent("a", budget=Budget(tokens=60)), agent("b", budget=Budget(tokens=60)))
    host = Host(at_once(*steps, budget=Budget(tokens=100))).start()
    assert host.ran() == ["p/a"]
    host.end("p/a", usage={"tokens": 30})
    assert host.ran() == ["p/a", "p/b"]


def test_who_tells_no_cost_runs_beside_others_after_the_first() -> None:
    """A limit in dollars cannot be kept for it: that needs one in tokens."""
    host = Host(at_once(*(agent(f"a{n}") for n in range(3)), budget=Budget(usd=1))).start()
    host.end("p/a0", usage={"tokens": 5})
    assert host.ran() == ["p/a0", "p/a1", "p/a2"]


def test_who_told_nothing_at_all_is_unknown_still() -> None:
    host = Host(
        at_once(*(agent(f"a{n}", allow_failure=True) for n in range(3)), budget=Budget(usd=1))
    ).start()
    host.end("p/a0", 1)
    assert host.ran() == ["p/a0", "p/a1"]


# --- the line -------------------------------------------------------------------------------------


def test_who_waits_for_others_goes_on_by_itself_when_they_cost_less() -> None:
    steps = (agent("a", 0.6), agent("b", 0.6), task("c"))
    host = Host(at_once(*steps, budget=Budget(usd=1))).start()
    assert host.ran() == ["p/a", "p/c"]
    host.end("p/a", usage={"costUsd": 0.1})
    assert host.ran() == ["p/a", "p/c", "p/b"]
    assert run_events(host) == []


def test_who_waits_for_others_holds_the_run_when_they_cost_too_much() -> None:
    host = Host(at_once(agent("a", 0.6), agent("b", 0.6), budget=Budget(usd=1))).start()
    host.end("p/a", usage={"costUsd": 0.6})
    assert run_events(host) == ["RunPaused"]
    assert (held(host)["code"], held(host)["stepId"]) == ("BUDGET_EXCEEDED", "p/b")


def test_nobody_passes_the_first_in_line() -> None:
    steps = (agent("a", 0.6), agent("b", 0.6), agent("c", 0.1))
    host = Host(at_once(*steps, budget=Budget(usd=1))).start()
    assert host.ran() == ["p/a"]
    host.end("p/a", usage={"costUsd": 0.3})
    assert host.ran() == ["p/a", "p/b", "p/c"]


def test_who_leaves_the_line_lets_the_next_one_try() -> None:
    steps = (agent("a", 0.6), agent("b", 0.6), agent("c", 0.1))
    host = Host(at_once(*steps, budget=Budget(usd=1))).start()
    host.signal("SKIP_STEP", stepId="p/b")
    assert host.ran() == ["p/a", "p/c"]


def test_a_decided_join_empties_the_line() -> None:
    steps = (task("a"), agent("b", 0.6), agent("c", 0.6))
    host = Host(plan(parallel("p", *steps, join=Join("any")), task("z"), budget=Budget(usd=1))).start()
    host.end("p/a")
    host.end("p/b")
    assert not host.machine.spending.queue
    assert host.ran() == ["p/a", "p/b", "z"]


def test_a_cancel_empties_the_line() -> None:
    host = Host(at_once(agent("a", 0.6), agent("b", 0.6), budget=Budget(usd=1))).start()
    host.signal("CANCEL")
    host.end("p/a")
    assert host.ended == "Cancelled"


def test_a_raised_budget_lets_the_line_move_at_once() -> None:
    host = Host(at_once(agent("a", 0.6), agent("b", 0.6), budget=Budget(usd=1))).start()
    host.signal("UPDATE_PARAMS", params={"budget": {"usd": 2}})
    assert host.ran() == ["p/a", "p/b"]


def test_a_budget_that_was_taken_away_lets_everybody_go() -> None:
    host = Host(at_once(*(agent(f"a{n}") for n in range(3)), budget=Budget(usd=1))).start()
    host.signal("UPDATE_PARAMS", params={"budget": {"usd": None}})
    assert len(host.ran()) == 3


# --- budgets of steps -----------------------------------------------------------------------------


def test_the_tries_of_a_step_share_its_budget() -> None:
    host = Host(plan(agent("a", 1, retry=Retry(3, delay=0)))).start()
    host.end("a", 1, usage={"costUsd": 0.6})
    host.fire()
    assert host.machine.spending.reserved["a"].usd == 400_000_000
    host.end("a", 1, usage={"costUsd": 0.4})
    host.fire()
    assert held(host)["budget"]["of"] == "a"
    host.signal("UPDATE_PARAMS", params={"budgets": {"a": {"usd": 2}}})
    host.signal("RESUME")
    host.end("a")
    assert host.ended == "Completed"


def test_each_visit_of_a_step_has_its_budget_anew() -> None:
    host = Host(plan(for_each("l", 3, agent("a", 1))), lambda _task: {"usage": {"costUsd": 1}}).run()
    assert host.ended == "Completed"


def test_a_loop_has_a_budget_of_its_own() -> None:
    loop = with_budget(for_each("l", 9, agent("a", 0.4), workers=9), Budget(usd=1))
    host = Host(plan(parallel("p", loop, agent("b", 9)), budget=Budget(usd=20))).start()
    assert host.ran() == ["p/b", "p/l[0]/a", "p/l[1]/a"]
    host.end("p/l[0]/a", usage={"costUsd": 0.4})
    host.end("p/l[1]/a", usage={"costUsd": 0.4})
    assert (held(host)["stepId"], held(host)["budget"]["of"]) == ("p/l[2]/a", "p/l")
    (why,) = (one for one in host.machine.obligations() if one.kind == "hold")
    assert why.detail == (
        "of step 'p/l' does not pay for step 'p/l[2]/a': 0.8 of 1 dollars are spent and it may take 0.4"
    )


def test_a_called_workflow_shares_the_budget_and_has_its_own() -> None:
    called = workflow(agent("a", 0.4), agent("b", 0.4), budget=Budget(usd=0.5))
    host = Host(plan(call("c", called), budget=Budget(usd=5))).start()
    host.end("c/a", usage={"costUsd": 0.4})
    assert held(host)["budget"]["of"] == "c"
    host.signal("UPDATE_PARAMS", params={"budgets": {"c": {"usd": 9}}, "budget": {"usd": 0.5}})
    host.signal("RESUME")
    assert "of" not in held(host)["budget"]


def test_tries_of_a_composite_share_its_budget_and_its_next_visit_has_a_new_one() -> None:
    inner = with_budget(group("g", agent("a", 0.4), retry=Retry(2, delay=0)), Budget(usd=1))
    host = Host(plan(for_each("l", 2, inner))).start()
    host.end("l[0]/g/a", 1, usage={"costUsd": 0.4})
    host.fire()
    assert host.machine.spending.accounts["l[0]/g"].spent.usd == 400_000_000
    host.end("l[0]/g#2/a", usage={"costUsd": 0.4})
    assert host.machine.spending.accounts.keys() == {"", "l[1]/g", "l[1]/g/a"}


def test_a_budget_that_is_written_anew_holds_for_what_is_open_and_for_later_visits() -> None:
    inner = with_budget(group("g", agent("a", 0.4), agent("b", 0.4)), Budget(usd=0.5))
    host = Host(plan(for_each("l", 2, inner), budget=Budget(usd=1.2))).start()
    host.end("l[0]/g/a", usage={"costUsd": 0.4})
    assert held(host)["budget"]["of"] == "l[0]/g"
    host.signal("UPDATE_PARAMS", params={"written": {"l/g": {"usd": 9}, "": {"usd": 5}, "l/g/b": None}})
    host.signal("RESUME")
    host.machine = restored(host)
    host.end("l[0]/g/b", usage={"costUsd": 0.4})
    host.end("l[1]/g/a", usage={"costUsd": 0.4})
    purses = host.machine.spending.accounts
    assert {path: (one.budget, one.spent.usd) for path, one in purses.items()} == {
        "": (Budget(usd=5), 1_200_000_000),
        "l[1]/g": (Budget(usd=9), 400_000_000),
    }
    host.end("l[1]/g/b", usage={"costUsd": 0.4})
    assert host.ended == "Completed"


def test_a_budget_of_nothing_that_is_open_cannot_be_raised() -> None:
    host = Host(plan(agent("a"))).start()
    host.signal("UPDATE_PARAMS", params={"budgets": {"nowhere": {"usd": 5}}})
    assert host.log[-1].event_type == EventType.SIGNAL_IGNORED
    assert "'nowhere'" in host.payload(-1)["reason"]


def test_a_reopened_run_goes_on_counting() -> None:
    loop = with_budget(for_each("l", 3, agent("a", 0.4, on=on(failure="!no"))), Budget(usd=1))
    host = Host(plan(loop, budget=Budget(usd=5))).start()
    host.end("l[0]/a", usage={"costUsd": 0.4})
    host.end("l[1]/a", 1, usage={"costUsd": 0.4})
    assert host.ended == "Failed"
    host.append(EventType.RUN_REOPENED, None, 2)
    assert held(host)["budget"] == {
        "of": "l", "usd": 1, "spentUsd": 0.8, "neededUsd": 0.4, "neededTokens": 0,
    }  # fmt: skip


# --- at large -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_fifty_at_once_that_keep_to_what_was_set_aside_never_pass_the_limit(seed: int) -> None:
    random = Random(seed)
    reserves = [random.choice([0.05, 0.1, 0.3]) for _ in range(50)]
    limit = random.choice([1, 2.5, 100])
    host = Host(
        at_once(*(agent(f"a{n}", r) for n, r in enumerate(reserves)), budget=Budget(usd=limit))
    ).start()
    raised = 0
    while not host.ended:
        if not host.tasks:
            raised += 1
            limit += 1
            host.signal("UPDATE_PARAMS", params={"budget": {"usd": limit}})
            host.signal("RESUME")
            continue
        path, attempt = random.choice(list(host.tasks))
        most = reserves[int(path.removeprefix("p/a"))]
        host.end(path, attempt=attempt, usage={"costUsd": round(most * random.random(), 9)})
        total = charges(host)[-1]["total"]["costUsd"]
        assert total <= limit
        check(host.machine)
    assert sorted(host.ran()) == sorted(f"p/a{n}" for n in range(50))
    assert host.ended == "Completed"
    assert (raised == 0) == (limit >= 100)


def test_a_long_line_costs_no_more_for_each_that_leaves_it() -> None:
    """Counted, not timed: an end lets the first in line try, not everybody."""
    tried = 0
    reserve = Spending.reserve

    def counting(*arguments: Any) -> Any:
        nonlocal tried
        tried += 1
        return reserve(*arguments)

    host = Host(at_once(*(agent(f"a{n}", 1) for n in range(300)), budget=Budget(usd=1.5)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Spending, "reserve", counting)
        host.start()
        while host.tasks:
            host.end(next(iter(host.tasks))[0], usage={"costUsd": 0.001})
    assert host.ended == "Completed"
    assert tried <= 2 * 300 + 1
