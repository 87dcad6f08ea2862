"""What happens when two things meet: every row of the table of interactions in docs/machine.md, by its number."""

import re
from pathlib import Path
from typing import Any

import pytest

from podium.language.workflow import read_workflow
from podium.log.events import EventType
from podium.machine import Machine
from podium.machine.commands import CancelTask, RunTask
from podium.machine.tree import Phase
from podium.plan.plan import Budget, Join, Retry
from tests.unit.machine.building import (
    NO,
    YES,
    agent,
    approval,
    call,
    equals,
    file,
    for_each,
    gate,
    graph,
    group,
    on,
    parallel,
    plan,
    raising,
    ref,
    task,
    while_,
    workflow,
)
from tests.unit.machine.hosting import Host, record_of

PAGE = Path(__file__).parents[3] / "docs" / "machine.md"
IN_DOUBT: dict[str, Any] = {"idempotent": False, "on_doubt": "ask"}
ANY = Join("any")
MAJORITY = Join("majority")


def cancelled(host: Host) -> list[str]:
    """The tasks that were told to stop, in order."""
    return [one.path for one in host.commands if isinstance(one, CancelTask)]


def ran(host: Host) -> list[str]:
    return [f"{one.path}#{one.attempt}" for one in host.commands if isinstance(one, RunTask)]


def ignored(host: Host) -> int:
    return sum(record.event_type == EventType.SIGNAL_IGNORED for record in host.log)


def run_events(host: Host) -> list[str]:
    return [
        record.event_type
        for record in host.log
        if record.event_type.startswith("Run") and record.event_type != EventType.RUN_STARTED
    ]


# --- pause ----------------------------------------------------------------------------------------


@pytest.mark.rule("G14")
def test_a_task_that_ends_while_paused_is_not_routed() -> None:
    """Row 1."""
    host = Host(plan(task("a"), task("b"))).start()
    host.signal("PAUSE")
    host.end("a")
    assert host.ran() == ["a"]
    assert host.ended == ""
    host.signal("RESUME")
    assert host.ran() == ["a", "b"]


def test_a_failure_while_paused_decides_nothing_for_its_siblings() -> None:
    """Row 1."""
    host = Host(plan(parallel("p", task("a"), task("b"), join=Join(fail_fast=True)))).start()
    host.signal("PAUSE")
    host.end("p/a", 1)
    assert cancelled(host) == []
    host.signal("RESUME")
    assert cancelled(host) == ["p/b"]


def test_a_stopped_task_that_answers_while_paused_ends_nothing() -> None:
    """Row 1."""
    host = Host(plan(parallel("p", task("a", on=on(success="_end")), task("b")))).start()
    host.end("p/a")
    assert cancelled(host) == ["p/b"]
    host.signal("PAUSE")
    host.end("p/b")
    assert host.ended == ""
    host.signal("RESUME")
    assert (host.ended, host.exit_code) == ("Completed", 0)


def test_a_step_that_failed_while_paused_can_be_tried_again() -> None:
    """Row 2."""
    host = Host(plan(task("a"), task("b"))).start()
    host.signal("PAUSE")
    host.end("a", 1)
    host.signal("RETRY_STEP", stepId="a")
    assert ran(host) == ["a#1"]
    host.signal("RESUME")
    assert ran(host) == ["a#1", "a#2"]
    host.end("a")
    host.end("b")
    assert host.ended == "Completed"


def test_a_step_that_failed_while_paused_can_be_skipped() -> None:
    """Row 2."""
    host = Host(plan(task("a"), task("b"))).start()
    host.signal("PAUSE")
    host.end("a", 1)
    host.signal("SKIP_STEP", stepId="a")
    host.signal("RESUME")
    assert "a#2 Skipped" in host.events()
    assert host.ran() == ["a", "b"]


@pytest.mark.rule("G14")
def test_the_last_step_ends_while_paused_and_the_run_completes_at_resume() -> None:
    """Row 3."""
    host = Host(plan(task("a"))).start()
    host.signal("PAUSE")
    host.end("a")
    assert host.ended == ""
    host.signal("RESUME")
    assert host.ended == "Completed"


def test_the_last_step_ends_while_paused_and_a_cancel_cancels() -> None:
    """Row 3."""
    host = Host(plan(task("a"))).start()
    host.signal("PAUSE")
    host.end("a")
    host.signal("CANCEL")
    assert (host.ended, host.exit_code) == ("Cancelled", 2)


@pytest.mark.parametrize("where", ["backoff", "interval", "operator", "probe"])
def test_timers_and_answers_are_folded_while_paused_and_what_they_start_waits(where: str) -> None:
    """Row 4."""
    steps = {
        "backoff": task("a", retry=Retry(attempts=2)),
        "interval": while_("w", YES, task("a"), check_interval=5),
        "operator": task("a", retry=Retry(operator=60)),
        "probe": task("a", when=file("f")),
    }
    host = Host(plan(steps[where], task("b"))).start()
    if where == "interval":
        host.end("w[0]/a")
    elif where != "probe":
        host.end("a", 1)
    before = len(host.ran())
    host.signal("PAUSE")
    if where == "probe":
        host.files = {"f"}
        host.answer_probes()
    else:
        host.fire(next(key for key in host.timers if "limit" not in key))
    assert len(host.ran()) == before
    assert not host.machine.terminal
    host.signal("RESUME")
    if where == "operator":
        assert host.ended == "Failed"  # the window is over, and the failure is routed
    else:
        assert len(host.ran()) == before + 1


@pytest.mark.parametrize("what", ["run", "join", "block", "max_duration", "approval"])
@pytest.mark.rule("G14")
def test_limits_stand_still_while_paused(what: str) -> None:
    """Row 5."""
    limited = {
        "run": plan(task("a"), timeout=100),
        "join": plan(parallel("p", task("a"), timeout=100)),
        "block": plan(group("p", task("a"), timeout=100)),
        "max_duration": plan(while_("p", YES, task("a"), max_duration=100)),
        "approval": plan(approval("p", timeout=100)),
    }
    host = Host(limited[what]).start()
    host.wait(40)
    host.signal("PAUSE")
    host.wait(1000)
    assert host.ended == ""
    assert cancelled(host) == []
    host.signal("RESUME")
    host.wait(59)
    assert cancelled(host) == []
    assert host.ended == ""
    host.wait(2)
    host.run()
    assert host.ended == "Failed"
    assert host.exit_code == (3 if what == "run" else 1)


def test_a_limit_gives_back_a_pause_that_was_over_before_it_fired() -> None:
    """Row 5."""
    host = Host(plan(task("a"), timeout=100)).start()
    host.wait(10)
    host.signal("PAUSE")
    host.wait(20)
    host.signal("RESUME")
    host.wait(89)
    assert cancelled(host) == []
    host.wait(2)
    assert cancelled(host) == ["a"]


