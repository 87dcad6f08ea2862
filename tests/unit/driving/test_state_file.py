"""`state.json` is a fold of the log: its keys, its statuses, and what it keeps of long loops (D59)."""

import asyncio
import json
import time
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from podium.log.events import EventRecord, EventType
from podium.machine import Machine
from podium.machine.commands import Report, ScopeReport
from podium.plan.plan import Plan
from podium.runtime.rundir import RunDirectory
from podium.runtime.state_file import StateFile
from podium.runtime.state_fold import StateFold
from podium.runtime.state_tree import MAX_ITERATIONS
from tests.torture.views import ReportingMachine, views_agree
from tests.unit.driving.corpus import CORPUS, plan_named
from tests.unit.driving.scripted import Scripted, memory
from tests.unit.machine.hosting import START, Host, plan_of, record_of

TOP = {
    "run_id",
    "status",
    "started_at",
    "completed_at",
    "context",
    "steps",
    "secrets",
    "current_step",
    "error",
    "exit_code",
    "reason",
}
STEP = {
    "status",
    "exit_code",
    "output",
    "stderr_tail",
    "duration",
    "completed_at",
    "skipped",
    "timed_out",
    "truncated",
    "output_bytes",
    "visits",
    "attempts",
    "error",
    "usage",
    "session",
}


def folded(host: Host, *, upto: int | None = None) -> dict[str, Any]:
    """The state after the events of a host, as JSON would say it."""
    machine = ReportingMachine(host.plan)
    fold = StateFold(host.plan, "r1")
    for record in host.log[:upto]:
        fold.fold(record, machine.advance(record))
    state: dict[str, Any] = json.loads(json.dumps(fold.state()))
    return state


def ran(text: str, outcomes: Any = None) -> dict[str, Any]:
    return folded(Host(text, outcomes).run())


# --- the run --------------------------------------------------------------------------------------


@pytest.mark.rule("D59", "R072")
def test_the_keys_are_those_that_were_agreed() -> None:
    state = ran("secrets: [TOKEN]\ncontext: {k: 1}\nsteps: [{name: A, command: [x]}]")
    assert set(state) == TOP
    assert set(state["steps"]["A"]) == STEP
    assert state["secrets"] == ["TOKEN"]
    assert state["context"] == {"k": 1}
    assert (state["run_id"], state["status"], state["exit_code"]) == ("r1", "completed", 0)
    assert state["current_step"] is None
    assert state["started_at"] == START


@pytest.mark.rule("D48", "D59", "R073")
def test_the_status_of_a_run_that_is_open() -> None:
    host = Host(
        "steps: [{name: A, command: [x]}, {name: Ask, approval: go on?}, {name: B, command: [x]}]"
    ).start()
    host.begin("A")
    state = folded(host)
    assert (state["status"], state["current_step"], state["completed_at"]) == ("running", "A", None)
    host.signal("PAUSE")
    assert folded(host)["status"] == "paused"
    host.signal("RESUME")
    assert folded(host)["status"] == "running"
    host.end("A")
    state = folded(host)
    assert (state["status"], state["steps"]["Ask"]["status"]) == ("waiting", "waiting")
    host.signal("APPROVE")
    assert folded(host)["status"] == "running"


@pytest.mark.rule("D48", "D59")
@pytest.mark.parametrize(
    ("text", "outcomes", "status", "code", "reason", "error"),
    [
        ("steps: [{name: A, command: [x]}]", None, "completed", 0, None, None),
        (
            "steps: [{name: A, command: [x]}]",
            {"A": 3},
            "failed",
            1,
            "step_failed",
            "step 'A' failed: exit code 3",
        ),
        (
            "steps: [{name: A, command: [x], on: {success: {error: 'no ${run.name}?'}}}]",
            None,
            "failed",
            1,
            "error",
            "no ?",
        ),
        (
            "steps: [{name: A, command: [x], on: {success: {end: true}}}]",
            {"A": 1},
            "failed",
            4,
            "no_transition",
            "step 'A' ended with failure, which its 'on' does not name",
        ),
        (
            "steps: [{name: A, command: [x]}]",
            {
                "A": {
                    "error": {"category": "USER", "code": "INTERNAL_ERROR", "message": "defect"},
                    "exitCode": 125,
                }
            },
            "error",
            1,
            "step_failed",
            "step 'A' failed: defect",
        ),
    ],
)
def test_how_a_run_has_ended(
    text: str, outcomes: Any, status: str, code: int, reason: str | None, error: str | None
) -> None:
    host = Host(text, outcomes, run={"name": ""}).run()
    state = folded(host)
    assert (state["status"], state["exit_code"], state["reason"]) == (status, code, reason)
    assert state["error"] == error
    assert state["completed_at"] is not None


