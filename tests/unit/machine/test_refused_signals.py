"""Signals about steps that come too early, too late or with force: what they do, and the code of a refusal."""

from typing import Any

import msgspec
import pytest

from podium.log.events import EventType
from podium.machine.commands import CancelTask
from podium.machine.signals import objection
from tests.unit.machine.building import approval, call, for_each, graph, group, parallel, plan, task, workflow
from tests.unit.machine.hosting import Host
from tests.unit.machine.test_interactions import ran


def code_of(host: Host, signal: str, path: str, **payload: Any) -> str | None:
    """What a signal is refused with; None: it has an effect."""
    objected = objection(host.machine, signal, {"stepId": path})
    if objected is not None:
        return objected.code
    before = len(host.log)
    host.signal(signal, stepId=path, **payload)
    refusals = [
        host.payload(index)["code"]
        for index in range(before, len(host.log))
        if host.log[index].event_type == EventType.SIGNAL_IGNORED
    ]
    return refusals[0] if refusals else None


def running(*steps: Any) -> Host:
    return Host(plan(*steps)).start()


@pytest.mark.parametrize(
    ("signal", "code"), [("SKIP_STEP", "STEP_RUNNING"), ("RETRY_STEP", "STEP_NOT_TERMINAL")]
)
@pytest.mark.rule("SS08")
def test_a_step_that_is_running(signal: str, code: str) -> None:
    assert code_of(running(task("a")), signal, "a") == code
    assert code_of(running(approval("a")), signal, "a") == code
    assert code_of(running(group("g", task("a"))), signal, "g") == code
    assert code_of(running(for_each("l", 2, task("a"))), signal, "l[0]/a") == code


@pytest.mark.parametrize("signal", ["SKIP_STEP", "RETRY_STEP"])
@pytest.mark.rule("SS08")
def test_a_step_that_has_ended(signal: str) -> None:
    host = running(task("a"), for_each("l", 2, task("b")), graph("g", task("x"), task("y")), task("z"))
    host.end("a")
    host.end("l[0]/b")
    assert code_of(host, signal, "a") == "STEP_TERMINAL"
    assert code_of(host, signal, "l[0]/b") == "STEP_TERMINAL"
    host.end("l[1]/b")
    host.end("g/x")
    assert code_of(host, signal, "g/x") == "STEP_TERMINAL"
    host.end("g/y")
    for path in ("l[1]/b", "g/y", "l", "g"):
        assert code_of(host, signal, path) == "STEP_TERMINAL"


@pytest.mark.parametrize("signal", ["SKIP_STEP", "RETRY_STEP"])
@pytest.mark.rule("SS08")
def test_a_step_that_has_ended_while_the_run_is_paused(signal: str) -> None:
    host = running(task("a"), task("b"))
    host.signal("PAUSE")
    host.end("a")
    assert code_of(host, signal, "a") == "STEP_TERMINAL"


@pytest.mark.rule("SS08")
def test_a_step_that_was_not_reached_is_skipped_and_not_retried() -> None:
    host = running(task("a"), task("b"), group("g", task("c")))
    assert code_of(host, "RETRY_STEP", "b") == "STEP_NOT_TERMINAL"
    assert code_of(host, "RETRY_STEP", "g/c") == "STEP_NOT_TERMINAL"
    assert code_of(host, "SKIP_STEP", "g/c") == "SIGNAL_IGNORED"
    assert code_of(host, "SKIP_STEP", "b") is None


@pytest.mark.rule("SS08")
def test_steps_in_a_call_and_in_its_finally() -> None:
    inner = workflow(task("i"), cleanup=(task("f"),))
    host = running(call("c", inner), task("z"))
    assert code_of(host, "RETRY_STEP", "c/_finally/f") == "STEP_NOT_TERMINAL"
    host.end("c/i")
    assert code_of(host, "RETRY_STEP", "c/i") == "STEP_TERMINAL"
    assert code_of(host, "SKIP_STEP", "c/_finally/f") == "STEP_RUNNING"
    host.end("c/_finally/f")
    assert code_of(host, "SKIP_STEP", "c/_finally/f") == "STEP_TERMINAL"


@pytest.mark.rule("SS08")
def test_branches_that_have_ended_or_wait_for_a_worker() -> None:
    host = running(parallel("p", task("a"), task("b"), task("c"), max_workers=2))
    host.end("p/a")
    assert code_of(host, "RETRY_STEP", "p/a") == "STEP_TERMINAL"
    assert code_of(host, "RETRY_STEP", "p/b") == "STEP_NOT_TERMINAL"
    host = running(parallel("p", task("a"), task("b"), max_workers=1))
    assert code_of(host, "RETRY_STEP", "p/b") == "STEP_NOT_TERMINAL"


@pytest.mark.parametrize("signal", ["SKIP_STEP", "RETRY_STEP", "INJECT_OVERRIDE"])
@pytest.mark.parametrize(
    "path", ["nowhere", "a/b", "a[0]", "", "_finally/a", "g[0]/x", "l[0]/m/x", "l[0]/m[1]/x#2"]
)
@pytest.mark.rule("SS08")
def test_a_path_that_leads_to_no_step_of_the_plan(signal: str, path: str) -> None:
    nested = for_each("l", 2, for_each("m", 2, task("x")))
    host = running(task("a"), group("g", task("x")), nested)
    assert code_of(host, signal, path, override={"timeout": 1}) == "SIGNAL_INVALID_PAYLOAD"


