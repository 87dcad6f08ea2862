"""What providers make of answers: recorded ones, and any bytes at all. (The real programs: tests/agents.)"""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.ports.provider import (
    AgentOutcome,
    AgentRequest,
    AgentSettings,
    Answered,
    HttpResult,
    ProcessResult,
    Progress,
    Provider,
    Usage,
)
from podium.providers import reading
from podium.providers.claude import Claude
from podium.providers.codex import Codex
from podium.providers.echo import Echo
from podium.providers.gemini import Gemini
from podium.providers.openai import OpenAi
from podium.providers.registry import find_provider
from podium.providers.template import Template
from tests.unit.providers.asked import KEYS, SCHEMA, SESSION, request

FINE: dict[str, Any] = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "done",
    "session_id": SESSION,
    "total_cost_usd": 0.25,
    "stop_reason": "end_turn",
    "permission_denials": [],
    "usage": {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 3},
}


def claude(
    *lines: object, exit_code: int = 0, stderr: bytes = b"", asked: AgentRequest | None = None
) -> AgentOutcome:
    stdout = b"\n".join(json.dumps(line).encode() for line in lines)
    return Claude().interpret(asked or request(), ProcessResult(exit_code, stdout, stderr))


def code_of(outcome: AgentOutcome) -> str | None:
    return None if outcome.error is None else outcome.error.code


def test_claude_fine() -> None:
    outcome = claude({"type": "system", "subtype": "init", "session_id": SESSION}, FINE)
    assert outcome == AgentOutcome("done", None, SESSION, Usage(4, 2, 3, 0.25))


@pytest.mark.rule("D52", "D50")
@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"result": "   "}, "AGENT_EMPTY"),
        ({"result": "API Error: 529 Overloaded"}, "OVERLOADED"),
        ({"is_error": True, "api_error_status": 429, "result": "API Error: slow"}, "RATE_LIMIT"),
        ({"is_error": True, "result": "Prompt is too long"}, "PROMPT_TOO_LONG"),
        ({"subtype": "error_max_turns", "is_error": True}, "MAX_TURNS"),
        ({"subtype": "error_of_tomorrow", "is_error": False}, "AGENT_ERROR"),
        ({"stop_reason": "max_tokens"}, "AGENT_TRUNCATED"),
        ({"stop_reason": "refusal"}, "AGENT_REFUSED"),
        ({"permission_denials": [{"tool_name": "Bash", "tool_input": {"command": "rm"}}]}, "AGENT_DENIED"),
    ],
)
def test_claude_with_exit_code_zero_is_not_yet_a_success(changed: dict[str, Any], code: str) -> None:
    assert code_of(claude({**FINE, **changed})) == code


def test_claude_with_a_good_result_and_a_bad_exit_code() -> None:
    assert code_of(claude(FINE, exit_code=1)) == "AGENT_ERROR"


def test_claude_that_was_killed_keeps_its_session() -> None:
    outcome = claude({"type": "system", "subtype": "init"}, exit_code=143)
    assert (code_of(outcome), outcome.session_id) == ("AGENT_ERROR", SESSION)


def test_a_failure_is_paid_for_too() -> None:
    outcome = claude({**FINE, "subtype": "error_max_budget_usd", "is_error": True})
    assert (code_of(outcome), outcome.usage.cost_usd) == ("BUDGET_EXCEEDED", 0.25)


def codex(*lines: object, exit_code: int = 0, asked: AgentRequest | None = None) -> AgentOutcome:
    stdout = b"\n".join(json.dumps(line).encode() for line in lines)
    return Codex().interpret(asked or request(), ProcessResult(exit_code, stdout))


MESSAGE = {"type": "item.completed", "item": {"type": "agent_message", "text": "done"}}
TURN = {"type": "turn.completed", "usage": {"input_tokens": 5, "cached_input_tokens": 2, "output_tokens": 3}}


@pytest.mark.parametrize("provider", [Claude(), Gemini()])
def test_what_breaks_off_in_the_middle_of_a_line_is_no_silence(provider: Provider) -> None:
    """Both lose the end of what they write if their reader is behind when they end."""
    outcome = provider.interpret(request(), ProcessResult(0, b'{"type": "message", "role": "assis'))
    assert (code_of(outcome), outcome.session_id) == ("AGENT_TRUNCATED", SESSION)