def test_pause_and_budget_together_are_one_pause() -> None:
    """Row 6."""
    host = Host(plan(task("a"), agent("b"), budget=Budget(usd=1))).start()
    host.end("a", usage={"costUsd": 2})
    assert run_events(host) == ["RunPaused"]
    host.signal("PAUSE")
    assert run_events(host) == ["RunPaused"]
    host.signal("UPDATE_PARAMS", params={"budget": {"usd": 10}})
    assert host.ran() == ["a"]
    host.signal("RESUME")
    assert run_events(host) == ["RunPaused", "RunResumed"]
    assert host.ran() == ["a", "b"]


def test_a_budget_that_is_still_too_small_holds_again_in_the_next_cycle() -> None:
    """Row 6."""
    host = Host(plan(task("a"), agent("b"), budget=Budget(usd=1))).start()
    host.end("a", usage={"costUsd": 2})
    host.signal("RESUME")
    assert run_events(host) == ["RunPaused", "RunResumed", "RunPaused"]
    assert [r.logical_attempt_id for r in host.log if r.event_type == "RunPaused"] == [1, 2]
    assert host.ran() == ["a"]


def test_an_overspending_last_step_ends_the_run() -> None:
    """Row 7."""
    host = Host(plan(agent("a"), budget=Budget(usd=1))).start()
    host.end("a", usage={"costUsd": 5})
    assert host.ended == "Completed"


def test_the_launch_that_cannot_be_paid_holds() -> None:
    """Row 7."""
    steps = (agent("a", 0.6), agent("b", 1.2), task("c"))
    host = Host(plan(parallel("p", *steps), budget=Budget(usd=1))).start()
    assert host.ran() == ["p/a"]
    assert run_events(host) == ["RunPaused"]
    host.end("p/a", usage={"costUsd": 0.1})
    host.signal("UPDATE_PARAMS", params={"budget": {"usd": 2}})
    host.signal("RESUME")
    assert host.ran() == ["p/a", "p/c", "p/b"]


def test_what_was_reserved_for_a_stopped_or_doubtful_task_is_given_back() -> None:
    """Row 7."""
    steps = (agent("a", 0.6, idempotent=False, on_doubt="fail", allow_failure=True), agent("b", 0.6))
    host = Host(plan(*steps, budget=Budget(usd=1))).start()
    host.begin("a")
    host.append(EventType.STEP_INTERRUPTED, "a", 1)
    assert host.ran() == ["a", "b"]


@pytest.mark.rule("D66")
def test_the_budget_does_not_apply_to_error_and_finally() -> None:
    """Row 8."""
    host = Host(
        plan(
            agent("a", on=on(failure="_error")),
            error=agent("_error"),
            cleanup=(agent("c"),),
            budget=Budget(usd=1),
        ),
        {"a": 1},
    ).start()
    host.end("a", 1, usage={"costUsd": 5})
    host.end("_error", usage={"costUsd": 5})
    host.end("_finally/c")
    assert run_events(host) == ["RunFailed"]


# --- cancel ---------------------------------------------------------------------------------------


@pytest.mark.rule("D66")
@pytest.mark.rule("G23")
def test_a_cancel_while_paused_resumes_stops_cleans_up_and_cancels() -> None:
    """Row 9."""
    host = Host(plan(task("a"), cleanup=(task("c"),))).start()
    host.signal("PAUSE")
    host.signal("CANCEL")
    assert cancelled(host) == ["a"]
    host.end("a")
    host.end("_finally/c")
    assert run_events(host) == ["RunPaused", "RunResumed", "RunCancelled"]


@pytest.mark.rule("D66")
@pytest.mark.rule("G23")
def test_a_cancel_before_the_start_cancels_at_once_without_finally() -> None:
    """Row 10."""
    host = Host(plan(task("a"), cleanup=(task("c"),)))
    host.signal("CANCEL")
    assert (host.ended, host.exit_code) == ("Cancelled", 2)
    host.start()
    assert host.ran() == []


@pytest.mark.parametrize(("outcome", "ended", "code"), [(0, "Cancelled", 2), (1, "Failed", 1)])
def test_a_cancel_during_finally_lets_it_go_on(outcome: int, ended: str, code: int) -> None:
    """Row 11."""
    host = Host(plan(task("a"), cleanup=(task("c"), task("d")))).start()
    host.end("a", outcome)
    host.signal("CANCEL")
    assert cancelled(host) == []
    host.end("_finally/c")
    host.end("_finally/d")
    assert (host.ended, host.exit_code) == (ended, code)


@pytest.mark.rule("D66")
def test_a_second_cancel_stops_finally() -> None:
    """Row 11."""
    host = Host(plan(task("a"), cleanup=(task("c"), task("d")))).start()
    host.end("a")
    host.signal("CANCEL")
    host.signal("CANCEL")
    (stop,) = (one for one in host.commands if isinstance(one, CancelTask))
    assert (stop.path, stop.force, stop.code) == ("_finally/c", True, "CANCELLED")
    host.end("_finally/c")
    assert host.ended == "Cancelled"
    assert host.ran() == ["a", "_finally/c"]


def test_a_cancel_while_an_end_is_stopping_its_siblings_cancels() -> None:
    """Row 11."""
    host = Host(plan(parallel("p", task("a", on=on(success="_end")), task("b")))).start()
    host.end("p/a")
    host.signal("CANCEL")
    host.end("p/b")
    assert host.ended == "Cancelled"


@pytest.mark.parametrize("signal", ["CANCEL", "PAUSE", "RETRY_STEP", "EMERGENCY_STOP", "RESUME"])
def test_a_signal_has_no_effect_when_the_terminal_record_is_owed(signal: str) -> None:
    """Row 12."""
    machine = Machine(plan(task("a")))
    machine.advance(record_of(1, "RunStarted", None, 1, {}, "2026-01-01T12:00:00.000000Z"))
    machine.advance(record_of(2, "StepCompleted", "a", 1, {}, "2026-01-01T12:00:01.000000Z"))
    owed = machine.outstanding()
    told = {"signalId": "s", "signalType": signal, "payload": {"stepId": "a"}}
    assert machine.advance(record_of(3, "SignalAccepted", None, 1, told, "2026-01-01T12:00:02.000000Z")) == []
    assert machine.outstanding() == owed
    assert [command.event_type for command in owed] == ["RunCompleted"]  # type: ignore[union-attr]


# --- joins ----------------------------------------------------------------------------------------