@pytest.mark.rule("D48", "D59")
def test_a_run_out_of_time_and_a_cancelled_one() -> None:
    late = Host("timeout: 5\nsteps: [{name: A, command: [x]}]", lambda _task: None).start()
    late.begin("A")
    late.wait(6)
    late.end("A")
    state = folded(late)
    assert (state["status"], state["exit_code"], state["steps"]["A"]["status"]) == ("timeout", 3, "cancelled")
    stopped = Host("steps: [{name: A, command: [x]}]", lambda _task: None).start()
    stopped.signal("CANCEL")
    stopped.end("A")
    state = folded(stopped)
    assert (state["status"], state["exit_code"], state["error"]) == ("cancelled", 2, None)


@pytest.mark.rule("D59")
def test_a_step_that_timed_out_does_not_make_a_run_that_timed_out() -> None:
    host = Host("steps: [{name: A, command: [x]}]", lambda _task: None).start()
    host.time_out("A")
    state = folded(host)
    assert (state["status"], state["exit_code"]) == ("failed", 1)
    assert (state["steps"]["A"]["timed_out"], state["steps"]["A"]["exit_code"]) == (True, 124)


@pytest.mark.rule("D59")
def test_a_reopened_run_is_open_again() -> None:
    host = Host("steps: [{name: A, command: [x]}, {name: B, command: [x]}]", {"B": [1, 0]}).run()
    assert folded(host)["status"] == "failed"
    host.append(EventType.RUN_REOPENED, None, 2)
    state = folded(host)
    assert (state["status"], state["exit_code"], state["error"], state["completed_at"]) == (
        "running",
        None,
        None,
        None,
    )
    host.run()
    state = folded(host)
    assert (state["status"], state["steps"]["B"]["attempts"]) == ("completed", 2)


# --- steps ----------------------------------------------------------------------------------------


@pytest.mark.rule("D59", "R074")
def test_what_a_step_has_left() -> None:
    facts = {
        "exitCode": 0,
        "output": "hé\n",
        "stderrTail": "warn\n",
        "durationMs": 1500,
        "truncated": True,
        "outputBytes": 9999,
        "usage": {"tokens": 3},
        "session": "s-1",
    }
    step = ran("steps: [{name: A, command: [x]}]", {"A": facts})["steps"]["A"]
    assert step == {
        "status": "completed",
        "exit_code": 0,
        "output": "hé\n",
        "stderr_tail": "warn\n",
        "duration": 1.5,
        "completed_at": START,
        "skipped": False,
        "timed_out": False,
        "truncated": True,
        "output_bytes": 9999,
        "visits": 1,
        "attempts": 1,
        "error": None,
        "usage": {"tokens": 3},
        "session": "s-1",
    }


@pytest.mark.rule("D59")
def test_a_step_that_never_started_has_no_entry_and_a_skipped_one_has() -> None:
    text = """
    steps:
      - {name: A, command: [x], when: false}
      - {name: B, command: [x], on: {success: {end: true}}}
      - {name: C, command: [x]}
    """
    state = ran(text)
    assert list(state["steps"]) == ["A", "B"]
    assert (state["steps"]["A"]["status"], state["steps"]["A"]["skipped"]) == ("skipped", True)


@pytest.mark.rule("D59")
def test_visits_count_returns_and_attempts_count_tries() -> None:
    text = """
    steps:
      - {name: A, command: [x], retry: {attempts: 2, delay: 1}}
      - {name: B, command: [x], on: {failure: {goto: A}, success: {end: true}}}
    """
    steps = ran(text, {"A": [1, 0, 0], "B": [1, 0]})["steps"]
    assert (steps["A"]["visits"], steps["A"]["attempts"]) == (2, 3)
    assert (steps["B"]["visits"], steps["B"]["attempts"]) == (2, 2)


