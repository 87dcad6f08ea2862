"""Loops, branches, calls: what runs, under which paths, and what can be read of it."""

from typing import Any

import pytest

from podium.expressions.types import DataList
from podium.machine.commands import RunTask
from podium.plan.plan import Input, Join, Retry
from tests.unit.machine.building import (
    NO,
    YES,
    call,
    equals,
    for_each,
    gate,
    group,
    on,
    parallel,
    plan,
    put,
    ref,
    task,
    text,
    while_,
    workflow,
)
from tests.unit.machine.hosting import Host
from tests.unit.machine.test_interactions import cancelled, ran, unended


def values(host: Host, path: str) -> dict[Any, Any]:
    return next(one.values or {} for one in host.commands if isinstance(one, RunTask) and one.path == path)


# --- for_each -------------------------------------------------------------------------------------


def test_items_are_taken_one_after_the_other() -> None:
    host = Host(plan(for_each("p", ["x", "y"], task("a", ref("item")), task("b")))).run()
    assert host.ran() == ["p[0]/a", "p[0]/b", "p[1]/a", "p[1]/b"]
    assert values(host, "p[1]/a") == {("item",): "y"}


def test_so_many_items_are_taken_at_once() -> None:
    host = Host(plan(for_each("p", 5, task("a"), workers=2))).start()
    assert host.ran() == ["p[0]/a", "p[1]/a"]
    host.end("p[1]/a")
    assert host.ran()[-1] == "p[2]/a"
    assert len(host.tasks) == 2


@pytest.mark.rule("D14")
def test_ten_items_at_once_unless_told() -> None:
    step = for_each("p", 20, task("a"), workers=1)
    step = type(step)("p", type(step.body)(**{**_fields(step.body), "max_workers": None}))
    assert len(Host(plan(step)).start().ran()) == 10


def _fields(body: Any) -> dict[str, Any]:
    return {name: getattr(body, name) for name in body.__struct_fields__}


@pytest.mark.rule("D05")
@pytest.mark.rule("D12")
def test_a_failed_item_fails_the_loop_and_the_others_run() -> None:
    host = Host(plan(for_each("p", 3, task("a"))), {"p[1]/a": 1}).run()
    assert len(host.ran()) == 3
    assert host.ended == "Failed"
    summary = host.last("p", "StepFailed")["summary"]
    assert (summary["success_count"], summary["failure_count"]) == (2, 1)


@pytest.mark.rule("D12")
def test_items_left_from_a_failure_are_skipped() -> None:
    host = Host(
        plan(for_each("p", 3, task("a", on=on(success="_loop_continue", failure="_loop_continue")))),
        {"p[1]/a": 1},
    )
    host.run()
    summary = host.last("p", "StepCompleted")["summary"]
    assert (summary["success_count"], summary["skipped_count"], summary["success_rate"]) == (2, 1, 2 / 3)


def test_items_left_from_an_allowed_failure_are_completed() -> None:
    step = task("a", allow_failure=True, on=on(success="_loop_continue"))
    host = Host(plan(for_each("p", 2, step, join=Join("any"))), {"a": 1}).run()
    assert host.ended == "Completed"


@pytest.mark.rule("D11")
def test_a_break_ends_a_loop() -> None:
    host = Host(plan(for_each("p", 3, task("a", on=on(success="_loop_break"))), task("z"))).run()
    assert host.ran() == ["p[0]/a", "z"]


@pytest.mark.rule("D57")
def test_more_items_than_allowed_fail_the_loop_before_the_first() -> None:
    host = Host(plan(for_each("p", 3, task("a"), max_iterations=2))).run()
    assert host.ran() == []
    assert host.last("p", "StepFailed")["exitCode"] == 125


@pytest.mark.rule("D57")
@pytest.mark.parametrize("items", ["text", {"a": 1}, None, 3])
def test_items_that_are_no_list_fail_the_loop(items: Any) -> None:
    host = Host(plan(for_each("p", ref("context", "x"), task("a")), context={"x": items})).run()
    assert host.last("p", "StepFailed")["error"]["category"] == "USER"