def test_a_task_that_completes_after_it_was_told_to_stop_is_only_a_fact() -> None:
    """Row 13."""
    steps = (task("a"), task("b"), task("c"))
    host = Host(plan(parallel("p", *steps, join=ANY), task("z"))).start()
    host.end("p/a")
    host.end("p/b", {"exitCode": 0})
    assert "p/b#1 Completed" in host.events()
    host.end("p/c")
    summary = host.last("p", "StepCompleted")["summary"]
    assert (summary["success_count"], summary["cancelled_count"]) == (1, 2)
    assert host.ran()[-1] == "z"


@pytest.mark.rule("D07")
def test_a_decided_join_waits_for_what_it_stopped() -> None:
    """Row 14."""
    host = Host(plan(parallel("p", task("a"), task("b"), join=ANY, on=on(success="z")), task("z"))).start()
    host.end("p/a")
    (stop,) = (one for one in host.commands if isinstance(one, CancelTask))
    assert (stop.path, stop.code, stop.force) == ("p/b", "JOIN_DECIDED", False)
    assert host.ran()[-1] != "z"
    host.end("p/b")
    assert host.ran()[-1] == "z"


def test_a_decided_join_drops_a_backoff_at_once() -> None:
    """Row 15."""
    host = Host(plan(parallel("p", task("a", retry=Retry(3)), task("b"), join=ANY), task("z"))).start()
    host.end("p/a", 1)
    assert len(host.timers) == 1
    host.end("p/b")
    assert host.timers == {}
    assert "p/a#2 Skipped" in host.events()
    assert host.last("p/a", "StepSkipped")["reasonCode"] == "JOIN_DECIDED"
    assert host.ran()[-1] == "z"


@pytest.mark.rule("D07")
def test_all_waits_for_all_and_the_others_decide_when_it_is_certain() -> None:
    """Row 16."""
    steps = (task("a"), task("b"), task("c"))
    host = Host(plan(parallel("p", *steps))).start()
    host.end("p/a", 1)
    assert cancelled(host) == []
    host = Host(plan(parallel("p", *steps, join=MAJORITY))).start()
    host.end("p/a", 1)
    assert cancelled(host) == []
    host.end("p/b", 1)
    assert cancelled(host) == ["p/c"]
    host = Host(plan(parallel("p", *steps, join=MAJORITY))).start()
    host.end("p/a")
    host.end("p/b")
    assert cancelled(host) == ["p/c"]
    host = Host(plan(parallel("p", *steps, join=ANY))).start()
    for name in "abc":
        assert not host.ended
        host.end(f"p/{name}", 1)
    assert host.ended == "Failed"


@pytest.mark.rule("D07")
def test_with_rest_wait_the_running_ones_finish_and_no_more_start() -> None:
    """Row 17."""
    loop = for_each("p", 5, task("a"), workers=2, join=Join("any", rest="wait"), timeout=60)
    host = Host(plan(loop, task("z"))).start()
    host.end("p[0]/a")
    assert cancelled(host) == []
    assert host.ran() == ["p[0]/a", "p[1]/a"]
    host.wait(61)
    assert cancelled(host) == ["p[1]/a"]
    host.end("p[1]/a")
    assert host.ran()[-1] == "z"
    assert "p#1 Completed" in host.events()


@pytest.mark.rule("D07")
@pytest.mark.parametrize(("handler", "after"), [("timeout", "t"), ("failure", "f")])
def test_a_join_timeout_stops_all_and_is_a_timeout_else_a_failure(handler: str, after: str) -> None:
    """Row 18."""
    handlers = on(failure="f", timeout="t") if handler == "timeout" else on(failure="f")
    host = Host(plan(parallel("p", task("a"), task("b"), timeout=60, on=handlers), task("t"), task("f")))
    host.start()
    host.wait(61)
    assert cancelled(host) == ["p/a", "p/b"]
    host.end("p/a")
    assert host.ran()[-1] == "p/b"
    host.end("p/b")
    assert host.ran()[-1] == after


# --- loops ----------------------------------------------------------------------------------------


@pytest.mark.rule("D14")
def test_a_break_in_a_parallel_loop_starts_no_more_and_lets_the_running_finish() -> None:
    """Row 19."""
    loop = for_each("p", 6, task("a", on=on(success="_loop_break", failure="_loop_continue")), workers=3)
    host = Host(plan(loop, task("z"))).start()
    host.end("p[1]/a")
    assert cancelled(host) == []
    host.end("p[0]/a", 1)
    host.end("p[2]/a")
    summary = host.last("p", "StepCompleted")["summary"]
    assert (summary["count"], summary["total"], summary["success_count"]) == (3, 6, 2)
    assert host.last("p", "StepCompleted")["exitReason"] == "break"
    assert host.ran()[-1] == "z"


@pytest.mark.rule("D12")
@pytest.mark.parametrize("join", [Join(), ANY, MAJORITY])
def test_a_loop_over_nothing_is_a_success(join: Join) -> None:
    """Row 20."""
    host = Host(plan(for_each("p", 0, task("a"), join=join))).run()
    assert host.ended == "Completed"
    summary = host.last("p", "StepCompleted")["summary"]
    assert (summary["count"], summary["success_rate"]) == (0, 1)


@pytest.mark.rule("D11")
@pytest.mark.parametrize("target", ["_loop_break", "_loop_continue"])
def test_break_and_continue_leave_the_blocks_on_the_way(target: str) -> None:
    """Row 21."""
    inner = group("g", task("a", on=on(success=target)), task("b"))
    host = Host(plan(for_each("p", 2, inner, task("c")), task("z"))).run()
    assert host.ended == "Completed"
    expected = ["p[0]/g/a"] if target == "_loop_break" else ["p[0]/g/a", "p[1]/g/a"]
    assert host.ran() == [*expected, "z"]
    assert host.last("p", "StepCompleted")["summary"]["success_count"] == len(expected)


@pytest.mark.rule("D43")
def test_a_goto_out_of_nested_loops_completes_each_of_them() -> None:
    """Row 22."""
    inner = for_each("i", 3, task("a", on=on(success="z")))
    host = Host(plan(for_each("o", 3, inner), task("y"), task("z"))).run()
    assert host.ran() == ["o[0]/i[0]/a", "z"]
    for loop in ("o", "o[0]/i"):
        assert host.last(loop, "StepCompleted")["exitReason"] == "goto"
    assert host.ended == "Completed"


def test_a_goto_out_of_a_loop_is_counted_where_it_leads() -> None:
    """Row 22."""
    loop = for_each("o", 1, task("a", on=on(success="s")))
    host = Host(plan(task("s"), loop, max_transitions=4)).run()
    assert (host.ended, host.reason) == ("Failed", "cycle_guard")
    assert host.ran().count("s") == 3


