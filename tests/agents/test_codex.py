"""Codex, the real one: what it does, and what Podium makes of it. Each row of the table was measured."""

import signal

import pytest

from podium.expressions.json_schema import schema_problem
from podium.ports.provider import AgentSettings, Usage
from podium.providers.results import repair_prompt
from tests.agents.asking import VERDICT, Desk, signalled
from tests.agents.servers import Calls, Refuses, Says, Turn, Waits

PROGRAM = "codex"
TOUCH = Calls("exec_command", {"cmd": "touch made"})
PLAIN = AgentSettings()


def test_a_tool_is_used_and_the_answer_comes_with_session_and_tokens(desk: Desk) -> None:
    answer = desk.ask([TOUCH, Says("made it")])
    assert (answer.exit_code, answer.code, answer.outcome.text) == (0, None, "made it")
    assert (desk.workspace / "made").exists()
    assert answer.outcome.usage == Usage(24, 10, 6)
    named = [one.session_id for one in answer.progress if one.session_id]
    assert named == [answer.outcome.session_id]
    assert any(
        one.tool == "command_execution" and "touch made" in (one.detail or "") for one in answer.progress
    )


def test_settings_reach_the_model(desk: Desk) -> None:
    settings = AgentSettings(model="gpt-5.2", effort="high", system_prompt='Say "please"\n\tin verse.')
    body = desk.ask([Refuses(400)], settings).asked[0].body
    assert body["model"] == "gpt-5.2"
    assert body["reasoning"]["effort"] == "high"
    told = [part["text"] for item in body["input"] for part in item["content"]]
    assert any('Say "please"\n\tin verse.' in text for text in told)


@pytest.mark.parametrize(
    ("turns", "settings", "exit_code", "code"),
    [
        pytest.param([Refuses(400, "invalid_request_error", "bad")], PLAIN, 1, "AGENT_ERROR", id="400"),
        pytest.param([Refuses(401, "authentication_error", "bad key")], PLAIN, 1, "AUTH", id="401"),
        pytest.param([Refuses(404, "not_found", "model")], PLAIN, 1, "PROVIDER_MISCONFIGURED", id="404"),
        pytest.param([Refuses(429, "rate_limit_error", "slow")], PLAIN, 1, "RATE_LIMIT", id="429"),
        pytest.param([Refuses(503, "server_error", "busy")], PLAIN, 1, "OVERLOADED", id="503"),
        pytest.param([Refuses(529, "overloaded", "busy"), Says("ok")], PLAIN, 1, "OVERLOADED", id="529 once"),
        pytest.param([Says("half", cut=True)], PLAIN, 1, "AGENT_TRUNCATED", id="cut"),
        pytest.param([Says("half", full=True)], PLAIN, 1, "AGENT_TRUNCATED", id="too long"),
        pytest.param([Says("")], PLAIN, 0, "AGENT_EMPTY", id="nothing said"),
        pytest.param(
            [Says("x")],
            AgentSettings(args=("--temperature", "1")),
            2,
            "PROVIDER_MISCONFIGURED",
            id="unknown flag",
        ),
    ],
)
def test_what_its_exit_code_does_not_say(
    desk: Desk, turns: list[Turn], settings: AgentSettings, exit_code: int, code: str
) -> None:
    answer = desk.ask(turns, settings)
    assert (answer.exit_code, answer.code) == (exit_code, code), answer.outcome


def test_what_its_sandbox_denies_leaves_no_sign(desk: Desk) -> None:
    """The model is told, the stream is not: nothing but a look at the workspace tells. `expect` is the guard."""
    answer = desk.ask([TOUCH, Says("made it")], AgentSettings(access="read"))
    assert (answer.exit_code, answer.code, answer.outcome.denials) == (0, None, ())
    assert not (desk.workspace / "made").exists()


def test_full_access_leaves_the_workspace(desk: Desk) -> None:
    beside = desk.workspace.parent / "beside"
    answer = desk.ask(
        [Calls("exec_command", {"cmd": f"touch {beside}"}), Says("x")], AgentSettings(access="full")
    )
    assert (answer.code, beside.exists()) == (None, True)


