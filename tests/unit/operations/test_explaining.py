"""An open run always waits for something, and `podium why` names it, with its deadline and what to do."""

import asyncio
from datetime import UTC, datetime

import pytest

from podium.log.events import EventType, RunIdentity
from podium.log.ids import RunId
from podium.log.runs import Backpressure, NewRun
from podium.machine.commands import RunTask
from podium.operations.explaining import Reason, explain_run, reasons_of
from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock
from tests.unit.machine.hosting import Host, plan_of


def why(host: Host) -> list[Reason]:
    return list(reasons_of(host.machine, "r1"))


def texts(host: Host) -> list[str]:
    return [reason.text for reason in why(host)]


def test_a_step_that_has_not_begun_waits_for_a_slot() -> None:
    assert texts(Host("steps: [{name: Build, command: [make]}]").start()) == [
        "step 'Build' waits for a slot: the maximum number of tasks is running"
    ]


def test_a_running_step_is_named_with_its_attempt() -> None:
    host = Host("steps: [{name: Build, command: [make], retry: {attempts: 3, delay: 1}}]").start()
    host.begin("Build")
    host.end("Build", 1)
    host.fire()
    host.begin("Build", 2)
    (reason,) = why(host)
    assert reason.text == "step 'Build' (attempt 2) is running"
    assert reason.next_step == "podium logs r1 Build"


def test_the_delay_before_the_next_try_has_a_deadline() -> None:
    host = Host("steps: [{name: Build, command: [make], retry: {attempts: 2, delay: 30}}]").start()
    host.end("Build", 1)
    (reason,) = why(host)
    assert (reason.text, reason.deadline) == (
        "step 'Build' waits for the next try",
        "2026-01-01T12:00:30.000000Z",
    )
    assert reason.next_step == "podium retry-step r1 Build"


def test_the_interval_of_a_loop_has_a_deadline() -> None:
    host = Host("""
        steps:
          - name: Poll
            while:
              condition: true
              check_interval: 10
              steps: [{name: ask, command: [curl]}]
        """).start()
    host.end("Poll[0]/ask")
    reasons = {reason.kind: reason for reason in why(host)}
    assert reasons["timer"].text == "step 'Poll' waits for the next pass"
    assert reasons["timer"].deadline == "2026-01-01T12:00:10.000000Z"
    assert reasons["limit"].deadline == "2026-01-01T13:00:00.000000Z"


def test_a_join_waits_for_its_branches_and_its_limit() -> None:
    host = Host("""
        steps:
          - name: Both
            parallel: [{name: left, command: [a]}, {name: right, command: [b]}]
            join: {timeout: 60}
        """).start()
    host.begin("Both/left")
    host.end("Both/left")
    host.begin("Both/right")
    assert texts(host) == [
        "step 'Both' is in progress until its limit",
        "step 'Both/right' is running",
    ]


def test_an_approval_names_who_is_to_be_asked_and_until_when() -> None:
    host = Host("steps: [{name: Ask, approval: {message: Ship it?, timeout: 60}}]").start()
    (reason,) = why(host)
    assert (reason.text, reason.deadline) == ("step 'Ask' waits for a person", "2026-01-01T12:01:00.000000Z")
    assert reason.next_step == "podium approve r1 Ask or podium reject r1 Ask"


def test_a_paused_run_says_so_first_and_what_still_runs() -> None:
    host = Host("steps: [{name: Build, command: [make]}, {name: Test, command: [make]}]").start()
    host.begin("Build")
    host.signal("PAUSE")
    assert texts(host) == [
        "the run is paused",
        "step 'Build' still runs; what follows it waits until the run is resumed",
    ]
    host.end("Build")
    assert texts(host) == ["the run is paused"]


def test_a_used_up_budget_is_named() -> None:
    def expensive(_task: RunTask) -> dict[str, object]:
        return {"exitCode": 0, "usage": {"costUsd": 3.0}}

    host = Host(
        """
        budget: {usd: 2}
        steps:
          - {name: one, provider: echo, prompt: hi}
          - {name: two, provider: echo, prompt: hi}
        """,
        expensive,
    ).run()
    assert texts(host) == [
        "BUDGET_EXCEEDED: the budget of the run does not pay for step 'two': 3 of 2 dollars are spent and it may take 3"
    ]
    (reason,) = why(host)
    assert reason.next_step.startswith("podium resume r1 --budget ")


def test_who_waits_for_what_others_will_cost_says_so() -> None:
    host = Host("""
        budget: {usd: 2}
        steps:
          - name: Both
            parallel:
              - {name: one, provider: echo, prompt: hi}
              - {name: two, provider: echo, prompt: hi}
        """).start()
    host.begin("Both/one")
    assert texts(host) == [
        "step 'Both/one' is running",
        "step 'Both/two' waits until the running agents have reported what they cost",
    ]


def test_a_step_in_doubt_asks_a_person() -> None:
    host = Host("steps: [{name: Pay, command: [pay], idempotent: false}]").start()
    host.begin("Pay")
    host.append(EventType.STEP_INTERRUPTED, "Pay")
    (reason,) = why(host)
    assert reason.text == "step 'Pay' was interrupted, and it is not known whether it happened"


def test_a_failed_step_with_an_operator_window_waits_for_somebody() -> None:
    host = Host("steps: [{name: Build, command: [make], retry: {operator: 600}}]").start()
    host.end("Build", 1)
    (reason,) = why(host)
    assert reason.text == "step 'Build' has failed and waits for an operator to retry or skip it"
    assert reason.deadline == "2026-01-01T12:10:00.000000Z"


def test_a_step_that_is_being_stopped_is_named() -> None:
    host = Host("steps: [{name: Build, command: [make]}]").start()
    host.begin("Build")
    host.signal("CANCEL")
    assert texts(host) == ["step 'Build' is being stopped"]


@pytest.mark.parametrize(
    ("new", "text"),
    [
        ({}, "it waits in the queue; no process has started it"),
        ({"concurrency_key": "prod"}, "it waits in the queue; no process has started it"),
        (
            {"backpressure": Backpressure.DELAY, "start_at": "2030-01-01T00:00:00.000000Z"},
            "its start was delayed",
        ),
    ],
)
def test_a_run_that_has_not_begun_says_why(new: dict[str, object], text: str) -> None:
    async def scenario() -> None:
        store = MemoryStore(VirtualClock())
        identity = RunIdentity(
            run_id=RunId("r1"),
            tenant_id="default",
            project_id="default",
            environment_id="local",
            plan_id="p",
            plan_version="1",
        )
        created = await store.create_run(NewRun(identity=identity, **new), [])  # type: ignore[arg-type]
        plan = plan_of("steps: [{name: Build, command: [make]}]")
        explained = await explain_run(store, created.run, plan, datetime(2026, 1, 1, tzinfo=UTC))
        assert [reason.text for reason in explained.reasons] == [text]

    asyncio.run(scenario())
