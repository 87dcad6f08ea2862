"""Claude Code, the real one: what it does, and what Podium makes of it. Each row of the table was measured."""

import signal

import pytest

from podium.expressions.json_schema import schema_problem
from podium.ports.provider import AgentSettings
from podium.providers.results import repair_prompt
from tests.agents.asking import VERDICT, Desk, signalled
from tests.agents.servers import Calls, Refuses, Says, Sends, Turn, Waits

PROGRAM = "claude"
TOUCH = Calls("Bash", {"command": "touch made", "description": "make a file"})
FETCH = Calls("Bash", {"command": "curl -s http://x/", "description": "fetch"})
# A stream that ends politely, with a block that was never closed.
UNCLOSED = b"""\
event: message_start
data: {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": "m",\
 "content": [], "stop_reason": null, "usage": {"input_tokens": 1, "output_tokens": 1}}}

event: content_block_start
data: {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}

event: content_block_delta
data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "half"}}

"""

PLAIN = AgentSettings()
EDIT = AgentSettings(access="edit")


def test_an_answer_comes_with_session_tokens_and_cost(desk: Desk) -> None:
    session = "11111111-2222-4333-8444-555555555555"
    answer = desk.ask([Says("hello back")], prompt="hello", session_id=session)
    assert (answer.exit_code, answer.code, answer.outcome.text) == (0, None, "hello back")
    assert answer.outcome.session_id == session
    usage = answer.outcome.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (15, 5, 3)
    assert usage.cost_usd is not None
    assert usage.cost_usd > 0
    assert next(one.session_id for one in answer.progress if one.session_id) == session
    assert "hello" in str(answer.asked[0].body["messages"])


def test_settings_reach_the_model(desk: Desk) -> None:
    settings = AgentSettings(model="opus", effort="low", max_tokens=777, system_prompt="Answer in verse.")
    body = desk.ask([Says("ok")], settings).asked[0].body
    assert "opus" in body["model"]
    assert body["max_tokens"] == 777
    assert body["output_config"]["effort"] == "low"
    assert "Answer in verse." in str(body["system"])


def test_a_tool_is_used_and_told_as_it_happens(desk: Desk) -> None:
    answer = desk.ask([TOUCH, Says("made it")], EDIT)
    assert (answer.exit_code, answer.code, answer.outcome.text) == (0, None, "made it")
    assert (desk.workspace / "made").exists()
    assert ("Bash", "touch made") in [(one.tool, one.detail) for one in answer.progress]