@pytest.mark.rule("R068")
@pytest.mark.rule("D02")
@pytest.mark.parametrize(
    ("target", "ended", "code"),
    [("_end", "Completed", 0), ("!no", "Failed", 1), ("_error", "Failed", 1)],
)
def test_an_end_in_a_parallel_body_ends_the_run(target: str, ended: str, code: int) -> None:
    """Row 23."""
    steps = (task("a", on=on(success=target)), task("b"))
    host = Host(
        plan(parallel("p", *steps), task("z"), error=task("_error"), cleanup=(task("c"),)),
    ).start()
    host.end("p/a")
    assert cancelled(host) == ["p/b"]
    assert host.ran() == ["p/a", "p/b"]
    host.end("p/b")
    if target == "_error":
        host.end("_error")
    host.end("_finally/c")
    assert (host.ended, host.exit_code) == (ended, code)


@pytest.mark.rule("D27")
def test_an_error_step_at_the_end_of_the_list_is_not_fallen_into() -> None:
    """Row 24."""
    host = Host(
        """
        steps:
          - name: a
            command: [x]
          - name: _error
            command: [y]
        """
    ).run()
    assert host.ran() == ["a"]
    assert host.ended == "Completed"


@pytest.mark.rule("D02")
def test_an_event_that_on_does_not_name_ends_the_run_with_4_in_its_own_flow() -> None:
    """Row 25."""
    host = Host(plan(task("a", on=on(success="_end"))), {"a": 1}).run()
    assert (host.ended, host.exit_code, host.reason) == ("Failed", 4, "no_transition")


@pytest.mark.rule("D02")
@pytest.mark.parametrize("body", ["items", "branches", "group"])
def test_an_event_that_on_does_not_name_fails_the_iteration_or_branch(body: str) -> None:
    """Row 25."""
    one = task("a", on=on(success="_end"))
    steps = {
        "items": for_each("p", 1, one),
        "branches": parallel("p", one),
        "group": group("p", one),
    }
    host = Host(plan(steps[body]), {"a": 1}).run()
    assert (host.ended, host.exit_code, host.reason) == ("Failed", 1, "step_failed")


@pytest.mark.rule("D02")
def test_an_event_that_on_does_not_name_ends_the_pass() -> None:
    """Row 25."""
    condition = equals(ref("loop", "iteration"), 0)
    host = Host(
        plan(while_("w", condition, task("a", on=on(success="b")), task("b"), max_iterations=5)), {"a": 1}
    )
    host.run()
    assert host.ran() == ["w[0]/a", "w[1]/a"]
    assert host.last("w", "StepCompleted")["summary"]["failure_count"] == 2


@pytest.mark.rule("D18")
def test_a_skipped_step_goes_on_in_the_list_even_in_strict_flow() -> None:
    """Row 26."""
    host = Host(
        plan(
            task("a", when=NO, on=on(failure="_end")),
            task("b", on=on(success="_end")),
            discipline="strict",
        )
    ).run()
    assert host.ran() == ["b"]
    assert (host.ended, host.exit_code) == ("Completed", 0)


@pytest.mark.rule("D46")
def test_an_endless_goto_is_stopped_and_cannot_be_routed() -> None:
    """Row 27."""
    host = Host(plan(gate("a", on=on(success="a", failure="_end")), max_transitions=50)).run()
    assert (host.ended, host.exit_code, host.reason) == ("Failed", 1, "cycle_guard")
    assert host.events("Completed")[-1] == "a#51 Completed"


@pytest.mark.rule("D46")
def test_gotos_are_counted_per_iteration() -> None:
    """Row 27."""
    again = equals(ref("steps", "a", "visits"), 1)
    steps = (gate("a"), gate("b", again, on=on(success="a", failure="_loop_continue")))
    host = Host(plan(for_each("p", 200, *steps), max_transitions=2)).run()
    assert host.ended == "Completed"


