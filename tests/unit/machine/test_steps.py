"""One step at a time: flow modes, targets, gates, conditions, tries, people, budgets."""

from typing import Any

import pytest

from podium.expressions.types import DataMap
from podium.log.events import EventType
from podium.machine.commands import Probe, Question, RunTask
from podium.plan.conditions import All, AnyOf, EnvSet, Not, StepIs
from podium.plan.plan import Budget, Discipline, FormField, Retry
from tests.unit.machine.building import (
    NO,
    YES,
    agent,
    approval,
    equals,
    file,
    gate,
    graph,
    group,
    on,
    parallel,
    plan,
    put,
    ref,
    task,
    text,
)
from tests.unit.machine.hosting import START, Host
from tests.unit.machine.test_interactions import cancelled, ignored, ran, run_events

# --- flows ----------------------------------------------------------------------------------------


@pytest.mark.rule("R069")
@pytest.mark.rule("D01")
@pytest.mark.parametrize(
    ("discipline", "first", "code", "paths"),
    [
        ("strict", 0, 4, ["a"]),
        ("strict", 1, 4, ["a"]),
        ("implied", 0, 0, ["a", "b"]),
        ("implied", 1, 1, ["a"]),
        ("compatible", 0, 0, ["a", "b"]),
        ("compatible", 1, 0, ["a", "b"]),
    ],
)
def test_three_modes_of_a_flow(discipline: Discipline, first: int, code: int, paths: list[str]) -> None:
    host = Host(plan(task("a"), task("b"), discipline=discipline), {"a": first}).run()
    assert (host.exit_code, host.ran()) == (code, paths)


@pytest.mark.rule("D01")
def test_the_end_of_a_compatible_list_is_a_success_whatever_its_steps_returned() -> None:
    host = Host(plan(task("a"), task("b"), discipline="compatible"), {"a": 1, "b": 1}).run()
    assert (host.ended, host.exit_code) == ("Completed", 0)


def test_the_list_is_entered_where_start_stands() -> None:
    host = Host(plan(task("a"), task("_start"), task("c"), entry=1)).run()
    assert host.ran() == ["_start", "c"]


@pytest.mark.rule("R068")
def test_an_error_has_its_text() -> None:
    host = Host(plan(task("a", on=on(success="!broken")))).run()
    assert (host.ended, host.exit_code, host.reason) == ("Failed", 1, "error")
    assert host.payload(-1)["error"]["message"] == "broken"


@pytest.mark.rule("D27")
def test_the_error_step_runs_once_and_the_run_fails_whatever_it_returns() -> None:
    host = Host(plan(task("a", on=on(success="_error")), error=task("_error"))).run()
    assert host.ran() == ["a", "_error"]
    assert (host.ended, host.exit_code) == ("Failed", 1)


@pytest.mark.rule("D05")
def test_a_failure_that_is_allowed_is_routed_as_a_success() -> None:
    host = Host(plan(task("a", allow_failure=True, on=on(success="c")), task("b"), task("c")), {"a": 1}).run()
    assert host.ran() == ["a", "c"]


@pytest.mark.rule("D08")
def test_a_timeout_takes_its_own_handler_else_that_of_failure() -> None:
    for handlers, last in ((on(timeout="t", failure="f"), "t"), (on(failure="f"), "f")):
        host = Host(plan(task("a", on=handlers), task("t"), task("f"))).start()
        host.time_out("a")
        assert host.ran()[-1] == last


@pytest.mark.rule("D04")
@pytest.mark.parametrize(("when", "paths"), [(YES, ["y"]), (NO, ["n"])])
def test_a_gate_is_a_success_or_a_failure(when: Any, paths: list[str]) -> None:
    steps = (gate("g", when, on=on(success="y", failure="n")), task("y", on=on(success="_end")), task("n"))
    assert Host(plan(*steps)).run().ran() == paths


def test_a_gate_without_a_condition_passes() -> None:
    assert Host(plan(gate("g"))).run().ended == "Completed"