@pytest.mark.parametrize(
    ("turns", "settings", "exit_code", "code"),
    [
        pytest.param([FETCH, Says("done")], EDIT, 0, "AGENT_DENIED", id="a tool was denied"),
        pytest.param([TOUCH, Says("done")], AgentSettings(access="read"), 0, "AGENT_DENIED", id="read only"),
        pytest.param([Refuses(400, "invalid_request_error", "bad")], PLAIN, 1, "AGENT_ERROR", id="400"),
        pytest.param([Refuses(401, "authentication_error", "bad key")], PLAIN, 1, "AUTH", id="401"),
        pytest.param(
            [Refuses(404, "not_found_error", "model")], PLAIN, 1, "PROVIDER_MISCONFIGURED", id="404"
        ),
        pytest.param([Refuses(429, "rate_limit_error", "slow")], PLAIN, 1, "RATE_LIMIT", id="429"),
        pytest.param([Refuses(529, "overloaded_error", "busy")], PLAIN, 1, "OVERLOADED", id="529"),
        pytest.param([TOUCH, Says("x")], AgentSettings(max_turns=1), 1, "MAX_TURNS", id="max turns"),
        pytest.param([TOUCH, Says("x")], AgentSettings(max_cost=1e-5), 1, "BUDGET_EXCEEDED", id="max cost"),
        pytest.param([Says("")], PLAIN, 0, "AGENT_EMPTY", id="nothing said"),
        pytest.param([Says("half", cut=True)], PLAIN, 1, "PROVIDER_UNAVAILABLE", id="connection lost"),
        pytest.param([Sends(UNCLOSED, "text/event-stream")], PLAIN, 1, "AGENT_TRUNCATED", id="never closed"),
        pytest.param([Says("half", full=True)], PLAIN, 1, "AGENT_TRUNCATED", id="too long"),
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


def test_the_last_tool_has_run_when_turns_are_up_and_has_not_when_money_is(desk: Desk) -> None:
    desk.ask([TOUCH, Says("x")], AgentSettings(max_cost=1e-5))
    assert not (desk.workspace / "made").exists()
    desk.ask([TOUCH, Says("x")], AgentSettings(max_turns=1))
    assert (desk.workspace / "made").exists()


def test_a_denial_can_be_allowed(desk: Desk) -> None:
    answer = desk.ask([FETCH, Says("done")], AgentSettings(allow_denials=True))
    assert (answer.code, answer.outcome.text) == (None, "done")
    assert [one.tool for one in answer.outcome.denials] == ["Bash"]


def test_an_overload_that_passes_is_no_failure(desk: Desk) -> None:
    turns: list[Turn] = [Refuses(529, "overloaded_error", "busy"), Says("ok")]
    answer = desk.ask(turns, env={"CLAUDE_CODE_MAX_RETRIES": "2"})
    assert (answer.exit_code, answer.code, answer.outcome.text) == (0, None, "ok")


def test_a_cut_answer_that_is_given_again_is_told_once(desk: Desk) -> None:
    assert desk.ask([Says("half", cut=True), Says("whole")]).outcome.text == "whole"


def test_an_empty_prompt_fails(desk: Desk) -> None:
    answer = desk.ask([Says("x")], prompt="")
    assert (answer.exit_code, answer.code) == (1, "AGENT_ERROR")


def test_a_result_that_does_not_fit_is_repaired_by_the_program_itself(desk: Desk) -> None:
    turns = [Calls("StructuredOutput", {"approved": 3}), Calls("StructuredOutput", {"approved": True})]
    answer = desk.ask(turns, schema=VERDICT)
    assert (answer.code, answer.outcome.structured) == (None, {"approved": True})


def test_a_result_that_never_fits_is_a_failure(desk: Desk) -> None:
    answer = desk.ask([Calls("StructuredOutput", {"approved": 3})], schema=VERDICT)
    assert (answer.exit_code, answer.code, len(answer.asked)) == (1, "AGENT_SCHEMA", 5)


def test_a_result_that_never_comes_is_asked_for_once_more_in_the_same_session(desk: Desk) -> None:
    first = desk.ask([Says("all fine")], schema=VERDICT)
    assert (first.exit_code, first.code) == (0, "AGENT_SCHEMA")
    turns = [Calls("StructuredOutput", {"approved": True})]
    prompt = repair_prompt("there is no JSON", VERDICT)
    second = desk.ask(turns, prompt=prompt, schema=VERDICT, resume=first.outcome.session_id)
    assert schema_problem(second.outcome.structured, VERDICT) is None
    assert "all fine" in str(second.asked[0].body["messages"])


def test_a_session_goes_on_and_costs_only_what_it_adds(desk: Desk) -> None:
    first = desk.ask([Says("I am Ada")])
    second = desk.ask([Says("Ada")], prompt="Who are you?", resume=first.outcome.session_id)
    assert "I am Ada" in str(second.asked[0].body["messages"])
    assert second.outcome.session_id == first.outcome.session_id
    assert second.outcome.usage == first.outcome.usage


def test_a_session_that_is_not_there_is_lost(desk: Desk) -> None:
    answer = desk.ask([Says("x")], resume="11111111-2222-4333-8444-555555555555")
    assert (answer.exit_code, answer.code) == (1, "SESSION_LOST")


def test_a_session_is_not_found_from_another_workspace(desk: Desk) -> None:
    first = desk.ask([Says("x")])
    desk.move()
    assert desk.ask([Says("x")], resume=first.outcome.session_id).code == "SESSION_LOST"


def test_a_session_id_is_used_once(desk: Desk) -> None:
    first = desk.ask([Says("x")])
    again = desk.ask([Says("x")], session_id=first.outcome.session_id)
    assert (again.exit_code, again.code) == (1, "AGENT_ERROR")


def test_full_access_runs_anything_in_a_sandbox(desk: Desk) -> None:
    """In the box everybody is root, and it refuses full access to root unless it is told of a sandbox."""
    turns: list[Turn] = [
        Calls("Bash", {"command": "sh -c 'echo $((40+2)) > made'", "description": "x"}),
        Says("done"),
    ]
    answer = desk.ask(turns, AgentSettings(access="full"), env={"IS_SANDBOX": "1"})
    assert (answer.code, (desk.workspace / "made").read_text()) == (None, "42\n")


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGTERM, 143), (signal.SIGINT, 0)])
def test_a_signal_while_it_waits_is_never_a_success(
    desk: Desk, number: signal.Signals, exit_code: int
) -> None:
    """After INT it ends with 0, with or without a last line that calls it an error: that depends on the moment."""
    answer = desk.ask([Waits(20, Says("late"))], doing=signalled(number))
    assert answer.exit_code == exit_code
    assert answer.code in ("AGENT_ERROR", "AGENT_EMPTY")
    assert answer.outcome.session_id is not None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_a_tool_runs_is_told_as_it_ended(desk: Desk, number: signal.Signals) -> None:
    """After TERM older notes saw it let the model finish and end with 0: that is why our own time limit decides."""
    turns: list[Turn] = [
        Calls("Bash", {"command": "touch begun; sleep 31", "description": "x"}),
        Says("done"),
    ]
    settings = AgentSettings(allowed_tools=("Bash",))
    answer = desk.ask(turns, settings, doing=signalled(number, after=desk.workspace / "begun"))
    if number is signal.SIGINT:
        assert (answer.exit_code, answer.code) in [(1, "AGENT_ERROR"), (0, "AGENT_ERROR")]
    else:
        assert (answer.exit_code, answer.code) in [(143, "AGENT_ERROR"), (0, None)]


def test_a_prompt_beyond_its_window_is_refused_before_anything_is_paid(desk: Desk) -> None:
    answer = desk.ask([Says("x")], prompt="word " * 1_000_000)
    assert (answer.exit_code, answer.code, len(answer.asked)) == (1, "PROMPT_TOO_LONG", 0)