def test_gemini_repeats_a_long_prompt_and_loses_the_rest() -> None:
    """Nothing of the model was heard: the prompt was too long for it. Otherwise the answer was cut."""
    asked = request(prompt="word " * 100_000)
    outcome = Gemini().interpret(
        asked, ProcessResult(0, b'{"type": "message", "role": "user", "content": "wo')
    )
    assert code_of(outcome) == "PROMPT_TOO_LONG"
    answered = b'{"type": "message", "role": "assistant", "content": "x"}\n{"type": "messa'
    assert code_of(Gemini().interpret(asked, ProcessResult(0, answered))) == "AGENT_TRUNCATED"


def test_gemini_says_why_it_said_nothing() -> None:
    lines = b'{"type": "error", "message": "Loop detected, stopping execution"}\n'
    lines += b'{"type": "result", "status": "success"}\n'
    error = Gemini().interpret(request(), ProcessResult(0, lines)).error
    assert error is not None
    assert (error.code, error.message) == ("AGENT_EMPTY", "Loop detected, stopping execution")


def test_codex_fine_although_it_warned_and_reconnected() -> None:
    warned = {"type": "item.completed", "item": {"type": "error", "message": "unknown model"}}
    again = {"type": "error", "message": "Reconnecting... 1/2 (last status: 429 Too Many Requests)"}
    outcome = codex({"type": "thread.started", "thread_id": "t"}, warned, again, MESSAGE, TURN)
    assert outcome == AgentOutcome("done", None, "t", Usage(5, 3, 2), Usage(5, 3, 2))


def test_codex_counts_the_session_and_we_count_the_visit() -> None:
    outcome = codex(MESSAGE, TURN, asked=request(resume="t", resumed_usage=Usage(4, 1, 2)))
    assert (outcome.usage, outcome.session_usage) == (Usage(1, 2, 0), Usage(5, 3, 2))


def test_codex_that_stops_in_the_middle_has_not_answered() -> None:
    assert code_of(codex(MESSAGE)) == "AGENT_TRUNCATED"
    assert code_of(codex({"type": "thread.started", "thread_id": "t"}, exit_code=143)) == "AGENT_ERROR"


def test_codex_reads_its_last_message_from_the_file_if_the_stream_has_none(tmp_path: Path) -> None:
    (tmp_path / "last-message.txt").write_text("from the file")
    assert codex(TURN, asked=request(folder=tmp_path)).text == "from the file"


def test_codex_tells_of_tools_that_were_declined() -> None:
    item = {"type": "command_execution", "command": "rm x", "status": "declined"}
    outcome = codex({"type": "item.completed", "item": item}, MESSAGE, TURN)
    assert (code_of(outcome), outcome.denials[0].detail) == ("AGENT_DENIED", "rm x")


def gemini(*lines: object, exit_code: int = 0, asked: AgentRequest | None = None) -> AgentOutcome:
    stdout = b"\n".join(json.dumps(line).encode() for line in lines)
    return Gemini().interpret(asked or request(), ProcessResult(exit_code, stdout))


