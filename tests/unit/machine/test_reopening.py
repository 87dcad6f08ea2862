"""What a reopened run does with attempts that ended, or were stopped, after its verdict had fallen."""

from typing import Any

import pytest

from podium.log.events import EventType
from podium.machine.commands import RunTask
from podium.machine.obligations import Obligation
from podium.plan.plan import End, Error, Handlers, Retry
from tests.unit.machine.building import agent, call, for_each, parallel, plan, ref, task, workflow
from tests.unit.machine.hosting import Host, replayed, restored

PAY: Any = {"idempotent": False}


def ran(host: Host) -> list[str]:
    return [f"{one.path}#{one.attempt}" for one in host.commands if isinstance(one, RunTask)]


def started(host: Host) -> list[str]:
    return [event.removesuffix(" Started") for event in host.events("Started")]


def reopen(host: Host) -> Host:
    """Also after a restart from a checkpoint: what is known of late ends is part of it."""
    assert host.ended in ("Cancelled", "Failed"), host.events()
    host.machine = restored(host)
    host.append(EventType.RUN_REOPENED, None, 2)
    assert replayed(host).outstanding() == host.machine.outstanding()
    return host


@pytest.mark.rule("G13")
@pytest.mark.rule("G51")
def test_a_step_that_completes_while_its_run_is_being_cancelled_is_not_done_again() -> None:
    host = Host(plan(for_each("l", 3, task("a"), task("b"), workers=3))).start()
    host.signal("CANCEL")
    host.end("l[0]/a", {"exitCode": 0})
    host.end("l[1]/a")
    host.end("l[2]/a", {"exitCode": 0})
    reopen(host).run()
    assert host.ended == "Completed"
    tasks = ran(host)
    assert sorted(tasks[3:]) == ["l[0]/b#1", "l[1]/a#2", "l[1]/b#1", "l[2]/b#1"]
    assert host.last("l", "StepCompleted")["summary"]["success_count"] == 3


def test_the_output_of_a_late_end_is_what_later_steps_read() -> None:
    host = Host(plan(task("a"), task("b", ref("steps", "a", "output")))).start()
    host.signal("CANCEL")
    host.end("a", {"exitCode": 0, "output": "late\n"})
    reopen(host)
    assert host.tasks["b", 1].values == {("steps", "a", "output"): "late"}


def test_a_failure_that_was_recorded_after_the_cancel_keeps_its_outcome_and_its_retries() -> None:
    host = Host(plan(task("a", retry=Retry(2, delay=5)))).start()
    host.signal("CANCEL")
    host.end("a", 1)
    reopen(host)
    assert not host.tasks
    assert host.events()[-1] == "a#1 RetryScheduled"
    host.wait(6)
    assert list(host.tasks) == [("a", 2)]


def test_the_cost_of_a_late_end_is_charged_once() -> None:
    host = Host(plan(agent("a"), agent("b"))).start()
    host.signal("CANCEL")
    host.end("a", {"exitCode": 0, "usage": {"costUsd": 0.5, "tokens": 7}})
    reopen(host).run()
    assert host.ended == "Completed"
    assert host.machine.spending.total.tokens == 7


@pytest.mark.parametrize("how", ["CANCEL", "EMERGENCY_STOP", "timeout"])
@pytest.mark.rule("G13")
def test_a_stopped_step_that_must_not_be_repeated_is_in_doubt_when_its_run_is_reopened(how: str) -> None:
    host = Host(plan(task("pay", on_doubt="ask", **PAY), timeout=10)).start()
    host.begin("pay")
    if how == "timeout":
        host.wait(11)
    else:
        host.signal(how, reason="enough")
    host.end("pay")
    reopen(host)
    assert not host.tasks
    assert host.events()[-1] == "pay#2 Interrupted"
    assert [o for o in host.machine.obligations() if o.kind == "doubt"] == [Obligation("doubt", "pay", 2)]
    host.signal("APPROVE", stepId="pay")
    assert host.ended == "Completed"
    assert started(host) == ["pay#1"]


def test_on_doubt_retry_runs_a_stopped_step_again_after_the_doubt_is_recorded() -> None:
    host = Host(plan(task("pay", on_doubt="retry", **PAY))).start()
    host.begin("pay")
    host.signal("CANCEL")
    host.end("pay")
    reopen(host).run()
    assert host.events() == [
        "pay#1 Started",
        "pay#1 Failed",
        "pay#2 Interrupted",
        "pay#3 Started",
        "pay#3 Completed",
    ]


def test_on_doubt_fail_fails_a_stopped_step() -> None:
    host = Host(plan(task("pay", on_doubt="fail", **PAY))).start()
    host.begin("pay")
    host.signal("CANCEL")
    host.end("pay")
    reopen(host)
    assert host.ended == "Failed"
    assert host.payload(-1)["error"]["code"] == "IN_DOUBT"
    assert started(host) == ["pay#1"]


def test_a_stopped_step_that_never_started_is_not_in_doubt() -> None:
    host = Host(plan(task("pay", on_doubt="fail", **PAY))).start()
    host.signal("CANCEL")
    host.end("pay")
    reopen(host).run()
    assert host.ended == "Completed"