@pytest.mark.rule("D46")
def test_max_visits_ends_the_run() -> None:
    host = Host(plan(task("a", max_visits=3, on=on(success="a")))).run()
    assert (host.reason, host.ran()) == ("cycle_guard", ["a", "a", "a"])


@pytest.mark.rule("D46")
def test_max_transitions_counts_only_steps_that_were_visited_before() -> None:
    steps = [task(f"s{n}") for n in range(20)]
    assert Host(plan(*steps, max_transitions=1)).run().ended == "Completed"


@pytest.mark.rule("G07")
def test_each_visit_takes_the_next_attempt() -> None:
    again = equals(ref("steps", "a", "visits"), 1)
    host = Host(plan(task("a"), gate("g", again, on=on(success="a", failure="_end")))).run()
    assert ran(host) == ["a#1", "a#2"]
    assert host.events("Completed", "Failed")[-1] == "g#2 Failed"


# --- conditions -----------------------------------------------------------------------------------


def probes(host: Host) -> list[tuple[Question, ...]]:
    return [one.questions for one in host.commands if isinstance(one, Probe)]


def test_the_world_is_asked_only_if_it_matters() -> None:
    for when, expected in (
        (All((NO, file("f"))), []),
        (AnyOf((YES, file("f"))), []),
        (AnyOf((NO, file("f"))), [(Question("file", "f"),)]),
        (All((file("f"), EnvSet("E"))), [(Question("file", "f"), Question("env", "E"))]),
        (All((file("f"), file("f"))), [(Question("file", "f"),)]),
        (Not(file("f")), [(Question("file", "f"),)]),
        (All((file("f"), NO)), []),
    ):
        assert probes(Host(plan(task("a", when=when))).start()) == expected


@pytest.mark.parametrize(
    ("files", "env", "paths"), [(set(), set(), []), ({"f"}, set(), []), ({"f"}, {"E"}, ["a"])]
)
def test_answers_decide(files: set[str], env: set[str], paths: list[str]) -> None:
    host = Host(plan(task("a", when=All((file("f"), EnvSet("E"))))))
    host.files, host.env = files, env
    assert host.run().ran() == paths


@pytest.mark.rule("R086")
def test_a_condition_is_asked_once_per_visit_and_not_per_try() -> None:
    host = Host(plan(task("a", when=file("f"), retry=Retry(3))), {"a": 1})
    host.files = {"f"}
    host.run()
    assert len(probes(host)) == 1
    assert ran(host) == ["a#1", "a#2", "a#3"]


@pytest.mark.rule("R086")
def test_a_condition_that_no_longer_holds_does_not_end_the_tries_of_a_step() -> None:
    asked = task("a", when=equals(ref("context", "go"), 1), retry=Retry(2))
    steps = parallel("p", asked, group("g", task("b"), put("s", {"go": 2})))
    host = Host(plan(steps, context={"go": 1})).start()
    host.end("p/a", 1)
    host.end("p/g/b")
    host.fire()
    assert ran(host) == ["p/a#1", "p/g/b#1", "p/a#2"]


def test_a_probe_of_another_visit_has_another_key() -> None:
    host = Host(plan(gate("a", file("f"), on=on(success="a", failure="_end")), max_transitions=3))
    host.files = {"f"}
    host.run()
    keys = [one.key for one in host.commands if isinstance(one, Probe)]
    assert len(set(keys)) == len(keys) == 4


def test_an_answer_that_does_not_fit_its_questions_is_none() -> None:
    host = Host(plan(task("a", when=file("f")))).start()
    (key,) = host.probes
    for answers in (None, [], [True, True], "yes"):
        host.append(EventType.PROBE_ANSWERED, None, 1, key=key, answers=answers)
    assert host.ran() == []
    host.append(EventType.PROBE_ANSWERED, None, 1, key=key, answers=[True])
    host.append(EventType.PROBE_ANSWERED, None, 1, key=key, answers=[True])
    assert ran(host) == ["a#1"]