@pytest.mark.rule("D59")
def test_steps_of_finally_and_error_stand_beside_the_others() -> None:
    text = """
    steps: [{name: A, command: [x], on: {failure: {goto: _error}}}, {name: _error, command: [x]}]
    finally: [{name: Z, command: [x]}]
    """
    state = ran(text, {"A": 1})
    assert {name: step["status"] for name, step in state["steps"].items()} == {
        "A": "failed",
        "_error": "completed",
        "_finally/Z": "completed",
    }


@pytest.mark.rule("D59")
def test_branches_and_groups_hold_their_steps() -> None:
    text = """
    steps:
      - name: P
        parallel:
          - {name: L, command: [x]}
          - {name: G, steps: [{name: G1, command: [x]}, {name: G2, command: [x]}]}
    """
    state = ran(text)
    assert list(state["steps"]) == ["P"]
    parallel = state["steps"]["P"]
    assert set(parallel["branches"]) == {"L", "G"}
    assert parallel["summary"]["success_count"] == 2
    assert {name: step["status"] for name, step in parallel["branches"]["G"]["steps"].items()} == {
        "G1": "completed",
        "G2": "completed",
    }


# --- loops ----------------------------------------------------------------------------------------

NESTED = """
context: {outer: [x, y]}
steps:
  - name: L
    for_each:
      items: ${context.outer}
      steps:
        - name: M
          for_each: {items: [0, 1], steps: [{name: A, command: [x]}]}
          allow_failure: true
        - {name: B, command: [x]}
"""


@pytest.mark.rule("D59")
def test_a_loop_holds_its_iterations_and_they_hold_theirs() -> None:
    state = ran(NESTED, {"L[0]/M[1]/A": 1})
    assert list(state["steps"]) == ["L"]
    loop = state["steps"]["L"]
    assert [(one["index"], one["item"], one["status"], list(one["steps"])) for one in loop["iterations"]] == [
        (0, "x", "completed", ["M", "B"]),
        (1, "y", "completed", ["M", "B"]),
    ]
    inner = loop["iterations"][0]["steps"]["M"]
    assert [(one["item"], one["status"]) for one in inner["iterations"]] == [(0, "completed"), (1, "failed")]
    assert (inner["status"], inner["summary"]["failure_count"]) == ("failed", 1)
    assert list(loop["last"]) == ["M", "B"]
    assert loop["summary"]["count"] == 2


@pytest.mark.rule("D59")
def test_a_loop_that_is_under_way_counts_what_has_ended() -> None:
    host = Host("steps: [{name: L, for_each: {items: [a, b, c], steps: [{name: A, command: [x]}]}}]").start()
    host.end("L[0]/A")
    host.end("L[1]/A", 1)
    loop = folded(host)["steps"]["L"]
    assert (loop["status"], loop["visits"]) == ("running", 1)
    assert [one["status"] for one in loop["iterations"]] == ["completed", "failed"]
    assert (loop["summary"]["success_count"], loop["summary"]["failure_count"]) == (1, 1)


@pytest.mark.rule("D59")
def test_another_visit_of_a_loop_shows_its_own_iterations() -> None:
    text = """
    steps:
      - name: L
        for_each: {items: [1, 2], steps: [{name: A, command: [x]}]}
      - {name: B, command: [x], on: {failure: {goto: L}, success: {end: true}}}
    """
    host = Host(text, {"B": [1, 0], "L[0]/A": 1, "L[1]/A": 0, "L#2[0]/A": 0})
    host.plan = plan_of(text.replace("[x]}]}", "[x], allow_failure: true}]}"))
    host.machine = Machine(host.plan)
    host.run()
    loop = folded(host)["steps"]["L"]
    assert (loop["visits"], loop["attempts"]) == (2, 2)
    assert [one["steps"]["A"]["exit_code"] for one in loop["iterations"]] == [0, 0]
    assert any("L#2[0]/A" in told for told in host.events())