def test_items_are_fixed_at_entry() -> None:
    steps = (for_each("p", ref("context", "x"), put("s", {"x": DataList((9,))}), task("a", ref("item"))),)
    host = Host(plan(*steps, context={"x": [1, 2]})).run()
    assert [values(host, f"p[{n}]/a") for n in (0, 1)] == [{("item",): 1}, {("item",): 2}]


@pytest.mark.rule("D10")
def test_a_nested_loop_sees_the_outer_one() -> None:
    inner = for_each(
        "i",
        ref("o"),
        task("a", ref("n"), ref("loop", "index"), ref("loop", "parent", "index"), ref("loop", "last")),
        variable="n",
    )
    outer = for_each(
        "p", [DataList((1, 2)), DataList((3,))], inner, task("b", ref("loop", "index")), variable="o"
    )
    host = Host(plan(outer)).run()
    assert values(host, "p[1]/i[0]/a") == {
        ("n",): 3, ("loop", "index"): 0, ("loop", "parent", "index"): 1, ("loop", "last"): True,
    }  # fmt: skip
    assert values(host, "p[1]/b") == {("loop", "index"): 1}


@pytest.mark.rule("D07")
def test_fail_fast_stops_the_others_at_the_first_failure() -> None:
    host = Host(plan(for_each("p", 5, task("a"), workers=3, join=Join(fail_fast=True)))).start()
    host.end("p[1]/a", 1)
    assert cancelled(host) == ["p[0]/a", "p[2]/a"]
    host.run()
    summary = host.last("p", "StepFailed")["summary"]
    assert (summary["count"], summary["cancelled_count"], summary["failure_count"]) == (3, 2, 1)


def test_a_stopped_loop_begins_no_item_that_was_about_to_begin() -> None:
    """Two answers are routed at once, after a pause: the first makes room for an item, the second ends the run."""
    loop = for_each("p", 4, task("a"), workers=2)
    host = Host(plan(parallel("q", loop, task("b", on=on(success="_end"))))).start()
    host.signal("PAUSE")
    host.end("q/p[0]/a")
    host.end("q/b")
    host.signal("RESUME")
    assert "q/p[2]/a" not in host.ran()
    host.run()
    assert host.ended == "Completed"
    assert unended(host) == []


def test_a_second_visit_marks_everything_below() -> None:
    again = equals(ref("steps", "p", "visits"), 1)
    steps = (
        for_each("p", 1, group("g", task("a"))),
        gate("back", again, on=on(success="p", failure="_end")),
    )
    host = Host(plan(*steps)).run()
    assert host.ran() == ["p[0]/g/a", "p#2[0]/g/a"]


def test_a_retried_loop_inside_a_loop_is_marked_where_it_stands() -> None:
    inner = for_each("i", 1, task("a"), retry=Retry(2))
    host = Host(plan(for_each("p", 2, inner)), {"p[1]/i[0]/a": 1}).run()
    assert host.ran() == ["p[0]/i[0]/a", "p[1]/i[0]/a", "p[1]/i#2[0]/a"]


# --- passes ---------------------------------------------------------------------------------------


@pytest.mark.rule("D15")
def test_a_while_runs_until_its_condition_is_false() -> None:
    condition = equals(ref("steps", "a", "output", default=""), "")
    host = Host(plan(while_("w", condition, task("a"))))
    host.start()
    host.end("w[0]/a", output="")
    host.end("w[1]/a", output="ready\n")
    assert host.ended == "Completed"
    assert host.last("w", "StepCompleted")["exitReason"] == "condition"


@pytest.mark.rule("D64")
def test_repeat_until_asks_after_each_pass() -> None:
    host = Host(plan(while_("w", YES, task("a"), until=True))).run()
    assert host.ran() == ["w[0]/a"]


@pytest.mark.rule("D12")
def test_a_while_that_is_false_at_once_runs_nothing_and_succeeds() -> None:
    host = Host(plan(while_("w", NO, task("a")))).run()
    assert (host.ran(), host.ended) == ([], "Completed")


