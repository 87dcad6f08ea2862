"""INJECT_OVERRIDE and UPDATE_TARGET: what an attempt gets, by what the signal finds."""

from typing import Any

import pytest

from podium.log.events import EventType
from podium.machine import Machine
from podium.machine.commands import RunTask
from podium.plan.plan import Agent, Approval, Command, Http, Python, Retry
from tests.unit.machine.hosting import Host

ONE = """
steps:
  - {name: a, command: [tool], env: {MODE: slow, KEEP: "1"}}
  - {name: b, command: [tool], retry: {attempts: 2, delay: 10}}
"""


def started(text: str) -> Host:
    return Host(text).start()


def override(host: Host, path: str, **values: Any) -> None:
    host.signal("INJECT_OVERRIDE", stepId=path, override=values, reason="needed")


def launched(host: Host, path: str) -> RunTask:
    return next(one for one in reversed(host.commands) if isinstance(one, RunTask) and one.path == path)


def env_of(host: Host, path: str) -> dict[str, Any]:
    body = launched(host, path).step.body
    assert isinstance(body, Command)
    return body.work.env


def refused(host: Host) -> dict[str, Any]:
    last = host.log[-1]
    assert last.event_type == EventType.SIGNAL_IGNORED
    return host.payload(-1)


def restored(host: Host) -> Machine:
    """The same machine from its checkpoint, through bytes."""
    saved = host.machine.checkpoint("sha")
    return Machine.restore(host.plan, saved, "sha")


# --- what it finds --------------------------------------------------------------------------------


@pytest.mark.rule("SS01", "SS06")
def test_a_step_that_was_not_reached_gets_the_override() -> None:
    host = started(ONE)
    override(host, "b", env={"MODE": "fast"}, timeout=5)
    host.end("a")
    task = launched(host, "b")
    assert env_of(host, "b") == {"MODE": "fast"}
    assert task.step.timeout == 5
    assert task.facts == {"overriddenBy": ["INJECT_OVERRIDE-1"]}


def test_the_step_itself_keeps_what_the_override_does_not_name() -> None:
    host = Host(ONE)
    override(host, "a", env={"MODE": "fast"})
    host.start()
    assert env_of(host, "a") == {"MODE": "fast", "KEEP": "1"}


@pytest.mark.rule("SS01", "SS02")
def test_an_attempt_that_has_been_launched_keeps_what_it_got_and_its_next_try_gets_the_override() -> None:
    host = started(ONE)
    host.end("a")
    before = launched(host, "b")
    override(host, "b", env={"MODE": "fast"})
    assert launched(host, "b") == before
    assert launched(host, "b").change is None
    host.end("b", 1)
    host.fire()
    assert (launched(host, "b").attempt, env_of(host, "b")) == (2, {"MODE": "fast"})


def test_a_step_that_waits_for_its_next_try_gets_the_override_with_it() -> None:
    host = started(ONE)
    host.end("a")
    host.end("b", 1)
    override(host, "b", env={"MODE": "fast"})
    host.signal("RETRY_STEP", stepId="b")
    assert (launched(host, "b").attempt, env_of(host, "b")) == (2, {"MODE": "fast"})


@pytest.mark.rule("SS01")
def test_a_step_that_an_operator_may_retry_gets_the_override() -> None:
    host = started("steps: [{name: a, command: [tool], retry: {attempts: 1, operator: 600}}]")
    host.end("a", 1)
    override(host, "a", env={"MODE": "fast"})
    assert [one.kind for one in host.machine.obligations()] == ["operator"]
    host.signal("RETRY_STEP", stepId="a")
    assert env_of(host, "a") == {"MODE": "fast"}
    host.end("a")
    assert host.ended == "Completed"