@pytest.mark.rule("D46")
def test_a_run_has_a_last_resort_against_visits_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 27."""
    monkeypatch.setattr("podium.machine.routing.MAX_VISITS", 30)
    host = Host(plan(for_each("p", 200, gate("a"), gate("b")))).run()
    assert (host.ended, host.reason) == ("Failed", "cycle_guard")


@pytest.mark.rule("D16")
def test_a_while_condition_is_asked_at_entry_and_right_after_each_pass() -> None:
    """Row 28."""
    loop = while_("w", file("f"), task("a"), check_interval=10)
    host = Host(plan(loop, task("z"))).start()
    assert list(host.probes)
    assert host.ran() == []
    host.files = {"f"}
    host.answer_probes()
    assert host.ran() == ["w[0]/a"]
    host.end("w[0]/a")
    host.answer_probes()
    assert [key for key in host.timers if "interval" in key]
    host.fire(next(key for key in host.timers if "interval" in key))
    assert host.ran() == ["w[0]/a", "w[1]/a"]
    host.files = set()
    host.end("w[1]/a")
    host.answer_probes()
    assert host.ran()[-1] == "z"


@pytest.mark.rule("R062")
@pytest.mark.rule("D16")
@pytest.mark.parametrize("where", ["pass", "interval"])
def test_max_duration_interrupts_a_pass_or_an_interval(where: str) -> None:
    """Row 29."""
    loop = while_("w", YES, task("a"), check_interval=50, max_duration=30, on=on(timeout="z"))
    host = Host(plan(loop, task("z"))).start()
    if where == "interval":
        host.wait(10)
        host.end("w[0]/a")
    host.wait(31)
    if where == "pass":
        assert cancelled(host) == ["w[0]/a"]
        host.end("w[0]/a")
    assert host.timers == {}
    assert host.last("w", "StepFailed")["exitReason"] == "max_duration"
    assert host.ran()[-1] == "z"


@pytest.mark.rule("D71")
def test_a_retried_loop_runs_everything_again_with_its_limit_anew() -> None:
    """Row 30."""
    loop = for_each("p", 2, task("a"), timeout=60, retry=Retry(2, delay=5))
    host = Host(plan(loop)).start()
    host.end("p[0]/a")
    host.wait(61)
    host.end("p[1]/a")
    host.wait(5)
    assert host.ran() == ["p[0]/a", "p[1]/a", "p#2[0]/a"]
    host.wait(50)
    host.end("p#2[0]/a")
    host.end("p#2[1]/a")
    assert host.ended == "Completed"
    assert host.events("RetryScheduled") == ["p#1 RetryScheduled"]


@pytest.mark.rule("D71")
def test_a_retried_call_runs_everything_again() -> None:
    """Row 30."""
    host = Host(plan(call("c", workflow(task("a")), retry=Retry(2))), {"c/a": 1}).run()
    assert host.ran() == ["c/a", "c#2/a"]
    assert host.ended == "Completed"


# --- graphs ---------------------------------------------------------------------------------------


def test_a_stopping_failure_in_a_graph_starts_nothing_new() -> None:
    """Row 31."""
    steps = (
        task("a", error_action="stop"),
        task("b"),
        task("c", depends_on=("b",)),
        task("d", depends_on=("a",)),
        task("e", depends_on=("c",)),
    )
    host = Host(plan(graph("g", *steps))).start()
    host.end("g/a", 1)
    assert host.ran() == ["g/a", "g/b"]
    assert cancelled(host) == []
    host.end("g/b")
    assert host.ended == "Failed"
    assert sorted(host.events("Skipped")) == ["g/c#1 Skipped", "g/d#1 Skipped", "g/e#1 Skipped"]
    assert "g#1 Failed" in host.events()


@pytest.mark.rule("D65")
def test_a_failure_in_a_graph_skips_its_dependants_once_all_they_wait_for_has_ended() -> None:
    """Row 32."""
    steps = (
        task("a"),
        task("b"),
        task("c", depends_on=("a", "b")),
        task("d", depends_on=("c",)),
        task("e", depends_on=("b",)),
    )
    host = Host(plan(graph("g", *steps))).start()
    host.end("g/a", 1)
    assert host.events("Skipped") == []
    host.end("g/b")
    assert host.events("Skipped") == ["g/c#1 Skipped", "g/d#1 Skipped"]
    assert host.last("g/c", "StepSkipped")["reasonCode"] == "DEPENDENCY_FAILED"
    host.end("g/e")
    assert host.ended == "Failed"


@pytest.mark.rule("D65")
def test_a_step_skipped_by_condition_or_operator_satisfies_its_dependants() -> None:
    """Row 33."""
    steps = (
        task("a", when=NO),
        task("b", depends_on=("a",)),
        task("c", depends_on=("b",)),
        task("d", depends_on=("c",)),
    )
    host = Host(plan(graph("g", *steps))).start()
    host.signal("SKIP_STEP", stepId="g/c")
    host.end("g/b")
    assert host.ran() == ["g/b", "g/d"]
    host.end("g/d")
    assert host.ended == "Completed"


@pytest.mark.rule("D65")
def test_a_step_skipped_because_of_a_failure_does_not_satisfy_its_dependants() -> None:
    """Row 33."""
    steps = (task("a"), task("b", depends_on=("a",)), task("c", depends_on=("b",)))
    host = Host(plan(graph("g", *steps)), {"a": 1}).run()
    assert host.events("Skipped") == ["g/b#1 Skipped", "g/c#1 Skipped"]


@pytest.mark.rule("G39")
def test_a_retry_in_an_open_graph_takes_back_what_followed_from_the_failure() -> None:
    """Row 34."""
    steps = (
        task("a"),
        task("x"),
        task("open"),
        task("b", depends_on=("a",)),
        task("c", depends_on=("b", "x")),
    )
    host = Host(plan(graph("g", *steps))).start()
    host.end("g/a", 1)
    host.end("g/x", 1)
    assert host.events("Skipped") == ["g/b#1 Skipped", "g/c#1 Skipped"]
    host.signal("RETRY_STEP", stepId="g/a")
    assert ran(host)[-1] == "g/a#2"
    host.end("g/a")
    assert ran(host)[-1] == "g/b#2"
    host.end("g/b")
    assert host.events("Skipped")[-1] == "g/c#2 Skipped"  # its other parent has failed
    host.end("g/open")
    assert host.ended == "Failed"


def test_a_retry_while_a_stopping_graph_drains_lets_the_rest_begin() -> None:
    """Row 35."""
    steps = (task("a", error_action="stop"), task("b"), task("open"), task("c", depends_on=("b",)))
    host = Host(plan(graph("g", *steps))).start()
    host.end("g/a", 1)
    host.end("g/b")
    assert host.ran() == ["g/a", "g/b", "g/open"]
    host.signal("RETRY_STEP", stepId="g/a")
    assert sorted(host.ran()[3:]) == ["g/a", "g/c"]
    for path in ("g/a", "g/c", "g/open"):
        host.end(path)
    assert host.ended == "Completed"


def test_a_retry_while_another_stopping_failure_remains_lets_nothing_else_begin() -> None:
    """Row 35."""
    steps = (
        task("a", error_action="stop"),
        task("b", error_action="stop"),
        task("x"),
        task("open"),
        task("c", depends_on=("x",)),
    )
    host = Host(plan(graph("g", *steps))).start()
    for name in "ab":
        host.end(f"g/{name}", 1)
    host.end("g/x")
    host.signal("RETRY_STEP", stepId="g/a")
    assert "g/c" not in host.ran()


def test_a_retry_in_a_graph_that_is_being_stopped_is_ignored() -> None:
    """Row 35: a branch whose join is decided without it begins nothing more."""
    branch = graph("g", task("a"), task("open"))
    host = Host(plan(parallel("p", branch, task("quick"), join=Join("any")))).start()
    host.end("p/g/a", 1)
    host.end("p/quick")
    host.signal("RETRY_STEP", stepId="p/g/a")
    assert ignored(host) == 1
    assert "p/g/a#2" not in ran(host)
    host.run()
    assert host.ended == "Completed"


# --- operators ------------------------------------------------------------------------------------


def test_an_override_is_for_the_attempts_that_are_launched_after_it() -> None:
    """Row 49: `test_changed_steps.py` has every phase that it can find."""
    host = Host(plan(task("a", retry=Retry(attempts=2)))).start()
    host.signal("PAUSE")
    host.signal("INJECT_OVERRIDE", stepId="a", override={"timeout": 7})
    host.end("a", 1)
    host.fire()
    assert ran(host) == ["a#1"]
    host.signal("RESUME")
    timeouts = [one.step.timeout for one in host.commands if isinstance(one, RunTask)]
    assert timeouts == [None, 7]


def test_an_emergency_stop_without_force_asks_tasks_to_end() -> None:
    """Row 50."""
    host = Host(plan(task("a"), cleanup=(task("z"),))).start()
    host.signal("EMERGENCY_STOP", reason="fire", forceKill=False)
    assert not next(one for one in host.commands if isinstance(one, CancelTask)).force
    host.end("a")
    assert (host.ended, ran(host)) == ("Cancelled", ["a#1"])


def test_a_retry_of_a_running_step_or_of_one_that_was_left_is_ignored() -> None:
    """Row 36."""
    host = Host(plan(task("a"), task("b"))).start()
    host.signal("RETRY_STEP", stepId="a")
    assert ignored(host) == 1
    host.end("a")
    host.signal("RETRY_STEP", stepId="a")
    assert ignored(host) == 2
    assert ran(host) == ["a#1", "b#1"]


def test_a_skip_in_an_iteration_that_does_not_exist_is_ignored() -> None:
    """Row 37."""
    host = Host(plan(for_each("p", 3, task("a")))).start()
    host.signal("SKIP_STEP", stepId="p[1]/a")
    host.signal("SKIP_STEP", stepId="p[9]/a")
    host.signal("SKIP_STEP", stepId="p/a")
    assert ignored(host) == 3
    host.run()
    assert host.ran() == ["p[0]/a", "p[1]/a", "p[2]/a"]


def test_a_skip_of_a_step_that_was_not_reached_is_noted() -> None:
    """Row 37."""
    host = Host(plan(task("a"), task("b"), task("c"))).start()
    host.signal("SKIP_STEP", stepId="b")
    assert ignored(host) == 0
    host.end("a")
    assert host.last("b", "StepSkipped")["reasonCode"] == "OPERATOR_SKIP"
    assert host.ran() == ["a", "c"]


def test_nobody_is_asked_about_a_doubtful_task_that_is_being_stopped() -> None:
    """Row 38."""
    host = Host(plan(parallel("p", task("a"), task("b", **IN_DOUBT), join=ANY), task("z"))).start()
    host.begin("p/b")
    host.end("p/a")
    del host.tasks["p/b", 1]
    host.append(EventType.STEP_INTERRUPTED, "p/b", 1)
    assert host.ran()[-1] == "z"


def test_a_task_that_had_not_started_is_not_in_doubt() -> None:
    """Row 38."""
    host = Host(plan(task("a", **IN_DOUBT))).start()
    before = host.machine.outstanding()
    host.append(EventType.STEP_INTERRUPTED, "a", 1)
    assert host.machine.outstanding() == before


@pytest.mark.rule("G07")
def test_a_doubtful_task_that_may_be_retried_takes_its_next_attempt() -> None:
    """Row 39."""
    host = Host(plan(task("a", idempotent=False, on_doubt="retry"))).start()
    for attempt in (1, 2):
        host.begin("a", attempt)
        host.append(EventType.STEP_INTERRUPTED, "a", attempt)
        host.append(EventType.STEP_INTERRUPTED, "a", attempt)
    assert ran(host) == ["a#1", "a#2", "a#3"]
    host.end("a")
    assert host.ended == "Completed"


def test_a_rejection_with_a_target_is_a_counted_goto() -> None:
    """Row 40."""
    host = Host(plan(task("a"), approval("ok"), max_transitions=2)).start()
    for _ in range(2):
        host.end("a")
        host.signal("REJECT", stepId="ok", to="a")
    assert host.reason == "cycle_guard"
    assert host.ran() == ["a", "a"]


def test_a_rejection_with_a_target_in_a_graph_is_a_plain_one() -> None:
    """Row 40."""
    host = Host(plan(graph("g", task("a"), approval("ok", depends_on=("a",))))).start()
    host.end("g/a")
    host.signal("REJECT", stepId="g/ok", to="a")
    assert host.ran() == ["g/a"]
    assert host.ended == "Failed"


# --- finally --------------------------------------------------------------------------------------


@pytest.mark.rule("D66")
def test_a_failing_finally_turns_a_success_into_a_failure_and_goes_on() -> None:
    """Row 41."""
    host = Host(plan(task("a"), cleanup=(task("c"), task("d"))), {"c": 1}).run()
    assert host.ran() == ["a", "_finally/c", "_finally/d"]
    assert (host.ended, host.exit_code) == ("Failed", 1)


@pytest.mark.rule("R069")
@pytest.mark.rule("D66")
def test_a_failing_finally_changes_no_other_code() -> None:
    """Row 41."""
    host = Host(plan(task("a", on=on(success="_end")), cleanup=(task("c"),)), {"a": 1, "c": 1}).run()
    assert (host.ended, host.exit_code) == ("Failed", 4)
    host = Host(plan(task("a"), cleanup=(task("c"),))).start()
    host.signal("CANCEL")
    host.end("a")
    host.end("_finally/c", 1)
    assert (host.ended, host.exit_code) == ("Cancelled", 2)


@pytest.mark.rule("D66")
def test_finally_has_a_limit_of_its_own() -> None:
    """Row 41."""
    host = Host(plan(task("a"), cleanup=(task("c"),))).start()
    host.end("a")
    host.wait(601)
    assert cancelled(host) == ["_finally/c"]
    host.end("_finally/c")
    assert (host.ended, host.exit_code) == ("Failed", 1)


@pytest.mark.parametrize("how", ["join", "cancel"])
def test_a_stopped_call_cleans_up_before_its_parent_closes(how: str) -> None:
    """Row 42."""
    inner = call("c", workflow(task("a"), cleanup=(task("f"),)))
    host = Host(plan(parallel("p", inner, task("b"), join=ANY), task("z"))).start()
    if how == "join":
        host.end("p/b")
    else:
        host.signal("CANCEL")
        host.end("p/b")
    host.end("p/c/a")
    assert host.ran()[-1] == "p/c/_finally/f"
    assert "z" not in host.ran()
    assert not host.machine.terminal
    host.end("p/c/_finally/f")
    if how == "join":
        assert host.ran()[-1] == "z"
    else:
        assert host.ended == "Cancelled"


@pytest.mark.rule("D66")
def test_the_run_timeout_does_not_apply_in_finally() -> None:
    """Row 43."""
    host = Host(plan(task("a"), cleanup=(task("c"),), timeout=60)).start()
    host.wait(50)
    host.end("a")
    host.wait(100)
    assert cancelled(host) == []
    host.end("_finally/c")
    assert (host.ended, host.exit_code) == ("Completed", 0)


@pytest.mark.rule("R068")
@pytest.mark.rule("R069")
@pytest.mark.rule("D09")
@pytest.mark.rule("D66")
def test_a_run_timeout_runs_finally_and_ends_with_3() -> None:
    """Row 43."""
    host = Host(plan(task("a"), cleanup=(task("c"),), timeout=60)).start()
    host.wait(61)
    host.end("a")
    host.end("_finally/c")
    assert (host.ended, host.exit_code, host.reason) == ("Failed", 3, "timeout")


# --- conditions, clocks, the log ------------------------------------------------------------------


@pytest.mark.rule("D22")
@pytest.mark.rule("D17")
def test_a_condition_that_cannot_be_evaluated_fails_the_step_without_tries() -> None:
    """Row 44."""
    host = Host(plan(task("a", when=raising(), retry=Retry(3), on=on(failure="z")), task("z"))).run()
    assert host.ran() == ["z"]
    failed = host.last("a", "StepFailed")
    assert (failed["exitCode"], failed["error"]["category"]) == (125, "USER")


@pytest.mark.rule("D22")
@pytest.mark.rule("D17")
def test_a_loop_whose_condition_or_items_cannot_be_evaluated_fails() -> None:
    """Row 44."""
    host = Host(plan(while_("w", raising(), task("a"), on=on(failure="z")), task("z"))).run()
    assert host.ran() == ["z"]
    assert host.last("w", "StepFailed")["exitCode"] == 125
    missing = for_each("p", ref("context", "none"), task("a"), on=on(failure="z"))
    host = Host(plan(missing, task("z"))).run()
    assert host.ran() == ["z"]
    assert host.last("p", "StepFailed")["exitCode"] == 125


@pytest.mark.rule("D70")
def test_a_condition_in_a_graph_may_only_name_its_ancestors() -> None:
    """Row 45."""
    reading = read_workflow(
        b"""