@pytest.mark.rule("D19")
@pytest.mark.parametrize(
    ("outcome", "state", "expected"),
    [
        (0, "ok", True), (1, "ok", False), (0, "failed", False), (1, "failed", True), (0, "ran", True),
        (None, "skipped", True), (None, "ok", False), (None, "ran", False), (0, "skipped", False),
    ],
)  # fmt: skip
def test_how_a_step_ended_can_be_asked(outcome: int | None, state: Any, expected: bool) -> None:
    first = task("a", when=NO if outcome is None else YES, allow_failure=True)
    host = Host(plan(first, task("b", when=StepIs(state, "a"))), {"a": outcome or 0}).run()
    assert ("b" in host.ran()) is expected


@pytest.mark.rule("D19")
def test_of_a_step_that_has_not_run_everything_is_false() -> None:
    for state in ("ok", "failed", "skipped", "ran"):
        host = Host(plan(task("a", when=StepIs(state, "b")), task("b"))).run()
        assert host.ran() == ["b"]


# --- tries ----------------------------------------------------------------------------------------


@pytest.mark.rule("D44")
@pytest.mark.parametrize(
    ("retry", "delays"),
    [
        (Retry(4, "linear", delay=2), [2, 4, 6]),
        (Retry(5, "exponential", delay=2), [2, 4, 8, 16]),
        (Retry(5, "exponential", delay=2, max_delay=5), [2, 4, 5, 5]),
        (Retry(3, "linear", delay=0), [0, 0]),
    ],
)
def test_the_wait_between_tries_grows(retry: Retry, delays: list[int]) -> None:
    host = Host(plan(task("a", retry=retry))).start()
    found = []
    for _ in delays:
        host.end("a", 1)
        (due,) = host.timers.values()
        found.append(round(_seconds(due) - _seconds(host.now)))
        host.fire()
    assert found == delays
    host.end("a", 1)
    assert host.ended == "Failed"


@pytest.mark.rule("G07")
def test_a_further_try_is_the_next_logical_attempt() -> None:
    host = Host(plan(task("a", retry=Retry(2)))).start()
    host.end("a", 1)
    host.fire()
    assert ran(host) == ["a#1", "a#2"]


@pytest.mark.rule("G41")
def test_the_time_of_a_run_never_runs_back() -> None:
    host = Host(plan(task("a"), task("b"))).start()
    host.wait(60)
    host.end("a", 0)
    later = host.machine.now
    host.now = START
    host.end("b", 0)
    assert host.machine.now >= later


def _seconds(moment: str) -> float:
    hours, minutes, seconds = moment[11:-1].split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)


@pytest.mark.rule("D44")
@pytest.mark.parametrize(
    ("narrowed", "payload", "tries"),
    [
        ((), {"exitCode": 3}, 2),
        ((3,), {"exitCode": 3}, 2),
        ((4,), {"exitCode": 3}, 1),
        (("timeout",), {"exitCode": 3}, 1),
        (("timeout",), {"exitCode": 124, "category": "TIMEOUT"}, 2),
        ((124,), {"exitCode": 124, "category": "TIMEOUT"}, 1),
        (("rate_limit",), {"exitCode": 1, "code": "RATE_LIMIT"}, 2),
        (("rate_limit",), {"exitCode": 1}, 1),
        ((), {"exitCode": 3, "retryable": False}, 1),
        ((), {"exitCode": 124, "category": "TIMEOUT"}, 2),
    ],
)
def test_what_is_tried_again_can_be_narrowed(narrowed: Any, payload: dict[str, Any], tries: int) -> None:
    error = {"category": "USER", "code": "EXIT", "message": "no", "retryable": True, **payload}
    answer = {"exitCode": error.pop("exitCode"), "error": error}
    host = Host(plan(task("a", retry=Retry(2, on=narrowed))), lambda _: answer).run()
    assert len(host.ran()) == tries