def test_a_step_in_doubt_gets_the_override_when_it_is_retried() -> None:
    host = started("steps: [{name: a, command: [tool], idempotent: false, on_doubt: ask}]")
    host.begin("a")
    host.append(EventType.STEP_INTERRUPTED, "a", 1)
    override(host, "a", env={"MODE": "fast"})
    host.signal("RETRY_STEP", stepId="a")
    assert env_of(host, "a") == {"MODE": "fast"}


@pytest.mark.rule("SS01")
def test_an_override_releases_no_hold() -> None:
    host = started(ONE)
    host.signal("PAUSE")
    host.end("a")
    override(host, "b", env={"MODE": "fast"})
    assert host.ran() == ["a"]
    host.signal("RESUME")
    assert env_of(host, "b") == {"MODE": "fast"}


def test_a_step_that_failed_while_the_run_is_paused_can_be_changed_and_retried() -> None:
    host = started(ONE)
    host.signal("PAUSE")
    host.end("a", 1)
    override(host, "a", env={"MODE": "fast"})
    host.signal("RETRY_STEP", stepId="a")
    host.signal("RESUME")
    assert env_of(host, "a") == {"MODE": "fast", "KEEP": "1"}


@pytest.mark.parametrize("is_paused", [True, False])
@pytest.mark.rule("SS08")
def test_a_step_that_completed_cannot_be_changed(is_paused: bool) -> None:
    host = started(ONE)
    if is_paused:
        host.signal("PAUSE")
    host.end("a")
    override(host, "a", timeout=5)
    assert refused(host)["code"] == "STEP_TERMINAL"
    assert host.machine.changes == {}


@pytest.mark.rule("SS02")
def test_a_step_that_completed_can_be_changed_if_the_flow_may_return_to_it() -> None:
    host = started(
        """
        steps:
          - {name: a, command: [tool]}
          - {name: b, command: [tool], on: {success: {end: true}, failure: {goto: a}}}
        """
    )
    host.end("a")
    override(host, "a", env={"MODE": "fast"})
    host.end("b", 1)
    assert env_of(host, "a") == {"MODE": "fast"}


@pytest.mark.rule("SS02")
def test_a_failed_step_of_an_open_graph_is_changed_and_retried_with_its_dependants() -> None:
    host = started(
        """
        steps:
          - name: g
            steps:
              - {name: a, command: [tool]}
              - {name: open, command: [tool]}
              - {name: c, command: [tool], depends_on: [a]}
        """
    )
    host.end("g/a", 1)
    assert host.events("Skipped") == ["g/c#1 Skipped"]
    override(host, "g/a", env={"MODE": "fast"})
    override(host, "g/c", timeout=7)
    host.signal("RETRY_STEP", stepId="g/a")
    assert env_of(host, "g/a") == {"MODE": "fast"}
    host.end("g/a", attempt=2)
    assert (launched(host, "g/c").attempt, launched(host, "g/c").step.timeout) == (2, 7)


LOOP = """
steps:
  - name: l
    for_each: {items: [x, y, z], steps: [{name: a, command: [tool]}]}
"""


@pytest.mark.rule("SS03")
def test_a_path_without_index_is_every_iteration_that_starts_from_now_on() -> None:
    host = started(LOOP)
    override(host, "l/a", env={"MODE": "fast"})
    assert launched(host, "l[0]/a").change is None
    host.end("l[0]/a")
    assert env_of(host, "l[1]/a") == {"MODE": "fast"}
    host.end("l[1]/a")
    assert env_of(host, "l[2]/a") == {"MODE": "fast"}


@pytest.mark.rule("SS03")
def test_a_path_with_an_index_is_that_iteration_only_and_adds_to_the_step() -> None:
    host = started(LOOP)
    override(host, "l/a", env={"MODE": "fast", "A": "1"})
    override(host, "l[2]/a", env={"MODE": "slow"})
    host.end("l[0]/a")
    assert env_of(host, "l[1]/a") == {"MODE": "fast", "A": "1"}
    host.end("l[1]/a")
    assert env_of(host, "l[2]/a") == {"MODE": "slow", "A": "1"}
    assert launched(host, "l[2]/a").facts == {"overriddenBy": ["INJECT_OVERRIDE-1", "INJECT_OVERRIDE-2"]}