@pytest.mark.rule("R062")
@pytest.mark.rule("D16")
def test_too_many_passes_are_a_timeout() -> None:
    loop = while_("w", YES, task("a"), max_iterations=2, on=on(timeout="z"))
    host = Host(plan(loop, task("z"))).run()
    assert host.ran() == ["w[0]/a", "w[1]/a", "z"]
    failed = host.last("w", "StepFailed")
    assert (failed["exitCode"], failed["exitReason"]) == (124, "max_iterations")


def test_passes_wait_for_the_interval() -> None:
    host = Host(plan(while_("w", YES, task("a"), check_interval=10))).start()
    host.end("w[0]/a")
    host.wait(9)
    assert len(host.ran()) == 1
    host.wait(2)
    assert len(host.ran()) == 2


@pytest.mark.rule("D05")
@pytest.mark.rule("D12")
def test_a_pass_goes_on_after_a_failure_and_is_counted_as_failed() -> None:
    host = Host(plan(while_("w", YES, task("a"), task("b"), until=True)), {"a": 1}).run()
    assert host.ran() == ["w[0]/a", "w[0]/b"]
    assert host.last("w", "StepCompleted")["summary"]["failure_count"] == 1
    assert host.ended == "Completed"


@pytest.mark.rule("D11")
@pytest.mark.parametrize(("target", "count"), [("_loop_break", 1), ("_loop_continue", 2)])
def test_break_and_continue_in_passes(target: str, count: int) -> None:
    loop = while_(
        "w",
        equals(ref("loop", "iteration"), 0),
        task("a", on=on(success=target)),
        task("b"),
        max_iterations=9,
    )
    host = Host(plan(loop)).run()
    assert host.ran() == [f"w[{n}]/a" for n in range(count)]
    assert host.ended == "Completed"


# --- branches -------------------------------------------------------------------------------------


@pytest.mark.rule("R063")
@pytest.mark.rule("D47")
def test_branches_run_at_once_up_to_a_limit() -> None:
    host = Host(plan(parallel("p", task("a"), task("b"), task("c"), max_workers=2))).start()
    assert host.ran() == ["p/a", "p/b"]
    host.end("p/b")
    assert host.ran()[-1] == "p/c"


@pytest.mark.rule("R063")
@pytest.mark.parametrize("broken", [(), ("c",), ("a", "b", "c")])
def test_a_block_waits_for_all_branches_and_one_that_fails_fails_it(broken: tuple[str, ...]) -> None:
    host = Host(
        plan(parallel("p", task("a"), task("b"), task("c")), task("z")), dict.fromkeys(broken, 1)
    ).run()
    assert sorted(host.ran())[:3] == ["p/a", "p/b", "p/c"]
    assert ("z" in host.ran()) is not bool(broken)
    assert host.ended == ("Failed" if broken else "Completed")


def test_a_branch_of_several_steps() -> None:
    host = Host(plan(parallel("p", group("g", task("a"), task("b")), task("c")))).run()
    assert sorted(host.ran()) == ["p/c", "p/g/a", "p/g/b"]


@pytest.mark.rule("D47")
def test_branches_can_be_read_by_their_block_or_their_plain_name() -> None:
    reading = task("z", ref("steps", "p", "branches", "a", "output"), ref("steps", "b", "exit_code"))
    host = Host(plan(parallel("p", task("a"), task("b")), reading)).start()
    host.end("p/a", output="one\n")
    host.end("p/b")
    assert values(host, "z") == {
        ("steps", "p", "branches", "a", "output"): "one",
        ("steps", "b", "exit_code"): 0,
    }


# --- what can be read -----------------------------------------------------------------------------


@pytest.mark.rule("R056")
def test_iterations_can_be_read_by_number_and_last_by_name() -> None:
    paths = [
        ("steps", "p", "iterations", 1, "steps", "a", "output"),
        ("steps", "p", "iterations", 0, "item"),
        ("steps", "p", "iterations", 0, "status"),
        ("steps", "p", "last", "a", "output"),
        ("steps", "p", "summary", "count"),
        ("steps", "p", "exit_reason"),
    ]
    host = Host(
        plan(for_each("p", 2, task("a"), workers=2), task("z", *(ref(*path) for path in paths)))
    ).start()
    host.end("p[1]/a", output="two", other=5)
    host.end("p[0]/a", output="one")
    assert [values(host, "z").get(path) for path in paths] == ["two", 0, "completed", "two", 2, None]