def said(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": text, "delta": True}


ENDED = {"type": "result", "status": "success", "stats": {"input_tokens": 5, "output_tokens": 3, "cached": 2}}


def test_gemini_answers_after_its_last_tool() -> None:
    used = {"type": "tool_use", "tool_id": "1", "tool_name": "read_file", "parameters": {"path": "a"}}
    read = {"type": "tool_result", "tool_id": "1", "status": "success"}
    outcome = gemini(
        {"type": "init", "session_id": "s"}, said("Let me see."), used, read, said("do"), said("ne"), ENDED
    )
    assert outcome == AgentOutcome("done", None, "s", Usage(5, 3, 2))


def test_gemini_may_ask_for_tools_that_do_not_exist() -> None:
    used = {"type": "tool_use", "tool_id": "1", "tool_name": "fly", "parameters": {}}
    failed = {
        "type": "tool_result",
        "tool_id": "1",
        "status": "error",
        "error": {"type": "tool_not_registered"},
    }
    assert code_of(gemini(used, failed, said("done"), ENDED)) is None


def test_json_is_found_in_a_fence_and_nowhere_else() -> None:
    asked = request(schema=SCHEMA)
    assert gemini(said('Well:\n```json\n{"ok": true}\n```\n'), ENDED, asked=asked).structured == {"ok": True}
    assert gemini(said('{"ok": true}'), ENDED, asked=asked).structured == {"ok": True}
    assert code_of(gemini(said('The result is {"ok": true}, I think'), ENDED, asked=asked)) == "AGENT_SCHEMA"


@pytest.mark.parametrize(
    ("template", "stdout", "exit_code", "text", "session", "code"),
    [
        (Template("t", ("x",)), b" hello\n", 0, "hello", None, None),
        (Template("t", ("x",)), b"", 0, "", None, "AGENT_EMPTY"),
        (Template("t", ("x",)), b"half", 3, "half", None, "AGENT_ERROR"),
        (Template("t", ("x",), result="json", text_field="a.b"), b'{"a": {"b": "hi"}}', 0, "hi", None, None),
        (
            Template("t", ("x",), result="json", text_field="text", session_field="id"),
            b'{"id": "s"}\n{"id": "s", "text": "hi"}\n',
            0,
            "hi",
            "s",
            None,
        ),
        (
            Template("t", ("x",), result="json", text_field="text"),
            b"no json",
            0,
            "no json",
            None,
            "AGENT_ERROR",
        ),
        (Template("t", ("x",), result="json", text_field="text"), b'{"text": 7}', 0, "", None, "AGENT_EMPTY"),
    ],
)
def test_a_template(
    template: Template, stdout: bytes, exit_code: int, text: str, session: str | None, code: str | None
) -> None:
    outcome = template.interpret(request(), ProcessResult(exit_code, stdout))
    assert (outcome.text, outcome.session_id, code_of(outcome)) == (text, session, code)


@pytest.mark.parametrize(
    ("stdout", "exit_code", "usage"),
    [
        (b'{"text": "hi", "used": {"n": 7, "usd": 0.5}}', 0, Usage(7, cost_usd=0.5)),
        (b'{"text": "hi", "used": {"n": 7, "usd": 1}}', 3, Usage(7, cost_usd=1.0)),
        (b'{"text": "hi", "used": {"n": "7", "usd": "much"}}', 0, Usage()),
        (b'{"text": "hi", "used": {"n": -7, "usd": -1}}', 0, Usage()),
        (b'{"text": "hi", "used": {"n": true, "usd": true}}', 0, Usage()),
        (b'{"text": "hi", "used": 5}', 0, Usage()),
        (b"no JSON", 0, Usage()),
    ],
)
def test_a_template_tells_what_it_used(stdout: bytes, exit_code: int, usage: Usage) -> None:
    template = Template(
        "t", ("x",), result="json", text_field="text", tokens_field="used.n", cost_field="used.usd"
    )
    assert template.interpret(request(), ProcessResult(exit_code, stdout)).usage == usage


def test_a_template_whose_output_is_the_result() -> None:
    template = Template("t", ("x",), result="json")
    outcome = template.interpret(request(schema=SCHEMA), ProcessResult(0, b'{"ok": true}'))
    assert (outcome.structured, code_of(outcome)) == ({"ok": True}, None)


def test_echo_gives_the_prompt_back() -> None:
    call = Echo().prepare(request(prompt="hello"))
    assert isinstance(call, Answered)
    assert (call.outcome.text, call.outcome.usage.cost_usd, call.outcome.error) == ("hello", 0.0, None)
    assert Echo().prepare(request(prompt='{"ok": true}', schema=SCHEMA)).outcome.structured == {"ok": True}


@pytest.mark.rule("D52")
def test_a_denial_that_is_allowed_is_still_told() -> None:
    denied = {**FINE, "permission_denials": [{"tool_name": "Bash", "tool_input": {"command": "rm"}}]}
    outcome = claude(denied, asked=request(AgentSettings(allow_denials=True)))
    assert (code_of(outcome), [one.tool for one in outcome.denials]) == (None, ["Bash"])


# --- whatever comes -------------------------------------------------------------------------------

PROGRAMS: list[Provider] = [
    Claude(),
    Codex(),
    Gemini(),
    Template("t", ("x",)),
    Template("t", ("x",), result="json", text_field="a.b", session_field="id"),
]
SERVERS: list[Provider] = [find_provider("anthropic"), OpenAi()]
KEYS_AND_KINDS = """
    type result item error message usage stats content choices delta response output status subtype is_error
    permission_denials session_id text input_tokens turn.completed turn.failed thread.started item.completed
    agent_message assistant object success tool_use tool_result response.completed message_start content_block_delta
"""
WORDS = st.sampled_from(KEYS_AND_KINDS.split())
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(WORDS, VALUES, max_size=6).map(lambda found: json.dumps(found).encode())
LINES = st.lists(st.binary(max_size=40) | OBJECTS | OBJECTS.map(lambda line: b"data: " + line), max_size=5)
ASKED = [
    request(AgentSettings(model="m")),
    request(AgentSettings(model="m"), schema=SCHEMA, resume="r"),
    request(AgentSettings(model="m"), env={**KEYS, "OPENAI_BASE_URL": "http://x/chat/completions"}),
]


@given(LINES, st.integers(0, 255), st.binary(max_size=30), st.sampled_from(ASKED))
def test_any_bytes_of_a_program_are_an_outcome(
    lines: list[bytes], exit_code: int, stderr: bytes, asked: AgentRequest
) -> None:
    for provider in PROGRAMS:
        outcome = provider.interpret(asked, ProcessResult(exit_code, b"\n".join(lines), stderr))
        assert isinstance(outcome, AgentOutcome)
        assert outcome.error is not None or outcome.text.strip() or outcome.structured is not None
        for line in lines:
            assert isinstance(provider.observe(line), Progress | None)


@given(
    LINES,
    st.integers(0, 999),
    st.booleans(),
    st.sampled_from(ASKED),
    st.dictionaries(st.just("retry-after"), st.text()),
)
def test_any_bytes_of_a_server_are_an_outcome(
    lines: list[bytes], status: int, was_cut: bool, asked: AgentRequest, headers: dict[str, str]
) -> None:
    for provider in SERVERS:
        outcome = provider.interpret(asked, HttpResult(status, b"\n".join(lines), headers, was_cut))
        assert outcome.error is not None or outcome.text.strip() or outcome.structured is not None
        assert not (was_cut and outcome.error is None)
        for line in lines:
            assert isinstance(provider.observe(line), Progress | None)


def test_a_hundred_megabytes_are_read_within_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The beginning and the end are read, and a line without an end is left out."""
    monkeypatch.setattr(reading, "MAX_READ", 1 << 20)
    monkeypatch.setattr(reading, "MAX_LINE", 1 << 18)
    stdout = tmp_path / "stdout"
    with stdout.open("wb") as file:
        file.write(b'{"type": "system", "subtype": "init"}\n')
        for _ in range(40):
            file.write(b"x" * (1 << 18) + b"yy\n")
        file.write(b"\xff" * 100 + b"\n" + json.dumps(FINE).encode() + b"\n")
    read = sum(len(line) for line in reading.lines_of(stdout))
    assert read < 1 << 20
    assert Claude().interpret(request(), ProcessResult(0, stdout)).text == "done"


def test_a_deep_value_and_a_file_that_is_not_there_are_nothing(tmp_path: Path) -> None:
    assert reading.as_json("[" * 100_000 + "]" * 100_000) is None
    assert reading.as_json("[" * 300 + "]" * 300) is None
    assert list(reading.lines_of(tmp_path / "missing")) == []
    assert code_of(Claude().interpret(request(), ProcessResult(0, tmp_path / "missing"))) == "AGENT_EMPTY"


def test_a_long_text_is_bounded() -> None:
    outcome = claude({**FINE, "result": "x" * (reading.MAX_TEXT + 1)})
    assert len(outcome.text) < reading.MAX_TEXT + 100
    assert outcome.text.endswith("[... cut here]")