@pytest.mark.rule("SS03")
def test_a_later_change_replaces_what_it_names_and_keeps_the_rest() -> None:
    host = Host(ONE)
    override(host, "a", env={"MODE": "fast", "A": "1"}, timeout=5, retry={"attempts": 2, "delay": 3})
    override(host, "a", env={"A": "2"}, retry={"delay": 4})
    host.signal("UPDATE_TARGET", stepId="a", newTarget="sub", reason="needed")
    override(host, "a", timeout=6)
    task = launched(host.start(), "a")
    assert env_of(host, "a") == {"MODE": "fast", "KEEP": "1", "A": "2"}
    assert (task.step.timeout, task.step.retry) == (6, Retry(attempts=2, delay=4))
    assert isinstance(task.step.body, Command)
    assert task.step.body.work.workdir == "sub"


@pytest.mark.rule("SS08")
def test_an_iteration_that_is_over_cannot_be_changed() -> None:
    host = started(LOOP)
    host.end("l[0]/a")
    override(host, "l[0]/a", timeout=5)
    assert refused(host)["code"] == "STEP_TERMINAL"


@pytest.mark.rule("SS03")
def test_a_further_try_of_a_block_keeps_the_override_of_a_step_in_it() -> None:
    host = started(
        """
        steps:
          - {name: g, retry: {attempts: 2, delay: 0}, steps: [{name: a, command: [tool]}]}
        """
    )
    host.end("g/a", 1)
    host.fire()
    assert launched(host, "g#2/a").change is None
    host = started("steps: [{name: g, retry: {attempts: 2, delay: 1}, steps: [{name: a, command: [tool]}]}]")
    override(host, "g/a", env={"MODE": "fast"})
    host.end("g/a", 1)
    host.fire()
    assert env_of(host, "g#2/a") == {"MODE": "fast"}


def test_a_step_of_finally_can_be_changed_before_it_and_in_it() -> None:
    text = """
    steps: [{name: a, command: [tool]}]
    finally: [{name: y, command: [tool]}, {name: z, command: [tool]}]
    """
    host = started(text)
    override(host, "_finally/y", env={"MODE": "fast"})
    host.end("a")
    override(host, "_finally/z", timeout=9)
    assert env_of(host, "_finally/y") == {"MODE": "fast"}
    override(host, "a", timeout=9)
    assert refused(host)["code"] == "STEP_TERMINAL"
    host.end("_finally/y")
    assert launched(host, "_finally/z").step.timeout == 9


@pytest.mark.rule("SS01")
def test_more_tries_can_be_given_to_a_step_that_runs() -> None:
    host = started("steps: [{name: a, command: [tool]}]")
    override(host, "a", retry={"attempts": 2, "delay": 3})
    assert launched(host, "a").step.retry is None
    host.end("a", 1)
    assert [one.kind for one in host.machine.obligations()] == ["timer"]
    host.fire()
    assert launched(host, "a").step.retry == Retry(attempts=2, delay=3)


@pytest.mark.rule("SS01", "SS05", "SS06")
def test_an_approval_asks_the_new_question_of_the_new_person() -> None:
    host = started("steps: [{name: a, command: [tool]}, {name: ok, approval: {message: 'May it?'}}]")
    override(host, "ok", message="${context.x} may it?", timeout=60)
    host.signal("UPDATE_TARGET", stepId="ok", newTarget="ann", reason="on leave")
    host.end("a")
    assert host.payload(-1) == {
        "approval": {"message": "${context.x} may it?", "assignee": "ann"},
        "overriddenBy": ["INJECT_OVERRIDE-1", "UPDATE_TARGET-1"],
    }
    assert host.machine.obligations()[0].deadline is not None