def test_a_start_that_is_recorded_after_the_cancel_puts_the_step_in_doubt() -> None:
    host = Host(plan(task("pay", on_doubt="ask", **PAY))).start()
    host.signal("CANCEL")
    host.begin("pay")
    host.end("pay")
    reopen(host)
    assert not host.tasks


def test_a_second_cancel_in_the_finally_of_a_call_leaves_what_was_done_there_done() -> None:
    inner = workflow(task("a"), cleanup=(task("f"), for_each("l", 2, task("g")), task("h")))
    host = Host(plan(call("c", inner))).start()
    host.end("c/a")
    host.signal("CANCEL")
    host.end("c/_finally/f", {"exitCode": 0})
    host.end("c/_finally/l[0]/g", {"exitCode": 0})
    host.signal("CANCEL")
    host.end("c/_finally/l[1]/g")
    reopen(host).run()
    assert host.ended == "Completed"
    tasks = ran(host)
    assert tasks[4:] == ["c/_finally/l[1]/g#2", "c/_finally/h#1"]


@pytest.mark.parametrize("cancels", [1, 2])
def test_a_finally_that_followed_a_success_is_continued_and_not_repeated(cancels: int) -> None:
    host = Host(plan(task("a"), cleanup=(task("f"), task("g"), task("h")))).start()
    host.end("a")
    host.end("_finally/f")
    for _ in range(cancels):
        host.signal("CANCEL")
    host.run()
    assert host.ended == "Cancelled"
    reopen(host).run()
    assert host.ended == "Completed"
    tasks = ran(host)
    again = ["_finally/g#2", "_finally/h#1"] if cancels == 2 else ["_finally/h#1"]
    assert tasks == ["a#1", "_finally/f#1", "_finally/g#1", *again]


def test_of_a_finally_that_failed_only_what_failed_runs_again() -> None:
    steps = (task("f"), task("g"), task("h"))
    host = Host(plan(task("a"), cleanup=steps), {"_finally/g": [1, 0]}).run()
    reopen(host).run()
    assert host.ended == "Completed"
    tasks = ran(host)
    assert tasks == ["a#1", "_finally/f#1", "_finally/g#1", "_finally/h#1", "_finally/g#2"]


@pytest.mark.parametrize("ended_by", [Error("text"), End()])
def test_a_finally_that_was_ending_when_it_was_cancelled_is_continued(ended_by: Error | End) -> None:
    """A handler ended the list, and two cancels came while another branch was being stopped because of that."""
    branches = (task("f"), task("g", on=Handlers(success=ended_by)))
    host = Host(plan(task("a"), cleanup=(parallel("p", *branches), task("h")))).start()
    host.end("a")
    host.end("_finally/p/g")
    for _ in range(2):
        host.signal("CANCEL")
    host.end("_finally/p/f")
    reopen(host).run()
    assert host.ended == ("Completed" if isinstance(ended_by, End) else "Failed"), host.events()
    # It did not wait for the limit of `finally`.
    assert EventType.TIMER_FIRED not in [record.event_type for record in host.log]


def test_a_finally_that_was_ending_when_its_limit_was_reached_is_continued() -> None:
    """A handler ended the list, and the limit was reached while another branch was being stopped because of that."""
    branches = (task("f"), task("g", on=Handlers(success=Error("text"))))
    host = Host(plan(task("a"), cleanup=(parallel("p", *branches), task("h")))).start()
    host.end("a")
    host.end("_finally/p/g")
    host.fire("|1|limit|1")
    host.end("_finally/p/f")
    reopen(host).run()
    assert host.ended == "Failed"
    # It did not wait for the limit again.
    assert [record.event_type for record in host.log].count(EventType.TIMER_FIRED) == 1


def test_an_end_between_the_cancels_of_a_finally_and_its_limit_is_kept() -> None:
    host = Host(plan(task("a"), cleanup=(parallel("p", task("f"), task("g")), task("h")))).start()
    host.end("a")
    for _ in range(2):
        host.signal("CANCEL")
    host.end("_finally/p/f", {"exitCode": 0})
    host.fire("|1|limit|1")
    host.end("_finally/p/g")
    reopen(host).run()
    assert host.ended == "Completed", host.events()
    tasks = ran(host)
    assert tasks[3:] == ["_finally/p/g#2", "_finally/h#1"]


def test_an_end_that_comes_while_a_run_is_paused_and_cancelled_is_kept() -> None:
    host = Host(plan(parallel("p", task("a"), task("b")), task("z"))).start()
    host.signal("PAUSE")
    host.end("p/a")
    host.signal("CANCEL")
    host.end("p/b", {"exitCode": 0})
    reopen(host)
    assert list(host.tasks) == [("z", 1)]


def test_a_call_whose_limit_was_reached_before_its_run_was_cancelled_can_be_continued_later() -> None:
    """It fails when the run is reopened, as it would have; what had completed in it stays done even then."""
    inner = workflow(task("a"), task("b"))
    host = Host(plan(call("c", inner, timeout=60))).start()
    host.end("c/a")
    host.fire("c|1|limit|1")
    host.signal("CANCEL")
    host.end("c/b")
    reopen(host)
    assert host.ended == "Failed"
    host.append(EventType.RUN_REOPENED, None, 3)
    host.run()
    assert host.ended == "Completed"
    assert ran(host) == ["c/a#1", "c/b#1", "c/b#2"]