@pytest.mark.rule("D13")
def test_the_steps_of_an_iteration_have_a_short_form() -> None:
    host = Host(
        """
        steps:
          - name: p
            for_each:
              items: [1, 2]
              steps:
                - name: a
                  command: [x]
          - name: z
            command: [x, "${steps.p.iterations[1].a.output}"]
        """,
        lambda one: {"exitCode": 0, "output": one.path},
    ).run()
    assert list(values(host, "z").values()) == ["p[1]/a"]


@pytest.mark.parametrize("field", ["branches", "last", "steps", "iterations"])
def test_results_inside_a_composite_can_be_read_as_a_whole(field: str) -> None:
    composites = {
        "branches": parallel("p", task("a")),
        "last": for_each("p", 1, task("a")),
        "iterations": for_each("p", 1, task("a")),
        "steps": group("p", task("a")),
    }
    host = Host(plan(composites[field], task("z", ref("steps", "p", field)))).run()
    found = values(host, "z")["steps", "p", field]
    inner = found[0]["steps"]["a"] if field == "iterations" else found["a"]
    assert (inner["status"], inner["exit_code"]) == ("completed", 0)


def test_only_fields_that_somebody_reads_are_kept() -> None:
    host = Host(plan(task("a"), task("b"), task("z", ref("steps", "a", "output")))).start()
    for name in "ab":
        host.end(name, output="x" * 100, stderrTail="y" * 100, durationMs=5)
    assert host.machine.root is not None
    (scope,) = host.machine.root.scopes.values()
    assert scope.results["a"].facts == {"output": "x" * 100}
    assert scope.results["b"].facts is None


def test_finished_iterations_are_forgotten() -> None:
    host = Host(plan(for_each("p", 100, task("a")))).start()
    for number in range(50):
        host.end(f"p[{number}]/a", output="x" * 100)
    loop = host.machine.find("p")
    assert loop is not None
    assert loop.loop is not None
    assert (len(loop.scopes), loop.loop.iterations, loop.loop.last) == (1, {}, None)


@pytest.mark.rule("R041")
def test_how_a_step_ended_and_when_can_be_read() -> None:
    fields = ("exit_code", "output", "duration", "completed_at")
    host = Host(plan(task("a"), task("z", *(ref("steps", "a", name) for name in fields)))).start()
    host.wait(5)
    host.end("a", output="v\n", durationMs=1500)
    found = values(host, "z")
    assert [found["steps", "a", name] for name in fields] == [0, "v", 1.5, "2026-01-01T12:00:05.000000Z"]


@pytest.mark.parametrize("duration", ["x", None, [], 1500])
def test_a_field_of_another_type_than_expected_does_no_harm(duration: Any) -> None:
    host = Host(plan(task("a"), task("z", ref("steps", "a", "duration")))).start()
    host.end("a", durationMs=duration)
    expected = 1.5 if duration == 1500 else None
    assert values(host, "z").get(("steps", "a", "duration")) == expected


# --- calls ----------------------------------------------------------------------------------------

INNER = workflow(
    task("a", ref("inputs", "n"), ref("inputs", "d"), ref("context", "own")),
    cleanup=(task("f"),),
    inputs={"n": Input("int"), "d": Input("string", default="dd")},
    outputs={"got": ref("steps", "a", "output")},
    context={"own": 1},
)


@pytest.mark.rule("D64")
def test_a_call_has_inputs_outputs_context_and_finally_of_its_own() -> None:
    host = Host(
        plan(
            call("c", INNER, {"n": ref("context", "n")}),
            task("z", ref("steps", "c", "outputs", "got")),
            context={"n": 7},
        )
    ).start()
    assert values(host, "c/a") == {("inputs", "n"): 7, ("inputs", "d"): "dd", ("context", "own"): 1}
    host.end("c/a", output="result")
    host.end("c/_finally/f")
    assert values(host, "z") == {("steps", "c", "outputs", "got"): "result"}
    assert host.last("c", "StepCompleted")["outputs"] == {"got": "result"}


