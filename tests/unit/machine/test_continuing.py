"""What a reopened run does with a loop, a block or a call that failed: only what is unfinished in it is continued."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from podium.log.events import EventType
from podium.machine import machine
from podium.machine.commands import RunTask
from podium.machine.obligations import Obligation
from podium.machine.reopening import causes
from podium.plan.plan import Budget, Join, Retry, Step
from podium.runtime.state_fold import StateFold
from tests.torture.views import ReportingMachine, views_agree
from tests.unit.machine.building import (
    NO,
    agent,
    approval,
    call,
    equals,
    for_each,
    gate,
    graph,
    group,
    on,
    parallel,
    plan,
    put,
    ref,
    task,
    while_,
    with_budget,
    workflow,
)
from tests.unit.machine.hosting import Host, replayed, restored

PAY: Any = {"idempotent": False}
ALL = Join("all", fail_fast=False)


def ran(host: Host) -> list[str]:
    return [f"{one.path}#{one.attempt}" for one in host.commands if isinstance(one, RunTask)]


def reopen(host: Host, opening: int = 2) -> Host:
    """Also after a restart from a checkpoint, and seen by a process that replays the log."""
    assert host.ended in ("Cancelled", "Failed"), host.events()
    host.machine = restored(host)
    host.append(EventType.RUN_REOPENED, None, opening)
    assert replayed(host).outstanding() == host.machine.outstanding()
    return host


def again(host: Host, opening: int = 2) -> list[str]:
    """The tasks of the next opening, which is run to its end; all views agree about it."""
    before = len(ran(host))
    reopen(host, opening).run()
    views_agree(host.plan, host.log)
    # In a graph it was skipped in the opening before, which is an attempt as well.
    return [re.sub(r"\b(after|g/c)#\d$", r"\1#1", one) for one in ran(host)[before:]]


def fails(*names: str, until: int = 2) -> Callable[[RunTask], int]:
    """Tasks with these names, or at these paths, fail before this attempt."""
    return lambda one: int({one.path, one.step.step_id} & set(names) != set() and one.attempt < until)


STEPS = (task("pay", **PAY), task("bad"), task("after"))
KINDS: dict[str, tuple[Step, str]] = {
    "group": (group("g", *STEPS), "g/"),
    "for_each": (for_each("g", 1, *STEPS), "g[0]/"),
    "parallel": (parallel("g", group("b", *STEPS)), "g/b/"),
    "call": (call("g", workflow(*STEPS)), "g/"),
    "graph": (
        graph("g", task("pay", **PAY), task("bad", depends_on=("pay",)), task("after", depends_on=("bad",))),
        "g/",
    ),
    "for_each of graphs": (
        for_each(
            "g",
            1,
            task("pay", **PAY),
            task("bad", depends_on=("pay",)),
            task("after", depends_on=("bad",)),
            discipline="graph",
        ),
        "g[0]/",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.rule("D31")
@pytest.mark.rule("G51")
@pytest.mark.rule("OP12")
def test_only_what_failed_in_a_composite_runs_again(kind: str) -> None:
    step, inside = KINDS[kind]
    host = Host(plan(step, task("end")), fails("bad")).run()
    assert again(host) == [f"{inside}bad#2", f"{inside}after#1", "end#1"]
    assert host.ended == "Completed"
    assert host.payload(-1)["exitCode"] == 0


@pytest.mark.parametrize("outer", KINDS)
@pytest.mark.parametrize("inner", ["group", "for_each", "call", "graph"])
@pytest.mark.rule("OP12")
def test_composites_inside_of_composites_are_continued_too(outer: str, inner: str) -> None:
    step, inside = KINDS[inner]
    wrapped: dict[str, tuple[Step, str]] = {
        "group": (group("o", task("first", **PAY), step), "o/"),
        "for_each": (for_each("o", 1, task("first", **PAY), step), "o[0]/"),
        "parallel": (parallel("o", group("p", task("first", **PAY), step)), "o/p/"),
        "call": (call("o", workflow(task("first", **PAY), step)), "o/"),
        "graph": (graph("o", task("first", **PAY), step), "o/"),
        "for_each of graphs": (for_each("o", 1, task("first", **PAY), step, discipline="graph"), "o[0]/"),
    }
    around, before = wrapped[outer]
    host = Host(plan(group("top", around), task("end")), fails("bad", until=3)).run()
    assert again(host) == [f"top/{before}{inside}bad#2"]
    assert again(host, 3) == [f"top/{before}{inside}bad#3", f"top/{before}{inside}after#1", "end#1"]
    assert host.ended == "Completed"


def test_a_second_failure_elsewhere_inside_is_continued_from_there() -> None:
    host = Host(plan(group("g", task("a"), task("b"), task("d"))), fails("a", "d")).run()
    assert again(host) == ["g/a#2", "g/b#1", "g/d#1"]
    assert again(host, 3) == ["g/d#2"]
    assert host.ended == "Completed"


# --- items ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 1, 2, 10])
@pytest.mark.rule("D31")
@pytest.mark.rule("OP12")
def test_of_a_loop_that_collects_failures_only_the_failed_items_run_again(workers: int) -> None:
    loop = for_each("l", 6, task("pay", **PAY), task("bad"), join=ALL, workers=workers)
    host = Host(plan(loop), fails("l[1]/bad", "l[4]/bad")).run()
    assert sorted(again(host)) == ["l[1]/bad#2", "l[4]/bad#2"]
    summary = host.last("l", "StepCompleted")["summary"]
    assert (summary["count"], summary["success_count"], summary["failure_count"]) == (6, 6, 0)


@pytest.mark.rule("OP12")
def test_a_loop_that_stopped_at_a_failure_continues_with_that_item_and_those_never_started() -> None:
    host = Host(plan(for_each("l", 4, task("a"), join=Join("all", fail_fast=True))), fails("l[1]/a")).run()
    assert again(host) == ["l[1]/a#2", "l#2[2]/a#1", "l#2[3]/a#1"]
    assert host.last("l", "StepCompleted")["summary"]["success_count"] == 4


@pytest.mark.rule("OP12")
def test_never_more_items_are_continued_at_once_than_there_are_workers() -> None:
    host = Host(plan(for_each("l", 9, task("a"), join=ALL, workers=2)), fails("a")).run()
    reopen(host)
    assert list(host.tasks) == [("l[0]/a", 2), ("l[1]/a", 2)]
    host.run()
    assert host.ended == "Completed"
    assert len(ran(host)) == 18


def test_a_join_that_fails_early_leaves_items_whose_turn_did_not_come_to_the_next_opening() -> None:
    loop = for_each("l", 4, task("a"), join=ALL)
    host = Host(plan(loop), fails("a")).run()
    changed = Host(plan(loop), lambda one: int(one.attempt < 2 or (one.path == "l[0]/a" and one.attempt < 3)))
    changed.run()
    assert again(changed) == ["l[0]/a#2", "l[1]/a#2", "l[2]/a#2", "l[3]/a#2"]
    assert again(changed, 3) == ["l[0]/a#3"]
    fast = Host(plan(for_each("l", 3, task("a"), join=Join("majority"))), fails("a", until=3)).run()
    assert ran(fast) == ["l[0]/a#1", "l[1]/a#1"]
    assert again(fast) == ["l[0]/a#2", "l[1]/a#2"]
    assert again(fast, 3) == ["l[0]/a#3", "l[1]/a#3"]
    assert fast.ended == "Completed"
    assert again(host) == ["l[0]/a#2", "l[1]/a#2", "l[2]/a#2", "l[3]/a#2"]


def test_counts_are_those_of_all_items_when_the_join_fails_before_every_turn_has_come() -> None:
    loop = for_each("l", 4, task("a"), join=Join("any"))
    host = Host(plan(loop), fails("a", until=3)).run()
    reopen(host)
    host.end("l[0]/a", 1)
    host.signal("CANCEL")
    host.end("l[1]/a")
    assert again(host, 3) == ["l[1]/a#3"]
    summary = host.last("l", "StepCompleted")["summary"]
    counted = sum(summary[f"{name}_count"] for name in ("success", "failure", "skipped", "cancelled"))
    assert counted == summary["count"] == 4


@pytest.mark.parametrize("wait_for", ["all", "any", "majority"])
def test_branches_that_completed_are_done_whatever_the_join_waits_for(wait_for: Any) -> None:
    branches = [group(f"b{n}", task("pay", **PAY), task("bad")) for n in range(4)]
    step = parallel("p", *branches, join=Join(wait_for, fail_fast=False))
    failing = {"all": ("p/b2/bad",), "any": ("bad",), "majority": ("p/b0/bad", "p/b1/bad")}[wait_for]
    host = Host(plan(step), fails(*failing)).run()
    assert host.ended == "Failed"
    once = [one for one in ran(host) if "/pay" in one]
    tasks = again(host)
    assert host.ended == "Completed"
    assert len(set(ran(host))) == len(ran(host))
    assert not set(once) & set(tasks)
    assert not [one for one in tasks if "/pay#2" in one]


@pytest.mark.rule("G13")
@pytest.mark.rule("OP12")
def test_what_a_decided_join_stopped_is_continued_and_what_must_not_be_repeated_is_in_doubt() -> None:
    step = parallel(
        "p", task("bad"), task("pay", on_doubt="ask", **PAY), task("slow"), join=Join("all", True)
    )
    host = Host(plan(step)).start()
    for one in ("bad", "pay", "slow"):
        host.begin(f"p/{one}")
    host.end("p/bad", 1)
    host.end("p/pay")
    host.end("p/slow")
    assert host.ended == "Failed"
    reopen(host)
    assert list(host.tasks) == [("p/bad", 2), ("p/slow", 2)]
    assert [one for one in host.machine.obligations() if one.kind == "doubt"] == [
        Obligation("doubt", "p/pay", 2)
    ]
    host.signal("APPROVE", stepId="p/pay")
    host.run()
    assert host.ended == "Completed"
    views_agree(host.plan, host.log)


@pytest.mark.rule("OP12")
def test_what_completed_although_a_decided_join_had_stopped_it_is_done() -> None:
    step = parallel("p", task("bad"), group("g", task("pay", **PAY), task("b")), join=Join("all", True))
    host = Host(plan(step)).start()
    host.begin("p/g/pay")
    host.end("p/bad", 1)
    host.end("p/g/pay", {"exitCode": 0})
    assert again(host) == ["p/bad#2", "p/g/b#1"]
    assert host.ended == "Completed"


def test_what_failed_although_a_decided_join_had_stopped_it_runs_again() -> None:
    step = parallel("p", task("bad"), task("b"), join=Join("all", fail_fast=True))
    host = Host(plan(step)).start()
    host.end("p/bad", 1)
    host.end("p/b", 1)
    assert again(host) == ["p/bad#2", "p/b#2"]
    assert host.ended == "Completed"


def test_an_approval_and_a_retry_that_a_decided_join_stopped_are_continued() -> None:
    step = parallel(
        "p", task("bad"), approval("may"), task("flaky", retry=Retry(3, delay=60)), join=Join("all", True)
    )
    host = Host(plan(step)).start()
    host.end("p/flaky", 1)
    host.end("p/bad", 1)
    assert host.ended == "Failed"
    reopen(host)
    assert list(host.tasks) == [("p/bad", 2), ("p/flaky", 3)]
    host.signal("APPROVE", stepId="p/may")
    host.run()
    assert host.ended == "Completed"
    views_agree(host.plan, host.log)


def test_loops_that_a_decided_join_stopped_continue_at_what_was_stopped() -> None:
    inner = for_each("l", 5, task("pay", **PAY), task("b"))
    host = Host(plan(parallel("p", task("bad"), inner, join=Join("all", fail_fast=True)))).start()
    host.end("p/l[0]/pay")
    host.end("p/l[0]/b")
    host.end("p/l[1]/pay")
    host.end("p/bad", 1)
    host.end("p/l[1]/b")
    reopen(host).run()
    views_agree(host.plan, host.log)
    assert ran(host)[5:] == ["p/bad#2", "p/l[1]/b#2", *_items("p/l#2", 2, 5, "pay", "b")]
    assert host.last("p/l", "StepCompleted")["summary"]["success_count"] == 5


def _items(loop: str, first: int, end: int, *names: str) -> list[str]:
    return [f"{loop}[{index}]/{name}#1" for index in range(first, end) for name in names]


# --- passes ---------------------------------------------------------------------------------------


def test_a_loop_that_reached_its_maximum_gets_as_many_passes_again() -> None:
    step = while_(
        "w", equals(ref("context", "ready"), True), task("poll"), until=True, max_iterations=2, timeout=900
    )
    host = Host(plan(step, context={"ready": False})).run()
    assert host.reason == "step_failed"
    assert again(host) == ["w#2[2]/poll#1", "w#2[3]/poll#1"]
    assert host.ended == "Failed"
    reopen(host, 3)
    host.signal("UPDATE_PARAMS", params={"context": {"ready": True}})
    host.run()
    assert host.ended == "Completed"
    assert ran(host)[4:] == ["w#3[4]/poll#1"]


def test_a_pass_that_the_time_limit_of_its_loop_stopped_is_continued() -> None:
    step = while_("w", equals(1, 1), task("pay", **PAY), task("b"), max_iterations=9, max_duration=10)
    host = Host(plan(step)).start()
    host.end("w[0]/pay")
    host.end("w[0]/b")
    host.end("w[1]/pay")
    host.wait(11)
    host.end("w[1]/b")
    assert host.ended == "Failed"
    reopen(host)
    assert list(host.tasks) == [("w[1]/b", 2)]
    host.end("w[1]/b")
    assert list(host.tasks) == [("w#2[2]/pay", 1)]


@pytest.mark.parametrize("kind", ["group", "call", "for_each"])
def test_a_composite_that_timed_out_is_continued_and_its_limit_starts_anew(kind: str) -> None:
    steps = (task("pay", **PAY), task("b"))
    made = {
        "group": group("g", *steps, timeout=10),
        "call": call("g", workflow(*steps), timeout=10),
        "for_each": for_each("g", 1, *steps, timeout=10),
    }[kind]
    host = Host(plan(made)).start()
    inside = "g[0]/" if kind == "for_each" else "g/"
    host.end(f"{inside}pay")
    host.wait(11)
    host.end(f"{inside}b")
    assert host.ended == "Failed"
    reopen(host)
    assert list(host.tasks) == [(f"{inside}b", 2)]
    host.wait(8)
    assert not host.cancels
    host.wait(4)
    assert host.cancels


# --- calls ----------------------------------------------------------------------------------------


def test_error_and_finally_of_a_failed_call_run_once_per_attempt_and_its_list_is_continued() -> None:
    inner = workflow(
        task("pay", **PAY),
        task("bad", on=on(failure="_error", success="end")),
        task("end"),
        cleanup=(task("f"),),
        error=task("_error"),
    )
    host = Host(plan(call("c", inner)), fails("bad", until=3)).run()
    assert ran(host) == ["c/pay#1", "c/bad#1", "c/_error#1", "c/_finally/f#1"]
    assert again(host) == ["c/bad#2", "c#2/_error#1", "c#2/_finally/f#1"]
    assert again(host, 3) == ["c/bad#3", "c/end#1", "c#3/_finally/f#1"]
    assert host.ended == "Completed"


def test_the_context_of_a_failed_call_is_that_of_its_verdict() -> None:
    inner = workflow(
        put("set", {"x": "list"}),
        task("bad"),
        task("end", ref("context", "x")),
        context={"x": "first"},
        cleanup=(put("over", {"x": "cleanup"}),),
    )
    host = Host(plan(call("c", inner)), fails("bad")).run()
    reopen(host)
    host.end("c/bad")
    assert host.tasks["c/end", 1].values == {("context", "x"): "list"}


def test_a_continued_call_that_changes_its_context_is_restored_from_a_checkpoint_as_it_is() -> None:
    inner = workflow(task("bad"), put("set", {"x": 2}), task("end"), context={"x": 1}, cleanup=(task("f"),))
    host = Host(plan(call("c", inner)), fails("bad")).run()
    reopen(host)
    host.machine = restored(host)
    host.end("c/bad")
    assert replayed(host).checkpoint("") == host.machine.checkpoint("")


def test_a_call_that_has_just_succeeded_can_be_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_MAX_OPERATIONS", 1)
    host = Host(plan(call("c", workflow(task("a"), cleanup=(task("f"),))), task("end"))).start()
    while not host.ended:
        host.step()
        host.machine = restored(host)
    assert host.ended == "Completed"


def test_a_call_whose_finally_failed_continues_that() -> None:
    inner = workflow(
        task("pay", **PAY),
        cleanup=(task("f"), group("g", task("h"), task("bad")), task("i"), group("k", task("bad2"))),
    )
    host = Host(plan(call("c", inner)), fails("bad", "bad2")).run()
    assert host.ended == "Failed"
    assert again(host) == ["c/_finally/g/bad#2", "c/_finally/k/bad2#2"]
    assert host.ended == "Completed"


def test_of_a_finally_of_the_run_only_what_failed_inside_of_its_blocks_runs_again() -> None:
    cleanup = (group("g", task("h"), task("bad")), task("i"), for_each("l", 3, task("bad2"), join=ALL))
    host = Host(plan(task("a"), cleanup=cleanup), fails("_finally/g/bad", "_finally/l[1]/bad2")).run()
    assert again(host) == ["_finally/g/bad#2", "_finally/l[1]/bad2#2"]
    assert host.ended == "Completed"


def test_a_call_in_which_a_handler_ended_with_an_error_continues_at_that_step() -> None:
    inner = workflow(group("g", task("pay", **PAY), for_each("l", 2, task("bad", on=on(failure="!no")))))
    host = Host(plan(call("c", inner)), fails("c/g/l[1]/bad")).run()
    assert host.ended == "Failed"
    assert again(host) == ["c/g/l[1]/bad#2"]


def test_a_call_whose_outputs_cannot_be_made_does_nothing_again() -> None:
    inner = workflow(task("pay", **PAY), outputs={"x": ref("steps", "nothing", "output")})
    host = Host(plan(call("c", inner))).run()
    assert host.ended == "Failed"
    assert again(host) == []


# --- with other rules -----------------------------------------------------------------------------


def test_a_composite_with_tries_of_its_own_is_continued_after_the_last_and_not_repeated_once_more() -> None:
    step = group("g", task("pay", **PAY), task("bad"), retry=Retry(2, delay=1))
    host = Host(plan(step), lambda one: int(one.step.step_id == "bad" and one.attempt < 3)).run()
    assert ran(host) == ["g/pay#1", "g/bad#1", "g#2/pay#1", "g#2/bad#1"]
    assert again(host) == ["g#2/bad#2"]
    assert again(host, 3) == ["g#2/bad#3"]
    assert host.ended == "Completed"


def test_a_composite_that_waits_for_an_operator_when_its_run_is_cancelled_is_continued() -> None:
    step = group("g", task("pay", **PAY), task("bad"), retry=Retry(1, operator=60))
    host = Host(plan(step)).start()
    host.end("g/pay")
    host.end("g/bad", 1)
    host.signal("CANCEL")
    assert again(host) == ["g/bad#2"]
    assert host.ended == "Completed"


def test_a_failure_that_was_handled_is_not_continued() -> None:
    step = group("g", task("pay", **PAY), task("bad"), on=on(failure="fix", success="fix"))
    host = Host(
        plan(step, task("fix")), lambda one: int(one.step.step_id in ("bad", "fix") and one.attempt < 2)
    )
    host.run()
    assert again(host) == ["fix#2"]


def test_a_loop_whose_failure_is_allowed_keeps_it() -> None:
    step = for_each("l", 3, task("bad"), join=ALL, allow_failure=True)
    host = Host(plan(step, task("end")), fails("bad", "end")).run()
    assert again(host) == ["end#2"]


def test_failed_branches_of_a_graph_are_continued_and_what_waits_for_them_follows() -> None:
    step = graph(
        "g",
        group("a", task("pay", **PAY), task("bad")),
        for_each("b", 2, task("bad"), join=ALL),
        task("c", depends_on=("a", "b")),
    )
    host = Host(plan(step), fails("bad")).run()
    assert sorted(again(host)) == ["g/a/bad#2", "g/b[0]/bad#2", "g/b[1]/bad#2", "g/c#1"]
    assert host.ended == "Completed"


def test_a_graph_as_the_workflow_continues_what_failed_inside_of_its_steps() -> None:
    steps = (group("a", task("pay", **PAY), task("bad")), task("c", depends_on=("a",)))
    host = Host(plan(*steps, discipline="graph"), fails("bad")).run()
    assert again(host) == ["a/bad#2", "c#2"]


def test_an_operator_who_retries_a_failed_block_of_a_graph_runs_all_of_it() -> None:
    steps = (group("a", task("x"), task("bad")), task("slow"))
    host = Host(plan(*steps, discipline="graph")).start()
    host.end("a/x")
    host.end("a/bad", 1)
    host.signal("RETRY_STEP", stepId="a")
    assert ("a#2/x", 1) in host.tasks


def test_a_cancel_of_a_run_that_is_continued_loses_nothing_of_what_is_left_to_do() -> None:
    host = Host(plan(for_each("l", 5, task("pay", **PAY), task("bad"), join=ALL)), fails("bad")).run()
    reopen(host)
    host.end("l[0]/bad")
    host.signal("CANCEL")
    host.end("l[1]/bad")
    assert again(host, 3) == ["l[1]/bad#3", "l[2]/bad#2", "l[3]/bad#2", "l[4]/bad#2"]
    assert host.ended == "Completed"


def test_a_failed_item_of_a_loop_whose_run_was_cancelled_stays_failed_until_the_loop_has_failed() -> None:
    host = Host(plan(for_each("l", 2, task("bad"), join=ALL))).start()
    host.end("l[0]/bad", 1)
    host.signal("CANCEL")
    host.end("l[1]/bad")
    assert again(host) == ["l[1]/bad#2"]
    assert host.ended == "Failed"
    assert again(host, 3) == ["l[0]/bad#2"]
    assert host.ended == "Completed"


def test_a_cancel_while_a_decided_join_stops_its_branches_loses_nothing() -> None:
    branch = group("g", for_each("l", 2, task("pay", **PAY), task("b")))
    host = Host(plan(parallel("p", task("bad"), branch, join=Join("all", fail_fast=True)))).start()
    host.end("p/g/l[0]/pay")
    host.end("p/bad", 1)
    host.signal("CANCEL")
    host.end("p/g/l[0]/b")
    assert host.ended == "Cancelled"
    assert again(host) == []
    assert host.ended == "Failed"
    assert again(host, 3) == ["p/bad#2", "p/g/l[0]/b#2", "p/g/l#2[1]/pay#1", "p/g/l#2[1]/b#1"]
    assert host.ended == "Completed"


def test_what_a_failed_loop_has_spent_of_its_budget_stays_spent() -> None:
    step = with_budget(group("g", agent("a"), task("bad")), Budget(usd=1.0))
    host = Host(plan(step)).start()
    host.end("g/a", {"exitCode": 0, "usage": {"costUsd": 0.75, "tokens": 1}})
    host.end("g/bad", 1)
    assert host.ended == "Failed"
    reopen(host)
    assert host.machine.spending.accounts["g"].spent.usd == 750_000_000


def test_steps_skipped_and_items_left_stay_so() -> None:
    step = for_each("l", 3, gate("g", NO, on=on(failure="_loop_continue", success="a")), task("a"))
    host = Host(plan(group("o", step, task("bad"))), fails("bad")).run()
    assert again(host) == ["o/bad#2"]


# --- what is known of it --------------------------------------------------------------------------


def test_the_causes_are_the_steps_inside_that_failed() -> None:
    loop = for_each("l", 3, task("a"), task("bad"), join=ALL)
    host = Host(plan(group("g", loop)), fails("g/l[0]/bad", "g/l[2]/bad")).run()
    assert [cause.path for cause in causes(host.machine)] == ["g/l[0]/bad", "g/l[2]/bad"]


def test_the_state_file_shows_how_a_continued_item_of_an_inner_loop_ended() -> None:
    loop = for_each("l", 3, task("bad"), join=ALL)
    host = Host(plan(group("g", loop)), fails("g/l[1]/bad")).run()
    again(host)
    machine = ReportingMachine(host.plan)
    fold = StateFold(host.plan, "r1")
    for record in host.log:
        fold.fold(record, machine.advance(record))
    shown = fold.state()["steps"]["g"]["steps"]["l"]
    assert [one["status"] for one in shown["iterations"]] == ["completed"] * 3
    assert shown["summary"]["success_count"] == 3


def test_a_list_that_was_stopped_did_not_end_the_run() -> None:
    loop = for_each("l", 2, task("a"), task("bad"), join=Join("all", fail_fast=True), workers=2)
    host = Host(plan(loop)).start()
    host.end("l[0]/a")
    host.end("l[1]/a")
    host.end("l[0]/bad", 1)
    host.run()
    assert [cause.path for cause in causes(host.machine)] == ["l[0]/bad"]


def test_a_step_that_failed_before_and_completed_while_it_was_stopped_did_not_end_the_run() -> None:
    step = parallel("p", task("bad"), group("b", task("pay", **PAY)), join=Join("all", fail_fast=True))
    host = Host(plan(step)).start()
    host.end("p/b/pay", 1)
    host.run()
    reopen(host)
    host.end("p/bad", 1)
    host.end("p/b/pay", 0)
    host.run()
    assert [cause.path for cause in causes(host.machine)] == ["p/bad"]


def test_a_loop_keeps_nothing_of_items_that_completed() -> None:
    def kept(items: int) -> int:
        host = Host(plan(for_each("l", items, task("a"), join=ALL)), fails("l[3]/a", "l[5]/a"))
        host.start()
        while ("l[8]/a", 1) not in host.tasks:
            host.step()
        for index in range(8, items - 1):
            host.end(f"l[{index}]/a")
        visit = host.machine.find("l")
        assert visit is not None
        assert visit.unfinished is not None
        assert sorted(visit.unfinished.items) == [3, 5]
        return len(visit.unfinished.items)

    assert kept(50) == kept(500) == 2