@pytest.mark.parametrize(("asked", "least"), [(90_000, 90), (100, 1), (10**400, 86_400), ("x", 1), (None, 1)])
def test_a_server_that_asks_to_wait_longer_is_believed(asked: Any, least: float) -> None:
    host = Host(plan(task("a", retry=Retry(2)))).start()
    error = {"category": "USER", "code": "RATE_LIMIT", "message": "", "retryable": True}
    if asked == 10**400:
        asked = 1e300
    host.end("a", {"exitCode": 1, "error": {**error, "retryAfterMs": asked}})
    host.wait(least - 0.5)
    assert ran(host) == ["a#1"]
    host.wait(1)
    assert ran(host) == ["a#1", "a#2"]


@pytest.mark.rule("D44")
@pytest.mark.rule("G38")
def test_a_finally_failed_step_waits_for_an_operator() -> None:
    host = Host(plan(task("a", retry=Retry(2, operator=100)))).start()
    host.end("a", 1)
    host.fire()
    host.end("a", 1)
    assert host.ended == ""
    assert [one.kind for one in host.machine.obligations()] == ["operator"]
    host.signal("RETRY_STEP", stepId="a")
    assert ran(host)[-1] == "a#3"
    host.end("a", 1)
    host.signal("SKIP_STEP", stepId="a")
    assert "a#4 Skipped" in host.events()
    assert host.ended == "Completed"


@pytest.mark.rule("G38")
def test_the_operator_window_ends_with_the_failure_there_was() -> None:
    host = Host(plan(task("a", retry=Retry(1, operator=100), on=on(failure="b")), task("b"))).start()
    host.end("a", 1)
    host.wait(101)
    assert ran(host) == ["a#1", "b#1"]


@pytest.mark.rule("G38")
def test_a_retry_by_hand_ends_a_backoff() -> None:
    host = Host(plan(task("a", retry=Retry(2, delay=50)))).start()
    host.end("a", 1)
    host.signal("RETRY_STEP", stepId="a")
    assert host.timers == {}
    assert ran(host) == ["a#1", "a#2"]


def test_a_step_in_backoff_can_be_skipped() -> None:
    host = Host(plan(task("a", retry=Retry(2, delay=50)))).start()
    host.end("a", 1)
    host.signal("SKIP_STEP", stepId="a", reason="never mind")
    assert host.last("a", "StepSkipped") == {"reasonCode": "OPERATOR_SKIP", "reason": "never mind"}
    assert host.ended == "Completed"


def test_a_signal_is_for_exactly_the_path_it_names() -> None:
    host = Host(plan(task("a", retry=Retry(2, delay=50)))).start()
    host.end("a", 1)
    for path in ("x/a", "a/a", "a[0]/a", "/a", "a#2", "a ", ""):
        host.signal("RETRY_STEP", stepId=path)
        host.signal("SKIP_STEP", stepId=path)
    assert ignored(host) == 14
    assert ran(host) == ["a#1"]


def test_a_running_step_cannot_be_skipped() -> None:
    host = Host(plan(task("a"))).start()
    host.signal("SKIP_STEP", stepId="a")
    assert ignored(host) == 1
    assert cancelled(host) == []


# --- people ---------------------------------------------------------------------------------------


@pytest.mark.rule("D64")
def test_an_approval_carries_its_form_on() -> None:
    step = task("b", ref("steps", "ok", "form", "size"))
    host = Host(plan(approval("ok", form={"size": FormField("int")}), step)).start()
    assert host.last("ok", "StepStarted") == {"approval": {"message": "May it?"}}
    host.signal("APPROVE", stepId="ok", form={"size": 3}, by="ann")
    (command,) = (one for one in host.commands if isinstance(one, RunTask))
    assert command.values == {("steps", "ok", "form", "size"): 3}
    assert host.last("ok", "StepCompleted")["by"] == "ann"


def test_a_rejection_is_a_failure() -> None:
    host = Host(plan(approval("ok"))).start()
    host.signal("REJECT", stepId="ok", reason="too big")
    assert host.last("ok", "StepFailed")["error"] == {
        "category": "USER", "code": "REJECTED", "message": "too big", "retryable": False,
    }  # fmt: skip
    assert host.ended == "Failed"