@pytest.mark.rule("D59")
def test_passes_of_a_while_are_iterations_without_items() -> None:
    text = """
    steps:
      - name: W
        repeat_until: {condition: {step_ok: A}, max_iterations: 5, steps: [{name: A, command: [x]}]}
    """
    loop = ran(text, {"W[0]/A": 1, "W[1]/A": 0})["steps"]["W"]
    assert [(one["item"], one["status"]) for one in loop["iterations"]] == [
        (None, "failed"),
        (None, "completed"),
    ]
    assert loop["exit_reason"] == "condition"


def _loops(steps: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for step in steps.values():
        if "iterations" in step:
            yield step
            for one in step["iterations"]:
                yield from _loops(one["steps"])
        for inside in ("branches", "steps", "finally"):
            yield from _loops(step.get(inside, {}))


@pytest.mark.rule("D59")
@pytest.mark.parametrize("name", CORPUS)
def test_what_is_told_of_iterations_and_steps_is_what_the_machine_decided(name: str) -> None:
    async def log_of() -> list[EventRecord]:
        run = await Scripted(plan_named(name), memory()).create()
        await run.drive()
        return await run.log()

    log = asyncio.run(log_of())
    plan = plan_named(name)
    views_agree(plan, log)
    machine = ReportingMachine(plan)
    fold = StateFold(plan, "r1")
    results: dict[str, Any] = {}
    for record in log:
        root = machine.machine.root
        if root is not None and root.call is not None:
            kept = root.scopes[0].results if 0 in root.scopes else root.call.main_results
            results |= {name: (one.status, one.visits, one.attempts) for name, one in kept.items()}
        fold.fold(record, machine.advance(record))
    state = fold.state()
    for step, (status, visits, attempts) in results.items():
        shown = state["steps"][step]
        assert (shown["visits"], shown["attempts"]) == (visits, attempts), step
        if shown["status"] != "cancelled":
            assert shown["status"] == status, step


# --- long loops -----------------------------------------------------------------------------------


def ended_by(record: EventRecord) -> list[Report]:
    """What a machine reports of loops whose bodies are one step: an iteration ends with it."""
    around, _, _ = (record.step_id or "").rpartition("/")
    if not around or record.event_type not in (EventType.STEP_COMPLETED, EventType.STEP_FAILED):
        return []
    status = "failed" if record.event_type == EventType.STEP_FAILED else "completed"
    return [ScopeReport(record.run_seq, around, 0, None, status)]


def fold_all(plan: Plan, records: Iterable[EventRecord]) -> StateFold:
    fold = StateFold(plan, "r1")
    for record in records:
        fold.fold(record, ended_by(record))
    return fold


def _long_log(number: int, failing: int) -> Iterator[EventRecord]:
    yield record_of(1, EventType.RUN_STARTED, None, 1, {}, START)
    yield record_of(2, EventType.STEP_STARTED, "L", 1, {}, START)
    for index in range(number):
        path = f"L[{index}]/A"
        yield record_of(3 + 2 * index, EventType.STEP_STARTED, path, 1, {}, START)
        error = {"category": "USER", "code": "EXIT_CODE", "message": "exit code 1"}
        failed = failing and index % failing == 0
        payload = {"exitCode": 1, "error": error} if failed else {"exitCode": 0, "output": "x"}
        event = EventType.STEP_FAILED if failed else EventType.STEP_COMPLETED
        yield record_of(4 + 2 * index, event, path, 1, payload, START)


@pytest.mark.rule("D59")
def test_of_a_long_loop_the_newest_thousand_and_a_thousand_failures_are_kept() -> None:
    plan = plan_of("steps: [{name: L, for_each: {items: [1], steps: [{name: A, command: [x]}]}}]")
    fold = fold_all(plan, _long_log(5000, failing=100))
    loop = fold.state()["steps"]["L"]
    kept = [one["index"] for one in loop["iterations"]]
    assert kept == [*range(0, 4000, 100), *range(4000, 5000)]
    assert loop["summary"]["success_count"] == 4950
    assert loop["summary"]["failure_count"] == 50
    many = fold_all(plan, _long_log(5000, failing=1))
    assert len(many.state()["steps"]["L"]["iterations"]) == 2000


def _nested_log(outer: int, inner: int, failing: int) -> Iterator[EventRecord]:
    seq = count(1)
    yield record_of(next(seq), EventType.RUN_STARTED, None, 1, {}, START)
    yield record_of(next(seq), EventType.STEP_STARTED, "L", 1, {}, START)
    for row in range(outer):
        yield record_of(next(seq), EventType.STEP_STARTED, f"L[{row}]/M", 1, {}, START)
        for column in range(inner):
            failed = (row * inner + column) % failing == 0
            event = EventType.STEP_FAILED if failed else EventType.STEP_COMPLETED
            yield record_of(next(seq), event, f"L[{row}]/M[{column}]/A", 1, {"exitCode": int(failed)}, START)
        yield record_of(next(seq), EventType.STEP_COMPLETED, f"L[{row}]/M", 1, {"exitCode": 0}, START)


@pytest.mark.rule("D59")
def test_loops_inside_of_iterations_keep_their_newest_ten_thousand_together() -> None:
    inner = "for_each: {items: [1], steps: [{name: A, command: [x]}]}"
    plan = plan_of(f"steps: [{{name: L, for_each: {{items: [1], steps: [{{name: M, {inner}}}]}}}}]")
    fold = fold_all(plan, _nested_log(300, 100, failing=1000))
    rows = [row["steps"]["M"] for row in fold.state()["steps"]["L"]["iterations"]]
    kept = [[one["index"] for one in row["iterations"]] for row in rows]
    # Of the older ones those that have failed, one in every tenth row; of the newest, all.
    assert kept == [*([[0], *[[]] * 9] * 20), *([[*range(100)]] * 100)]
    summaries = [row["summary"] for row in rows]
    assert {one["count"] for one in summaries} == {100}
    assert sum(one["failure_count"] for one in summaries) == 30
    failing = fold_all(plan, _nested_log(300, 100, failing=1))
    rows = [row["steps"]["M"] for row in failing.state()["steps"]["L"]["iterations"]]
    assert sum(len(row["iterations"]) for row in rows) == 20_000


@pytest.mark.rule("D59")
def test_folding_a_hundred_thousand_iterations_costs_the_same_from_first_to_last(tmp_path: Path) -> None:
    plan = plan_of("steps: [{name: L, for_each: {items: [1], steps: [{name: A, command: [x]}]}}]")
    log = list(_long_log(100_000, failing=7))
    late, early = log[-20_000:], log[:20_000]
    aged, fresh = fold_all(plan, log[:-20_000]), StateFold(plan, "r1")
    # In turns, so that whatever else the machine does falls on both; the best of each counts.
    took = [
        (_cpu(fresh, early[part : part + 1000]), _cpu(aged, late[part : part + 1000]))
        for part in range(0, 20_000, 1000)
    ]
    first, last = min(one for one, _ in took), min(other for _, other in took)
    print(f"\nstate.json: {first * 1e3:.1f} us per event at first, {last * 1e3:.1f} after 90,000 iterations")
    assert last < first * 1.5


def _cpu(fold: StateFold, records: list[EventRecord]) -> float:
    began = time.process_time()
    for record in records:
        fold.fold(record, ended_by(record))
    return time.process_time() - began


@pytest.mark.rule("D39")
def test_the_file_is_written_at_most_every_quarter_of_a_second_and_at_the_end(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path, "r1")
    directory.make()
    now = [100.0]
    host = Host("steps: [{name: A, command: [x]}, {name: B, command: [x]}]").run()
    file = StateFile(directory, host.plan, "r1", now=lambda: now[0])

    def written() -> dict[str, Any]:
        read: dict[str, Any] = json.loads(directory.state.read_bytes())
        return read

    file(host.log[:1])
    assert written()["steps"] == {}
    now[0] += 0.2
    file(host.log[1:3])
    assert written()["steps"] == {}
    now[0] += 0.1
    # Nothing more happens for a long time: it is written all the same.
    file.write_if_due()
    assert "A" in written()["steps"]
    before = directory.state.stat().st_mtime_ns
    now[0] += 10
    file.write_if_due()
    assert directory.state.stat().st_mtime_ns == before, "nothing new, nothing written"
    now[0] += 0.01
    file(host.log[4:])
    assert written()["status"] == "completed"
    assert not list(tmp_path.rglob("*tmp*"))


# --- what it has cost -----------------------------------------------------------------------------


def test_usage_is_shown_for_the_step_what_is_around_it_and_the_run() -> None:
    host = Host("""
        steps:
          - name: L
            for_each:
              items: [1, 2]
              steps:
                - name: G
                  steps: [{name: A, provider: echo, prompt: hi, retry: {attempts: 2, delay: 0}}]
          - {name: B, command: [x]}
        """).start()
    host.end("L[0]/G/A", 1, usage={"tokens": 2, "costUsd": 0.1})
    assert folded(host)["steps"]["L"]["usage"] == {"tokens": 2, "costUsd": 0.1}
    host.fire()
    host.end("L[0]/G/A", usage={"tokens": 3, "costUsd": 0.2})
    host.end("L[1]/G/A", usage={"tokens": 4})
    host.end("B")
    state = folded(host)
    loop = state["steps"]["L"]
    assert state["usage"] == loop["usage"] == {"tokens": 9, "costUsd": 0.3}
    first, second = (one["steps"]["G"] for one in loop["iterations"])
    assert first["usage"] == first["steps"]["A"]["usage"] == {"tokens": 5, "costUsd": 0.3}
    assert second["usage"] == {"tokens": 4}
    assert state["steps"]["B"]["usage"] is None


def test_a_charge_for_an_iteration_that_is_not_kept_still_counts_for_its_loop() -> None:
    host = Host(
        "steps: [{name: L, for_each: {items: '${inputs.n}', steps: [{name: A, provider: echo, prompt: hi}]}}]\n"
        "inputs: {n: {type: list, required: true}}",
        lambda _task: {"usage": {"tokens": 1}},
    ).run(n=list(range(MAX_ITERATIONS + 5)))
    late = [record for record in host.log if record.event_type == EventType.BUDGET_CHARGED]
    rest = [record for record in host.log if record.event_type != EventType.BUDGET_CHARGED]
    fold = fold_all(host.plan, [*rest[:-1], *late])
    loop = fold.state()["steps"]["L"]
    assert loop["usage"]["tokens"] == MAX_ITERATIONS + 5
    assert len(loop["iterations"]) == MAX_ITERATIONS
    assert {one["status"] for one in loop["iterations"]} == {"completed"}


def test_a_run_that_is_out_of_budget_says_why_it_stands_still() -> None:
    host = Host(
        """
        budget: {usd: 1}
        steps: [{name: A, provider: echo, prompt: hi}, {name: B, provider: echo, prompt: hi}]
        """
    ).start()
    host.end("A", usage={"costUsd": 1})
    assert (folded(host)["status"], folded(host)["reason"]) == ("paused", "BUDGET_EXCEEDED")
    host.signal("UPDATE_PARAMS", params={"budget": {"usd": 3}})
    host.signal("RESUME")
    assert (folded(host)["status"], folded(host)["reason"]) == ("running", None)


def test_late_news_of_an_earlier_try_of_a_loop_adds_nothing_to_the_newest_one() -> None:
    plan = plan_of("steps: [{name: L, for_each: {items: [1, 2, 3], steps: [{name: A, command: [x]}]}}]")
    fold = StateFold(plan, "r1")
    starts = [("L", 1), ("L", 2), ("L#2[0]/A", 1), ("L[2]/A", 1)]
    for seq, (path, attempt) in enumerate(starts, 1):
        fold.fold(record_of(seq, EventType.STEP_STARTED, path, attempt, {}, START))
    assert [one["index"] for one in fold.state()["steps"]["L"]["iterations"]] == [0]


def test_a_start_that_is_recorded_after_the_end_of_its_attempt_changes_nothing() -> None:
    fold = StateFold(plan_of("steps: [{name: A, command: [x]}]"), "r1")
    stopped = {"error": {"category": "USER", "code": "CANCELLED", "message": "stopped", "retryable": False}}
    fold.fold(record_of(1, EventType.STEP_FAILED, "A", 1, stopped, START))
    fold.fold(record_of(2, EventType.STEP_STARTED, "A", 1, {}, START))
    assert fold.state()["steps"]["A"]["status"] == "cancelled"
