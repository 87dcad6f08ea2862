"""A run that ended because of a step that completed: reopened, it routes the outcome again and repeats nothing."""

from typing import Any

import pytest

from podium.log.events import EventType
from podium.machine import Machine
from podium.machine.commands import RunTask
from podium.plan.plan import Step
from tests.unit.machine.building import YES, call, group, on, parallel, plan, ref, task, while_, workflow
from tests.unit.machine.hosting import Host, replayed, restored


def ran(host: Host) -> list[str]:
    return [f"{one.path}#{one.attempt}" for one in host.commands if isinstance(one, RunTask)]


def reopen(host: Host, opening: int = 2) -> Host:
    assert host.ended == "Failed", host.events()
    host.machine = restored(host)
    host.append(EventType.RUN_REOPENED, None, opening)
    assert replayed(host).outstanding() == host.machine.outstanding()
    return host


@pytest.mark.rule("G51")
@pytest.mark.parametrize("discipline", ["strict", "implied", "graph"])
def test_a_completed_step_whose_handler_ended_the_run_is_not_done_again(discipline: str) -> None:
    steps = (task("a"), task("b", on=on(success="!no")))
    if discipline == "strict":
        steps = (task("a", on=on(success="b")), task("b", on=on(success="!no")))
    host = Host(plan(*steps, discipline=discipline)).run()
    reopen(host).run()
    assert host.ended == "Failed"
    assert ran(host) == ["a#1", "b#1"]
    assert host.payload(-1) == host.payload(-3)
    reopen(host, 3).run()
    assert ran(host) == ["a#1", "b#1"]


@pytest.mark.rule("G51")
def test_a_completed_step_without_a_transition_is_not_done_again() -> None:
    host = Host(plan(task("a", on=on(failure="a")), discipline="strict")).run()
    reopen(host).run()
    assert host.ended == "Failed"
    assert host.payload(-1)["reason"] == "no_transition"
    assert ran(host) == ["a#1"]


@pytest.mark.rule("G51")
def test_a_failed_step_without_a_transition_runs_again() -> None:
    host = Host(plan(task("a", on=on(success="_end")), discipline="strict"), {"a": [1, 0]}).run()
    reopen(host).run()
    assert host.ended == "Completed"
    assert ran(host) == ["a#1", "a#2"]


def test_a_failure_that_is_allowed_is_routed_again_as_the_success_it_counts_for() -> None:
    host = Host(plan(task("a", allow_failure=True, on=on(success="!no"))), {"a": 1}).run()
    reopen(host).run()
    assert host.ended == "Failed"
    assert ran(host) == ["a#1"]


def test_only_error_and_finally_run_again_after_a_completed_step_aimed_at_error() -> None:
    host = Host(plan(task("a", on=on(success="_error")), error=task("_error"), cleanup=(task("f"),))).run()
    reopen(host).run()
    assert ran(host) == ["a#1", "_error#1", "_finally/f#1", "_error#2", "_finally/f#2"]


def test_what_runs_beside_a_completed_step_that_ended_the_run_is_stopped_again() -> None:
    ending = task("a", on=on(success="!no"))
    host = Host(plan(parallel("p", group("one", ending), group("two", task("slow"))))).start()
    host.begin("p/one/a")
    host.begin("p/two/slow")
    host.end("p/one/a", {"exitCode": 0})
    host.end("p/two/slow")
    reopen(host).run()
    assert host.ended == "Failed"
    assert ran(host) == ["p/one/a#1", "p/two/slow#1"]


def test_a_loop_left_by_goto_into_the_cycle_guard_is_not_done_again() -> None:
    steps = (
        task("a", max_visits=1),
        while_("l", YES, task("b", on=on(success="a")), max_iterations=3),
        task("c"),
    )
    host = Host(plan(*steps)).run()
    assert host.payload(-1)["reason"] == "cycle_guard"
    reopen(host).run()
    assert host.payload(-1)["reason"] == "cycle_guard"
    assert ran(host) == ["a#1", "l[0]/b#1"]


def test_a_completed_step_of_finally_that_ended_it_is_not_done_again() -> None:
    host = Host(plan(task("a"), cleanup=(task("f", on=on(success="!no")),))).run()
    reopen(host).run()
    assert host.ended == "Failed"
    assert ran(host) == ["a#1", "_finally/f#1"]


def test_in_a_call_that_its_completed_step_has_failed_the_outcome_is_routed_again_too() -> None:
    inner = workflow(task("a", on=on(success="!no")))
    host = Host(plan(call("c", inner))).run()
    reopen(host).run()
    assert host.ended == "Failed"
    assert ran(host) == ["c/a#1"]


@pytest.mark.rule("G51")
def test_the_outcome_is_routed_by_the_handlers_of_the_workflow_that_the_run_is_continued_with() -> None:
    def made(target: str) -> Any:
        read: Step = task("b", ref("steps", "a", "output"))
        return plan(task("a", on=on(success=target)), read)

    host = Host(made("!no")).start()
    host.end("a", {"exitCode": 0, "output": "kept"})
    assert host.ended == "Failed"
    changed = Machine(made("b"))
    for record in host.log:
        changed.advance(record)
    host.machine = changed
    host.append(EventType.RUN_REOPENED, None, 2)
    assert [one.values for one in host.tasks.values()] == [{("steps", "a", "output"): "kept"}]
    host.run()
    assert host.ended == "Completed"