@pytest.mark.rule("D64")
def test_nobody_answering_in_time_is_a_timeout() -> None:
    host = Host(plan(approval("ok", timeout=60, on=on(timeout="z")), task("z"))).start()
    host.wait(61)
    assert host.ran() == ["z"]
    host.signal("APPROVE", stepId="ok")
    assert ignored(host) == 1


def test_an_answer_without_a_step_is_for_the_only_one_that_asks() -> None:
    host = Host(plan(approval("ok"))).start()
    host.signal("APPROVE")
    assert host.ended == "Completed"
    host = Host(plan(parallel("p", approval("a"), approval("b")))).start()
    host.signal("APPROVE")
    assert ignored(host) == 1


def test_a_rejection_aimed_at_a_step_is_forgotten_when_it_is_tried_again() -> None:
    host = Host(plan(task("a"), approval("ok"), task("z"))).start()
    host.end("a")
    host.signal("PAUSE")
    host.signal("REJECT", stepId="ok", to="a")
    host.signal("RETRY_STEP", stepId="ok")
    host.signal("RESUME")
    host.signal("APPROVE", stepId="ok")
    assert ran(host) == ["a#1", "z#1"]


# --- in doubt -------------------------------------------------------------------------------------


def doubtful(what: str) -> Host:
    host = Host(
        plan(
            task("a", idempotent=False, on_doubt=what, on=on(success="b", failure="c")), task("b"), task("c")
        )
    )
    host.start()
    host.begin("a")
    host.append(EventType.STEP_INTERRUPTED, "a", 1)
    return host


def test_a_doubtful_step_that_shall_fail_fails_without_tries() -> None:
    assert doubtful("fail").ran() == ["a", "c"]


@pytest.mark.parametrize(
    ("signal", "then"),
    [("APPROVE", "b#1"), ("REJECT", "c#1"), ("RETRY_STEP", "a#2"), ("SKIP_STEP", "b#1")],
)
def test_a_person_says_what_became_of_a_doubtful_step(signal: str, then: str) -> None:
    host = doubtful("ask")
    assert [one.kind for one in host.machine.obligations()] == ["doubt"]
    host.signal(signal, stepId="a")
    assert ran(host)[-1] == then


def test_an_idempotent_step_is_never_in_doubt() -> None:
    host = Host(plan(task("a"))).start()
    host.begin("a")
    before = host.machine.outstanding()
    host.append(EventType.STEP_INTERRUPTED, "a", 1)
    assert host.machine.outstanding() == before


# --- context, budget ------------------------------------------------------------------------------


@pytest.mark.rule("D64")
def test_set_creates_and_replaces_context_keys() -> None:
    steps = (
        put("s", {"n": 2, "deep": DataMap({"x": text("v", ref("context", "n"))})}),
        task("a", ref("context", "n"), ref("context", "deep", "x"), ref("context", "other")),
    )
    host = Host(plan(*steps, context={"n": 1, "other": "kept"})).run()
    (command,) = (one for one in host.commands if isinstance(one, RunTask))
    assert command.values == {
        ("context", "n"): 2,
        ("context", "deep", "x"): "v1",
        ("context", "other"): "kept",
    }


def test_set_of_what_is_missing_fails_and_changes_nothing() -> None:
    steps = (
        put("s", {"n": 2, "m": ref("context", "no")}, on=on(failure="a")),
        task("a", ref("context", "n")),
    )
    host = Host(plan(*steps, context={"n": 1})).run()
    (command,) = (one for one in host.commands if isinstance(one, RunTask))
    assert command.values == {("context", "n"): 1}


def test_update_params_changes_what_is_evaluated_later() -> None:
    host = Host(plan(task("a"), task("b", ref("context", "n")), context={"n": 1})).start()
    host.signal("UPDATE_PARAMS", params={"context": {"n": 5}})
    host.end("a")
    (command,) = (one for one in host.commands if isinstance(one, RunTask) and one.path == "b")
    assert command.values == {("context", "n"): 5}


