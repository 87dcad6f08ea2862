"""Gemini CLI, the real one: what it does, and what Podium makes of it. Each row of the table was measured."""

import signal

import pytest

from podium.expressions.json_schema import schema_problem
from podium.ports.provider import AgentSettings, Usage
from podium.providers.results import repair_prompt
from tests.agents.asking import VERDICT, Desk, signalled
from tests.agents.servers import Calls, Refuses, Says, Turn, Waits

PROGRAM = "gemini"
SHELL = Calls("run_shell_command", {"command": "touch made"})
WRITE = Calls("write_file", {"file_path": "made", "content": "x"})
PLAIN = AgentSettings()
FULL = AgentSettings(access="full")


def test_a_tool_is_used_and_the_answer_comes_with_session_and_tokens(desk: Desk) -> None:
    session = "11111111-2222-4333-8444-555555555555"
    answer = desk.ask([WRITE, Says("made it")], session_id=session)
    assert (answer.exit_code, answer.code, answer.outcome.text) == (0, None, "made it")
    assert (desk.workspace / "made").exists()
    assert answer.outcome.usage == Usage(24, 10, 6)
    assert answer.outcome.session_id == session
    assert ("write_file", "made") in [(one.tool, one.detail) for one in answer.progress]


@pytest.mark.parametrize(
    ("turns", "settings", "exit_code", "code"),
    [
        pytest.param([SHELL, Says("done")], PLAIN, 0, "AGENT_DENIED", id="a tool was denied"),
        pytest.param([WRITE, Says("done")], AgentSettings(access="read"), 0, "AGENT_DENIED", id="read only"),
        pytest.param([Refuses(400, "INVALID_ARGUMENT", "bad")], PLAIN, 144, "AGENT_ERROR", id="400"),
        pytest.param([Refuses(401, "UNAUTHENTICATED", "bad key")], PLAIN, 145, "AUTH", id="401"),
        pytest.param([Refuses(404, "NOT_FOUND", "model")], PLAIN, 1, "PROVIDER_MISCONFIGURED", id="404"),
        pytest.param([Refuses(429, "RESOURCE_EXHAUSTED", "slow")], PLAIN, 173, "RATE_LIMIT", id="429"),
        pytest.param([Refuses(503, "UNAVAILABLE", "busy")], PLAIN, 247, "OVERLOADED", id="503"),
        pytest.param([Says("half", cut=True)], PLAIN, 0, "AGENT_TRUNCATED", id="cut"),
        pytest.param([Says("")], PLAIN, 0, "AGENT_EMPTY", id="nothing said"),
        pytest.param(
            [Says("x")],
            AgentSettings(args=("--temperature", "1")),
            1,
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


def test_an_answer_that_ran_out_of_tokens_leaves_no_sign(desk: Desk) -> None:
    """Nothing in its stream tells; a result in JSON is the guard."""
    answer = desk.ask([Says("half", full=True)])
    assert (answer.exit_code, answer.code, answer.outcome.text) == (0, None, "half")
    assert desk.ask([Says('{"approved": tr', full=True)], schema=VERDICT).code == "AGENT_SCHEMA"


def test_by_itself_it_tries_again_and_gives_the_half_with_the_whole(desk: Desk) -> None:
    """Why its `general.maxAttempts` should be 1. Nothing in its stream tells; a result in JSON is the guard."""
    desk.write_gemini_settings(general={})
    answer = desk.ask([Says("half", cut=True), Says("whole")])
    assert (answer.exit_code, answer.code, answer.outcome.text) == (0, None, "halfwhole")


def test_an_overload_that_passes_is_no_failure(desk: Desk) -> None:
    desk.write_gemini_settings(general={})
    answer = desk.ask([Refuses(503, "UNAVAILABLE", "busy"), Says("ok")])
    assert (answer.exit_code, answer.code, answer.outcome.text) == (0, None, "ok")


def test_a_limit_of_turns_in_its_own_settings_is_told(desk: Desk) -> None:
    desk.write_gemini_settings(model={"maxSessionTurns": 1})
    answer = desk.ask([SHELL, Says("x")], FULL)
    assert (answer.exit_code, answer.code) == (53, "MAX_TURNS")
    assert (desk.workspace / "made").exists()


def test_a_missing_key_is_told(desk: Desk) -> None:
    answer = desk.ask([Says("x")], env={"GEMINI_API_KEY": ""})
    assert (answer.exit_code, answer.code) == (41, "AUTH")


def test_full_access_runs_anything(desk: Desk) -> None:
    answer = desk.ask([SHELL, Says("done")], FULL)
    assert (answer.code, (desk.workspace / "made").exists()) == (None, True)


def test_an_empty_prompt_fails(desk: Desk) -> None:
    answer = desk.ask([Says("x")], prompt="")
    assert (answer.exit_code, answer.code) == (42, "AGENT_ERROR")


@pytest.mark.parametrize("wrong", ["all fine", '{"approved": 3}'])
def test_a_result_that_does_not_fit_is_repaired_in_the_same_session(desk: Desk, wrong: str) -> None:
    first = desk.ask([Says(wrong)], schema=VERDICT)
    assert first.exit_code == 0
    assert schema_problem(first.outcome.structured, VERDICT) is not None
    turns = [Says('Here it is:\n```json\n{"approved": true}\n```')]
    prompt = repair_prompt("it does not fit", VERDICT)
    second = desk.ask(turns, prompt=prompt, schema=VERDICT, resume=first.outcome.session_id)
    assert (second.code, second.outcome.structured) == (None, {"approved": True})
    assert second.outcome.session_id == first.outcome.session_id
    assert wrong in [
        part.get("text") for content in second.asked[0].body["contents"] for part in content["parts"]
    ]
    assert second.outcome.usage == Usage(12, 5, 3)


def test_a_prompt_beyond_its_window_is_dropped_by_it_and_told_by_us(desk: Desk) -> None:
    answer = desk.ask([Says("x")], prompt="word " * 1_000_000)
    assert (answer.exit_code, answer.code, len(answer.asked)) == (0, "PROMPT_TOO_LONG", 0)


def test_a_prompt_of_a_megabyte_arrives_whole(desk: Desk) -> None:
    prompt = "word " * 200_000 + "end"
    answer = desk.ask([Says("read it")], prompt=prompt)
    assert (answer.code, answer.outcome.text) == (None, "read it"), answer.outcome
    assert prompt in [
        part.get("text") for content in answer.asked[0].body["contents"] for part in content["parts"]
    ]


def test_a_session_that_is_not_there_is_lost(desk: Desk) -> None:
    answer = desk.ask([Says("x")], resume="11111111-2222-4333-8444-555555555555")
    assert (answer.exit_code, answer.code) == (42, "SESSION_LOST")


def test_a_session_is_not_found_from_another_workspace(desk: Desk) -> None:
    first = desk.ask([Says("x")])
    desk.move()
    assert desk.ask([Says("x")], resume=first.outcome.session_id).code == "SESSION_LOST"


def test_a_session_id_is_used_once(desk: Desk) -> None:
    first = desk.ask([Says("x")])
    again = desk.ask([Says("x")], session_id=first.outcome.session_id)
    assert (again.exit_code, again.code) == (42, "AGENT_ERROR")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_is_deaf_to_signals_while_it_waits(desk: Desk, number: signal.Signals) -> None:
    """It goes on and ends well: only our own time limit makes it a timeout, and only KILL ends it."""
    answer = desk.ask([Waits(3, Says("late"))], doing=signalled(number))
    assert (answer.exit_code, answer.code, answer.outcome.text) == (0, None, "late")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_is_deaf_to_signals_while_a_tool_runs(desk: Desk, number: signal.Signals) -> None:
    turns: list[Turn] = [Calls("run_shell_command", {"command": "touch begun; sleep 3"}), Says("done")]
    answer = desk.ask(turns, FULL, doing=signalled(number, after=desk.workspace / "begun"))
    assert (answer.exit_code, answer.code, answer.outcome.text) == (0, None, "done")