def test_an_end_in_a_call_ends_only_the_call() -> None:
    inner = workflow(task("a", on=on(success="_end")), task("b"))
    assert Host(plan(call("c", inner), task("z"))).run().ran() == ["c/a", "z"]


@pytest.mark.parametrize("how", ["!bad", "_error", "no_transition", "cycle"])
def test_what_fails_a_workflow_fails_a_call(how: str) -> None:
    bodies = {
        "!bad": workflow(task("a", on=on(success="!bad"))),
        "_error": workflow(task("a", on=on(success="_error")), error=task("_error")),
        "no_transition": workflow(task("a", on=on(failure="_end"))),
        "cycle": workflow(task("a", on=on(success="a")), max_transitions=2),
    }
    host = Host(plan(call("c", bodies[how], on=on(failure="z")), task("z"))).run()
    assert host.ran()[-1] == "z"
    assert ("c/_error" in host.ran()) is (how == "_error")


@pytest.mark.parametrize("limit", ["step", "workflow"])
def test_a_call_has_a_limit(limit: str) -> None:
    inner = workflow(task("a"), cleanup=(task("f"),), timeout=50 if limit == "workflow" else None)
    facts: dict[str, Any] = {"timeout": 50} if limit == "step" else {}
    host = Host(plan(call("c", inner, on=on(timeout="z"), **facts), task("z"))).start()
    host.wait(51)
    assert cancelled(host) == ["c/a"]
    host.end("c/a")
    host.end("c/_finally/f")
    assert host.ran()[-1] == "z"


def test_outputs_that_cannot_be_evaluated_fail_the_run() -> None:
    host = Host(plan(task("a"), outputs={"x": text("v", ref("steps", "a", "json", "no"))})).run()
    assert (host.ended, host.reason) == ("Failed", "outputs")


@pytest.mark.rule("D20")
@pytest.mark.rule("D64")
def test_outputs_of_a_run_stand_in_its_last_event() -> None:
    host = Host(plan(task("a"), outputs={"x": ref("steps", "a", "output")})).start()
    host.end("a", output="v\n")
    assert host.payload(-1)["outputs"] == {"x": "v"}


@pytest.mark.rule("D20")
def test_only_the_line_feeds_at_the_end_of_an_output_are_dropped() -> None:
    host = Host(plan(task("a"), outputs={"x": ref("steps", "a", "output")})).start()
    host.end("a", output="\n v \t\n\n")
    assert host.payload(-1)["outputs"] == {"x": "\n v \t"}


@pytest.mark.rule("D62")
def test_finally_knows_how_the_run_ended_and_what_its_steps_left() -> None:
    cleanup = task("f", ref("run", "status"), ref("run", "exit_code"), ref("steps", "a", "exit_code"))
    host = Host(plan(task("a"), cleanup=(cleanup,)), {"a": 3}).run()
    assert values(host, "_finally/f") == {
        ("run", "status"): "failed", ("run", "exit_code"): 1, ("steps", "a", "exit_code"): 3,
    }  # fmt: skip


def test_a_run_is_given_names_of_its_host() -> None:
    host = Host(
        plan(task("a", ref("run", "id"), ref("env", "HOME"), ref("inputs", "n"))),
        run={"id": "r1"},
        env={"HOME": "/h"},
    )
    host.start(n=4)
    assert values(host, "a") == {("run", "id"): "r1", ("env", "HOME"): "/h", ("inputs", "n"): 4}


def test_paths_and_attempts_of_everything_at_once() -> None:
    inner = for_each("i", 1, call("c", workflow(task("a"))), retry=Retry(2))
    host = Host(plan(for_each("p", 1, inner)), lambda t: int("#" not in t.path)).run()
    assert ran(host) == ["p[0]/i[0]/c/a#1", "p[0]/i#2[0]/c/a#1"]