name: test
version: "2.0"
steps:
  - name: a
    command: [x]
  - name: b
    command: [x]
    depends_on: [a]
  - name: c
    command: [x]
    depends_on: [a]
    when: {step_ok: b}
""",
        "test.yaml",
    )
    assert reading.plan is None


def test_time_never_runs_back_and_a_fired_timer_is_due() -> None:
    """Row 46."""
    host = Host(plan(task("a", retry=Retry(2, delay=30)))).start()
    host.wait(100)
    late = host.now
    host.append("Unknown")
    host.now = "2020-01-01T00:00:00.000000Z"
    host.end("a", 1)
    assert host.machine.now == late
    (key,) = host.timers
    due = host.timers.pop(key)
    host.append(EventType.TIMER_FIRED, None, 1, key=key)
    assert host.machine.now == due > late
    assert ran(host) == ["a#1", "a#2"]


def test_every_attempt_begun_or_scheduled_has_its_end_in_the_log() -> None:
    """Row 47."""
    inner = group("g", task("b", retry=Retry(3)), approval("d"))
    steps = (task("a", retry=Retry(2)), inner, while_("w", YES, task("x"), check_interval=9), approval("q"))
    host = Host(plan(parallel("p", *steps), cleanup=(task("c"),))).start()
    host.begin("p/a")
    host.end("p/a", 1)
    host.end("p/g/b", 1)
    host.end("p/w[0]/x")
    host.signal("CANCEL")
    host.run()
    assert host.ended == "Cancelled"
    assert unended(host) == []


def unended(host: Host) -> list[tuple[str, int]]:
    """Attempts that were begun or announced and have no end in the log."""
    open_attempts: dict[tuple[str, int], None] = {}
    for index, record in enumerate(host.log):
        if record.step_id is None:
            continue
        key = (record.step_id, record.logical_attempt_id)
        if record.event_type == EventType.STEP_RETRY_SCHEDULED:
            open_attempts[record.step_id, host.payload(index)["nextAttempt"]] = None
        elif record.event_type == EventType.STEP_STARTED:
            open_attempts[key] = None
        else:
            open_attempts.pop(key, None)
    return list(open_attempts)


# --- reopening ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["failure", "cancel", "timeout", "emergency"])
@pytest.mark.rule("G51")
def test_a_reopened_run_goes_on_where_its_verdict_fell(how: str) -> None:
    """Row 48."""
    host = Host(plan(task("a"), task("b"), task("c"), cleanup=(task("f"),), timeout=60)).start()
    host.end("a")
    if how == "failure":
        host.end("b", 1)
    elif how == "timeout":
        host.wait(61)
    else:
        host.signal("CANCEL" if how == "cancel" else "EMERGENCY_STOP", reason="enough")
    host.run()
    assert host.ended in ("Failed", "Cancelled")
    host.append(EventType.RUN_REOPENED, None, 2)
    assert ran(host)[-1] == "b#2"
    host.wait(50)
    host.run()
    assert host.ended == "Completed"
    assert ran(host)[-3:] == ["b#2", "c#1", "_finally/f#1" if how == "emergency" else "_finally/f#2"]
    assert host.log[-1].logical_attempt_id == 2


@pytest.mark.rule("G51")
@pytest.mark.parametrize("how", ["RunCancelled", "RunFailed"])
def test_a_run_that_ended_before_its_start_still_has_to_start_when_it_is_reopened(how: str) -> None:
    """Row 10."""
    host = Host(plan(task("a")))
    if how == "RunCancelled":
        host.signal("CANCEL")
    else:
        host.append(EventType.RUN_FAILED, None, 1)
    assert host.machine.terminal
    host.append(EventType.RUN_REOPENED, None, 2)
    assert [one.kind for one in host.machine.obligations()] == ["start"]
    assert host.start().run().ended == "Completed"


@pytest.mark.rule("G51")
def test_a_completed_run_is_not_reopened() -> None:
    """Row 48."""
    host = Host(plan(task("a"))).run()
    host.append(EventType.RUN_REOPENED, None, 2)
    assert host.machine.terminal
    assert host.machine.outstanding() == []


@pytest.mark.rule("G51")
def test_a_reopened_run_keeps_what_was_finished() -> None:
    """Row 48."""
    loop = for_each("p", 4, task("a"), task("b"), workers=2)
    host = Host(plan(loop, parallel("q", task("x"), task("y")))).start()
    host.end("p[0]/a")
    host.end("p[0]/b")
    host.end("p[1]/a")
    host.signal("CANCEL")
    host.run()
    host.append(EventType.RUN_REOPENED, None, 2)
    host.run()
    assert host.ended == "Completed"
    assert set(ran(host)[:5]) == {"p[0]/a#1", "p[1]/a#1", "p[0]/b#1", "p[2]/a#1", "p[1]/b#1"}
    assert ran(host)[5:7] == ["p[1]/b#2", "p[2]/a#2"]
    assert host.last("p", "StepCompleted")["summary"]["success_count"] == 4


def test_a_reopened_run_takes_up_a_graph_and_repeats_only_its_failure() -> None:
    """Row 48."""
    steps = (task("a"), task("b"), task("c", depends_on=("a", "b")))
    host = Host(plan(*steps, discipline="graph"), {"b": [1, 0]}).run()
    assert host.ended == "Failed"
    host.append(EventType.RUN_REOPENED, None, 2)
    host.run()
    assert ran(host) == ["a#1", "b#1", "b#2", "c#2"]
    assert host.ended == "Completed"


def test_a_reopened_run_that_an_error_in_a_graph_ended_can_complete() -> None:
    """Row 48."""
    steps = (task("a", on=on(failure="!no")), task("b", depends_on=("a",)))
    host = Host(plan(*steps, discipline="graph"), {"a": [1, 0]}).run()
    host.append(EventType.RUN_REOPENED, None, 2)
    host.run()
    assert host.ended == "Completed"


def test_a_reopened_graph_repeats_the_step_whose_failure_ended_the_run() -> None:
    """Row 48."""
    steps = (task("a", on=on(failure="!no")), task("b", depends_on=("a",)))
    host = Host(plan(*steps, discipline="graph"), {"a": 1}).run()
    host.append(EventType.RUN_REOPENED, None, 2)
    assert ran(host) == ["a#1", "a#2"]


def test_a_reopened_graph_takes_up_what_a_stopping_failure_held_back() -> None:
    """Row 48."""
    steps = (
        task("a", error_action="stop"),
        task("b"),
        task("c", depends_on=("b",)),
        task("d", depends_on=("c",)),
    )
    host = Host(plan(*steps, discipline="graph"), {"a": [1, 0]}).start()
    host.end("a", 1)
    host.end("b")
    assert host.ended == "Failed"
    host.append(EventType.RUN_REOPENED, None, 2)
    host.run()
    assert ran(host) == ["a#1", "b#1", "a#2", "c#2", "d#2"]
    assert host.ended == "Completed"


def test_a_step_that_ended_while_paused_stays_ended_when_a_cancelled_run_is_reopened() -> None:
    """Row 48."""
    host = Host(plan(task("a"), task("b"))).start()
    host.signal("PAUSE")
    host.end("a")
    host.signal("CANCEL")
    host.append(EventType.RUN_REOPENED, None, 2)
    assert ran(host) == ["a#1", "b#1"]


def test_a_reopened_run_asks_a_condition_that_was_not_answered() -> None:
    """Row 48."""
    host = Host(plan(task("a", when=file("f")))).start()
    host.signal("CANCEL")
    host.append(EventType.RUN_REOPENED, None, 2)
    assert ran(host) == []
    host.answer_probes()
    assert host.ended == "Completed"


def test_a_run_that_only_its_finally_failed_repeats_only_that() -> None:
    """Row 48."""
    host = Host(plan(task("a"), cleanup=(task("c"),)), {"c": [1, 0]}).run()
    assert host.ended == "Failed"
    host.append(EventType.RUN_REOPENED, None, 2)
    host.run()
    assert [path.split("#")[0] for path in ran(host)] == ["a", "_finally/c", "_finally/c"]
    assert len(set(ran(host))) == 3


def test_a_reopened_run_keeps_the_finally_of_a_call_that_went_on_after_the_cancel() -> None:
    """Row 48."""
    inner = call("c", workflow(task("a"), cleanup=(task("f"), task("g"))))
    host = Host(plan(inner)).start()
    host.end("c/a")
    host.signal("CANCEL")
    host.end("c/_finally/f")
    host.end("c/_finally/g")
    host.append(EventType.RUN_REOPENED, None, 2)
    assert ran(host) == ["c/a#1", "c/_finally/f#1", "c/_finally/g#1"]
    assert host.ended == "Completed"


def test_a_reopened_run_asks_again_about_a_doubtful_step() -> None:
    """Row 48."""
    host = Host(plan(task("a", **IN_DOUBT), task("b"))).start()
    host.begin("a")
    del host.tasks["a", 1]
    host.append(EventType.STEP_INTERRUPTED, "a", 1)
    host.signal("CANCEL")
    host.append(EventType.RUN_REOPENED, None, 2)
    assert ran(host) == ["a#1"]
    host.signal("APPROVE", stepId="a")
    assert ran(host) == ["a#1", "b#1"]


def test_a_reopened_run_keeps_the_verdict_of_a_join_that_was_decided() -> None:
    """Row 48."""
    host = Host(plan(parallel("p", task("a"), task("b"), join=ANY), task("z"))).start()
    host.end("p/a")
    host.signal("CANCEL")
    host.end("p/b")
    assert host.ended == "Cancelled"
    host.append(EventType.RUN_REOPENED, None, 2)
    assert ran(host)[2:] == ["z#1"]
    assert host.last("p", "StepCompleted")["summary"]["success_count"] == 1


def test_a_reopened_run_goes_on_with_the_next_item_after_one_that_was_being_left() -> None:
    """Row 48."""
    body = parallel("p", task("a", on=on(success="_loop_continue")), task("b"))
    host = Host(plan(for_each("l", 2, body))).start()
    host.end("l[0]/p/a")
    host.signal("CANCEL")
    host.end("l[0]/p/b")
    host.append(EventType.RUN_REOPENED, None, 2)
    assert ran(host)[2:] == ["l#2[1]/p/a#1", "l#2[1]/p/b#1"]


def test_a_reopened_loop_asks_its_condition_again() -> None:
    """Row 48."""
    host = Host(plan(while_("w", YES, task("a"), check_interval=50, max_iterations=2))).start()
    host.end("w[0]/a")
    host.signal("CANCEL")
    assert host.ended == "Cancelled"
    host.append(EventType.RUN_REOPENED, None, 2)
    host.wait(51)
    assert ran(host)[1:] == ["w#2[1]/a#1"]


def test_a_closing_call_of_a_reopened_run_keeps_the_cleanup_that_followed_the_cancel() -> None:
    """Row 48."""
    steps = parallel("p", task("a", on=on(success="_end")), task("b"))
    host = Host(plan(call("c", workflow(steps, cleanup=(task("f"),))))).start()
    host.end("c/p/a")
    host.signal("CANCEL")
    host.end("c/p/b")
    host.end("c/_finally/f")
    host.append(EventType.RUN_REOPENED, None, 2)
    assert ran(host) == ["c/p/a#1", "c/p/b#1", "c/_finally/f#1"]
    assert host.ended == "Completed"


def test_a_run_that_was_cancelled_before_its_start_begins_when_it_is_reopened() -> None:
    """Row 48."""
    host = Host(plan(task("a")))
    host.signal("CANCEL")
    host.append(EventType.RUN_REOPENED, None, 2)
    host.start()
    assert ran(host) == ["a#1"]


# --- the table itself -----------------------------------------------------------------------------


def test_every_row_of_the_table_has_a_test() -> None:
    tested = re.findall(r'"""Row (\d+)[.:]', Path(__file__).read_text())
    rows = re.findall(r"^\| (\d+) \|", PAGE.read_text(), re.MULTILINE)

    assert rows == [str(number) for number in range(1, len(rows) + 1)]
    assert set(tested) == set(rows)


def test_the_phases_that_wait_are_those_of_the_table() -> None:
    assert {phase.name for phase in Phase} == {
        "NEW", "READY", "PROBE", "COND", "RUN", "BACKOFF", "INTERVAL", "ASK", "HELD", "DOUBT", "OPEN", "SETTLED",
        "DONE", "AWAITING_BUDGET",
    }  # fmt: skip