# --- what may be changed --------------------------------------------------------------------------

KINDS = """
secrets: [TOKEN]
steps:
  - {name: wait, command: [tool]}
  - {name: c, command: [tool], secrets: [TOKEN]}
  - {name: h, http: {url: "https://example.com", headers: {Accept: x}, body: {a: 1}}}
  - {name: p, python: {function: "mod:f", args: {x: 1, y: 2}}}
  - {name: g, provider: claude, prompt: "hi", model: opus}
  - {name: ok, approval: {message: "May it?"}}
  - {name: s, set: {x: 1}}
"""


def changed_body(path: str, **signals: Any) -> Any:
    host = Host(KINDS)
    if "override" in signals:
        override(host, path, **signals["override"])
    if "target" in signals:
        host.signal("UPDATE_TARGET", stepId=path, newTarget=signals["target"], reason="needed")
    host.start()
    host.run()
    return launched(host, path).step.body


@pytest.mark.rule("SS04", "SS05")
def test_a_request_gets_other_headers_another_body_and_another_address() -> None:
    change = {"headers": {"accept": "${env.HOME}"}, "body": {"t": "${context.x}", "n": [1, None]}}
    body = changed_body("h", override=change, target="https://example.org/x")
    assert isinstance(body, Http)
    assert (body.url, body.headers) == ("https://example.org/x", {"accept": "${env.HOME}"})
    from podium.expressions.templates import fill_in

    def lookup(path: Any) -> Any:
        raise AssertionError(f"{path} was read")

    assert fill_in(body.body, lookup) == {"t": "${context.x}", "n": [1, None]}


@pytest.mark.rule("SS04", "SS05")
def test_a_function_gets_other_arguments_and_another_directory() -> None:
    body = changed_body("p", override={"args": {"y": "${env.X}"}}, target="sub")
    assert isinstance(body, Python)
    assert (body.args, body.work.workdir) == ({"x": 1, "y": "${env.X}"}, "sub")


@pytest.mark.parametrize(
    ("target", "wanted"),
    [("codex", ("codex", None)), ("openai/gpt-5/mini", ("openai", "gpt-5/mini"))],
)
@pytest.mark.rule("SS05")
def test_an_agent_gets_another_provider_and_not_the_model_of_the_old_one(target: str, wanted: Any) -> None:
    body = changed_body("g", override={"prompt": "${x}"}, target=target)
    assert isinstance(body, Agent)
    assert (body.provider, body.model) == wanted
    assert body.prompt.text == "${x}"


@pytest.mark.parametrize(
    ("path", "change", "said"),
    [
        ("c", {"command": ["rm"]}, "no field 'command'"),
        ("c", {"secrets": ["TOKEN"]}, "no field 'secrets'"),
        ("c", {"env": {"TOKEN": "x"}}, "secret"),
        ("c", {"env": {"PODIUM_RUN": "x"}}, "belongs to Podium"),
        ("c", {"env": {"OK": "1", "PATH": "/tmp/evil"}}, "'PATH' in 'env' chooses which code runs"),
        ("c", {"env": {"LD_PRELOAD": "/tmp/evil.so"}}, "chooses which code runs"),
        ("p", {"env": {"PYTHONPATH": "/tmp/evil"}}, "chooses which code runs"),
        ("c", {"env": {"a=b": "x"}}, "not a possible variable"),
        ("c", {"env": {"A": 1}}, "has to be a string"),
        ("c", {"timeout": 0}, "more than 0"),
        ("c", {"timeout": True}, "has to be a number"),
        ("c", {"timeuot": 1}, "did you mean 'timeout'"),
        ("c", {"retry": {"attempts": 0}}, "at least 1"),
        ("c", {"retry": {"on": ["timeout"]}}, "no field 'on'"),
        ("c", {}, "is empty"),
        ("c", {"prompt": "x"}, "no field 'prompt'"),
        ("h", {"headers": {"A": "x\r\nB: y"}}, "not a possible header"),
        ("g", {"max_cost": float("nan")}, "max_cost"),
        ("s", {"timeout": 1}, "nothing that can be overridden"),
    ],
)
@pytest.mark.rule("SS04")
def test_what_a_step_of_its_kind_does_not_have_is_refused(
    path: str, change: dict[str, Any], said: str
) -> None:
    host = started(KINDS)
    override(host, path, **change)
    assert refused(host)["code"] == "SIGNAL_INVALID_PAYLOAD"
    assert said in refused(host)["reason"]
    assert host.machine.changes == {}