def test_a_rate_limit_that_passes_is_no_failure(desk: Desk) -> None:
    """It waits only if the server says how long, and if its own settings let it."""
    keys = ("request_max_retries", "stream_max_retries")
    again = tuple(word for key in keys for word in ("-c", f"model_providers.scripted.{key}=2"))
    answer = desk.ask(
        [Refuses(429, "rate_limit_error", "slow", {"retry-after": "1"}), Says("ok")],
        AgentSettings(args=again),
    )
    assert (answer.exit_code, answer.code, answer.outcome.text) == (0, None, "ok")


def test_a_cut_answer_that_is_given_again_is_told_once(desk: Desk) -> None:
    again = ("-c", "model_providers.scripted.stream_max_retries=2")
    answer = desk.ask([Says("half", cut=True), Says("whole")], AgentSettings(args=again))
    assert (answer.exit_code, answer.code, answer.outcome.text) == (0, None, "whole")


def test_an_empty_prompt_fails(desk: Desk) -> None:
    answer = desk.ask([Says("x")], prompt="")
    assert (answer.exit_code, answer.code) == (1, "AGENT_ERROR")


@pytest.mark.parametrize("wrong", ["all fine", '{"approved": 3}'])
def test_a_result_that_does_not_fit_is_repaired_in_the_same_session(desk: Desk, wrong: str) -> None:
    first = desk.ask([Says(wrong)], schema=VERDICT)
    assert first.exit_code == 0
    assert schema_problem(first.outcome.structured, VERDICT) is not None
    assert first.asked[0].body["text"]["format"]["schema"] == VERDICT
    second = desk.ask(
        [Says('{"approved": true}')],
        prompt=repair_prompt("it does not fit", VERDICT),
        schema=VERDICT,
        resume=first.outcome.session_id,
        resumed_usage=first.outcome.session_usage,
    )
    assert (second.code, second.outcome.structured) == (None, {"approved": True})
    assert wrong in [part["text"] for item in second.asked[0].body["input"] for part in item["content"]]
    # It counts the session; we count the visit.
    assert (second.outcome.session_usage, second.outcome.usage) == (Usage(24, 10, 6), Usage(12, 5, 3))


def test_a_session_goes_on_with_the_access_of_the_new_step(desk: Desk) -> None:
    first = desk.ask([Says("read")], AgentSettings(access="read"))
    second = desk.ask([TOUCH, Says("made it")], AgentSettings(access="edit"), resume=first.outcome.session_id)
    assert (second.code, second.outcome.session_id) == (None, first.outcome.session_id)
    assert (desk.workspace / "made").exists()


def test_a_session_is_found_from_another_workspace(desk: Desk) -> None:
    first = desk.ask([Says("x")])
    desk.move()
    assert desk.ask([Says("y")], resume=first.outcome.session_id).outcome.text == "y"


def test_a_session_that_is_not_there_is_lost(desk: Desk) -> None:
    answer = desk.ask([Says("x")], resume="11111111-2222-4333-8444-555555555555")
    assert (answer.exit_code, answer.code) == (1, "SESSION_LOST")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("when", ["waiting", "in a tool"])
def test_a_signal_is_never_a_success(desk: Desk, number: signal.Signals, when: str) -> None:
    turns: list[Turn] = [Waits(20, Says("late"))]
    after = None
    if when == "in a tool":
        turns, after = (
            [Calls("exec_command", {"cmd": "touch begun; sleep 32"}), Says("x")],
            desk.workspace / "begun",
        )
    answer = desk.ask(turns, doing=signalled(number, after=after))
    assert (answer.exit_code, answer.code) == (143 if number is signal.SIGTERM else 1, "AGENT_ERROR")
    assert answer.outcome.session_id is not None


def test_a_prompt_of_more_than_a_megabyte_is_refused_before_anything_is_paid(desk: Desk) -> None:
    answer = desk.ask([Says("x")], prompt="word " * 1_000_000)
    assert (answer.exit_code, answer.code, len(answer.asked)) == (1, "PROMPT_TOO_LONG", 0)


def test_a_prompt_of_a_megabyte_arrives_whole(desk: Desk) -> None:
    prompt = "word " * 209_000 + "end"
    answer = desk.ask([Says("read it")], prompt=prompt)
    assert (answer.code, answer.outcome.text) == (None, "read it"), answer.outcome
    assert prompt in [part["text"] for item in answer.asked[0].body["input"] for part in item["content"]]