# --- force ----------------------------------------------------------------------------------------


@pytest.mark.rule("SS09")
def test_a_retry_with_force_repeats_a_step_that_completed_while_the_run_is_paused() -> None:
    host = running(task("a"), task("b"))
    host.signal("PAUSE")
    host.end("a")
    assert code_of(host, "RETRY_STEP", "a", force=False) == "STEP_TERMINAL"
    assert code_of(host, "RETRY_STEP", "a", force=True) is None
    host.signal("RESUME")
    assert ran(host) == ["a#1", "a#2"]
    host.end("a")
    host.end("b")
    assert host.ended == "Completed"


@pytest.mark.rule("SS09")
def test_a_retry_with_force_repeats_a_step_of_a_graph_whose_dependants_have_not_started() -> None:
    host = running(graph("g", task("a"), task("open"), task("c", depends_on=("a", "open"))))
    host.end("g/a")
    assert code_of(host, "RETRY_STEP", "g/a") == "STEP_TERMINAL"
    assert code_of(host, "RETRY_STEP", "g/a", force=True) is None
    host.end("g/open")
    assert ran(host) == ["g/a#1", "g/open#1", "g/a#2"]
    host.end("g/a")
    host.end("g/c")
    assert host.ended == "Completed"


@pytest.mark.rule("SS09")
def test_a_retry_with_force_of_a_step_whose_dependants_have_started_is_refused() -> None:
    host = running(graph("g", task("a"), task("open"), task("c", depends_on=("a",))))
    host.end("g/a")
    assert code_of(host, "RETRY_STEP", "g/a", force=True) == "STEP_TERMINAL"
    host.run()
    assert ran(host).count("g/a#2") == 0


@pytest.mark.rule("SS09")
def test_a_retry_with_force_keeps_back_what_a_stopping_graph_had_held_back() -> None:
    steps = (task("a"), task("bad", error_action="stop"), task("open"), task("c", depends_on=("a",)))
    host = running(graph("g", *steps))
    host.end("g/bad", 1)
    host.end("g/a")
    assert code_of(host, "RETRY_STEP", "g/a", force=True) is None
    host.signal("RETRY_STEP", stepId="g/bad")
    assert "g/c#1" not in ran(host)
    host.run()
    assert ran(host).count("g/c#1") == 1
    assert host.ended == "Completed"


@pytest.mark.parametrize("force_kill", [None, True, False])
@pytest.mark.rule("SS09")
def test_an_emergency_stop_runs_no_finally_and_kills_unless_that_is_not_wanted(
    force_kill: bool | None,
) -> None:
    inner = workflow(task("i"), cleanup=(task("f"),))
    host = Host(plan(parallel("p", task("a"), call("c", inner)), cleanup=(task("z"),))).start()
    payload = {} if force_kill is None else {"forceKill": force_kill}
    host.signal("EMERGENCY_STOP", reason="fire", **payload)
    stops = [one for one in host.commands if isinstance(one, CancelTask)]
    assert {one.path: one.force for one in stops} == {
        "p/a": force_kill is not False,
        "p/c/i": force_kill is not False,
    }
    assert {one.code for one in stops} == {"CANCELLED"}
    for path in ("p/a", "p/c/i"):
        host.end(path)
    assert host.ended == "Cancelled"
    assert host.ran() == ["p/a", "p/c/i"]


@pytest.mark.rule("SS09")
def test_a_second_stop_kills_what_the_first_one_left_time() -> None:
    host = running(task("a"))
    host.signal("EMERGENCY_STOP", reason="fire", forceKill=False)
    host.signal("CANCEL")
    assert [one.force for one in host.commands if isinstance(one, CancelTask)] == [False, True]


# --- signals that are decided elsewhere -----------------------------------------------------------


@pytest.mark.parametrize("signal", ["APPROVE", "REJECT"])
def test_the_approval_of_a_run_that_has_not_started_is_not_ignored(signal: str) -> None:
    host = Host(plan(task("a")))
    host.signal(signal, planSha256="0" * 64)
    assert [record.event_type for record in host.log] == ["SignalAccepted"]
    host.signal(signal, stepId="a")
    assert host.log[-1].event_type == "SignalIgnored"
    host.start()
    host.signal(signal)
    assert host.log[-1].event_type == "SignalIgnored"


@pytest.mark.parametrize("signal", ["RETRY_RUN", "ESCALATE_ALERT"])
def test_signals_about_other_things_than_the_run_leave_it_alone(signal: str) -> None:
    host = running(task("a"))
    before = msgspec.json.decode(host.machine.checkpoint())
    host.signal(signal, level="P1")
    assert host.log[-1].event_type == "SignalAccepted"
    after = msgspec.json.decode(host.machine.checkpoint())
    assert {**after, "last_seq": before["last_seq"]} == before