@pytest.mark.parametrize(
    ("path", "target", "said"),
    [
        ("h", "file:///etc/passwd", "starts with https://"),
        ("h", "https://", "starts with https://"),
        ("h", "https://me:pw@example.com", "password"),
        ("h", "https://example.com:99999", "is not a URL"),
        ("g", "openai/", "neither a provider"),
        ("g", "../x", "neither a provider"),
        ("c", "a\nb", "control characters"),
        ("s", "x", "has no target"),
    ],
)
@pytest.mark.rule("SS05")
def test_a_target_that_a_step_cannot_have_is_refused(path: str, target: str, said: str) -> None:
    host = started(KINDS)
    host.signal("UPDATE_TARGET", stepId=path, newTarget=target, reason="needed")
    assert refused(host)["code"] == "SIGNAL_INVALID_PAYLOAD"
    assert said in refused(host)["reason"]


@pytest.mark.parametrize("kind", ["INJECT_OVERRIDE", "UPDATE_TARGET", "SKIP_STEP", "RETRY_STEP"])
@pytest.mark.rule("SS08")
def test_a_step_that_the_plan_does_not_have_is_refused_with_what_it_could_be(kind: str) -> None:
    host = started("steps: [{name: deploy, command: [tool]}]")
    host.signal(kind, stepId="deplpy", override={"timeout": 1}, newTarget="x", reason="needed")
    assert refused(host)["code"] == "SIGNAL_INVALID_PAYLOAD"
    assert "did you mean 'deploy'" in refused(host)["reason"]


# --- how long it lasts ----------------------------------------------------------------------------


@pytest.mark.rule("SS02")
def test_a_checkpoint_keeps_what_was_changed_and_what_an_attempt_was_launched_with() -> None:
    host = started(ONE)
    override(host, "a", retry={"attempts": 3})
    override(host, "b", env={"MODE": "fast"})
    host.end("a")
    override(host, "b", env={"MODE": "later"})
    machine = restored(host)
    assert machine.outstanding() == host.machine.outstanding()
    assert machine.changes == host.machine.changes
    (task,) = (one for one in machine.outstanding() if isinstance(one, RunTask))
    assert isinstance(task.step.body, Command)
    assert task.step.body.work.env == {"MODE": "fast"}


@pytest.mark.rule("SS02")
def test_a_reopened_run_keeps_the_override() -> None:
    host = started("steps: [{name: a, command: [tool]}]")
    override(host, "a", env={"MODE": "fast"})
    host.end("a", 1)
    assert host.ended == "Failed"
    host.append(EventType.RUN_REOPENED, None, 2)
    assert (launched(host, "a").attempt, env_of(host, "a")) == (2, {"MODE": "fast"})


def test_what_was_changed_in_a_step_of_another_kind_changes_nothing() -> None:
    """The workflow of a run can be replaced after the signal."""
    other = Host(ONE.replace('command: [tool], env: {MODE: slow, KEEP: "1"}', "approval: {message: m}"))
    override(other, "b", env={"MODE": "fast"})
    other.machine.changes["a"] = other.machine.changes.pop("b")
    other.start()
    assert other.payload(-1)["approval"] == {"message": "m"}
    assert isinstance(other.plan.workflow.block.steps[0].body, Approval)