@pytest.mark.parametrize(
    "params", [None, [], {}, {"context": 3}, {"budget": {"usd": "x"}}, {"budget": {"usd": [], "tokens": {}}}]
)
def test_update_params_with_nonsense_changes_nothing(params: Any) -> None:
    host = Host(plan(task("a"), agent("b"), budget=Budget(usd=1))).start()
    host.signal("UPDATE_PARAMS", params=params)
    host.end("a", usage={"costUsd": 2})
    assert run_events(host) == ["RunPaused"]


def test_tokens_are_a_budget_too() -> None:
    host = Host(plan(agent("a"), agent("b"), budget=Budget(tokens=100))).start()
    host.end("a", usage={"tokens": 100})
    assert run_events(host) == ["RunPaused"]
    assert host.payload(-1)["reason"] == "budget"
    assert [one.kind for one in host.machine.obligations()] == ["hold"]


def test_a_provider_is_expected_to_cost_what_it_cost_before() -> None:
    host = Host(plan(agent("a"), agent("b"), budget=Budget(usd=1))).start()
    host.end("a", usage={"costUsd": 0.6})
    assert run_events(host) == ["RunPaused"]


def test_failed_tries_are_charged_too() -> None:
    host = Host(plan(agent("a", retry=Retry(2)), budget=Budget(usd=1))).start()
    host.end("a", 1, usage={"costUsd": 1})
    host.fire()
    assert run_events(host) == ["RunPaused"]


@pytest.mark.rule("D65")
def test_a_step_in_a_graph_may_end_the_run() -> None:
    steps = (task("a", on=on(success="_end")), task("b"), task("c", depends_on=("a",)))
    host = Host(plan(graph("g", *steps))).start()
    host.end("g/a")
    assert cancelled(host) == ["g/b"]
    host.end("g/b")
    assert (host.ended, host.ran()) == ("Completed", ["g/a", "g/b"])


@pytest.mark.rule("D65")
def test_a_failure_that_is_allowed_satisfies_the_dependants_of_a_step() -> None:
    steps = (task("a", allow_failure=True), task("b", depends_on=("a",)))
    host = Host(plan(graph("g", *steps)), {"a": 1}).run()
    assert (host.ran(), host.ended) == (["g/a", "g/b"], "Completed")


@pytest.mark.rule("D65")
def test_a_graph_may_be_the_whole_workflow() -> None:
    steps = (task("a"), task("b", depends_on=("a",)), task("c", depends_on=("a",)))
    host = Host(plan(*steps, discipline="graph"), {"b": 1}).run()
    assert (host.ended, host.exit_code) == ("Failed", 1)
    assert host.ran() == ["a", "b", "c"]


def test_the_time_of_a_run_is_that_of_its_events() -> None:
    host = Host(plan(task("a"))).start()
    assert host.machine.now == START


def test_a_task_is_given_what_the_environment_of_its_workflow_names() -> None:
    host = Host(
        """
        inputs: {word: {type: string, default: hello}}
        env: {WORD: "${inputs.word}"}
        steps: [{name: a, command: [echo]}]
        """
    ).start()
    assert host.tasks["a", 1].values == {("inputs", "word"): "hello"}


@pytest.mark.rule("D64")
def test_an_approval_with_an_unfilled_form_is_ignored_and_the_question_stays() -> None:
    host = Host("steps: [{name: Ask, approval: {message: Ship?, form: {channel: {required: true}}}}]").start()
    host.signal("APPROVE", stepId="Ask")
    assert (host.ended, host.log[-1].event_type) == ("", "SignalIgnored")
    assert host.payload(-1)["reason"] == "the form needs the field 'channel' (string)"
    assert host.payload(-1)["code"] == "SIGNAL_INVALID_PAYLOAD"
    for wrong in ({"channel": 1}, {"channel": "beta", "more": "x"}, ["channel"], "beta"):
        host.signal("APPROVE", stepId="Ask", form=wrong)
        assert (host.ended, host.log[-1].event_type) == ("", "SignalIgnored")
    host.signal("APPROVE", stepId="Ask", form={"channel": "beta"})
    assert host.ended == "Completed"
