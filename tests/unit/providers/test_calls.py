"""The exact words that every setting becomes."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from podium.ports.provider import AgentSettings, HttpCall, ProcessCall, ProviderMisconfigured
from podium.providers.anthropic import Anthropic
from podium.providers.claude import Claude
from podium.providers.codex import Codex
from podium.providers.gemini import Gemini
from podium.providers.openai import OpenAi
from podium.providers.registry import BUILT_IN, find_provider
from podium.providers.template import Template
from tests.unit.providers.asked import KEYS, SCHEMA, SESSION, request

CLAUDE = ("claude", "-p", "--output-format", "stream-json", "--verbose")
CLAUDE_EDIT = ("--permission-mode", "acceptEdits")
CLAUDE_SESSION = ("--session-id", SESSION)
CODEX_END = ("--output-last-message", "/visit/last-message.txt", "-")
CODEX = ("codex", "exec", "--sandbox", "workspace-write", "--json", "--skip-git-repo-check")
GEMINI = ("gemini", "--output-format", "stream-json", "--skip-trust", "--approval-mode")


@pytest.mark.rule("R092", "R090", "D50")
@pytest.mark.parametrize(
    ("settings", "argv"),
    [
        ({}, (*CLAUDE, *CLAUDE_EDIT, *CLAUDE_SESSION)),
        ({"model": "opus"}, (*CLAUDE, "--model", "opus", *CLAUDE_EDIT, *CLAUDE_SESSION)),
        (
            {"fallback_models": ("a", "b")},
            (*CLAUDE, "--fallback-model", "a,b", *CLAUDE_EDIT, *CLAUDE_SESSION),
        ),
        ({"effort": "high"}, (*CLAUDE, "--effort", "high", *CLAUDE_EDIT, *CLAUDE_SESSION)),
        ({"max_turns": 3}, (*CLAUDE, "--max-turns", "3", *CLAUDE_EDIT, *CLAUDE_SESSION)),
        ({"max_cost": 0.5}, (*CLAUDE, "--max-budget-usd", "0.5", *CLAUDE_EDIT, *CLAUDE_SESSION)),
        (
            {"access": "read", "disallowed_tools": ("WebFetch",)},
            (
                *CLAUDE,
                "--permission-mode",
                "dontAsk",
                "--disallowedTools",
                "WebFetch",
                "Edit",
                "Write",
                "NotebookEdit",
                *CLAUDE_SESSION,
            ),
        ),
        (
            {"allowed_tools": ("Bash(git *)", "Read")},
            (*CLAUDE, *CLAUDE_EDIT, "--allowedTools", "Bash(git *)", "Read", *CLAUDE_SESSION),
        ),
        (
            {"add_dirs": ("../a", "../b")},
            (*CLAUDE, *CLAUDE_EDIT, "--add-dir", "../a", "../b", *CLAUDE_SESSION),
        ),
        ({"args": ("--bare", "-x y")}, (*CLAUDE, *CLAUDE_EDIT, *CLAUDE_SESSION, "--bare", "-x y")),
    ],
)
def test_claude(settings: dict[str, Any], argv: tuple[str, ...]) -> None:
    call = Claude().prepare(request(AgentSettings(**settings)))
    assert (call.argv, call.stdin, call.prompt, call.files) == (argv, b"Do it.", "Do it.", {})


def test_claude_writes_the_system_prompt_into_a_file() -> None:
    call = Claude().prepare(request(AgentSettings(system_prompt="Be kind: é")))
    assert call.argv[-2:] == ("--append-system-prompt-file", "/visit/system-prompt.txt")
    assert call.files == {Path("/visit/system-prompt.txt"): "Be kind: é".encode()}


def test_claude_is_given_the_schema_and_goes_on_with_a_session() -> None:
    call = Claude().prepare(request(schema=SCHEMA, resume="abc"))
    assert call.argv[-4:] == ("--resume", "abc", "--json-schema", json.dumps(SCHEMA, sort_keys=True))
    assert "--session-id" not in call.argv


def test_claude_is_told_what_it_has_no_flags_for_in_its_environment() -> None:
    own = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    assert Claude().prepare(request()).env == {**own, "CLAUDE_CODE_MAX_RETRIES": "2"}
    given = request(AgentSettings(max_tokens=777), env={"CLAUDE_CODE_MAX_RETRIES": "9"})
    assert Claude().prepare(given).env == {**own, "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "777"}


def test_claude_refuses_full_access_to_root(monkeypatch: pytest.MonkeyPatch) -> None:
    full = AgentSettings(access="full")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(ProviderMisconfigured, match="IS_SANDBOX"):
        Claude().prepare(request(full))
    assert "bypassPermissions" in Claude().prepare(request(full, env={"IS_SANDBOX": "1"})).argv
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "bypassPermissions" in Claude().prepare(request(full)).argv


@pytest.mark.parametrize(
    ("settings", "argv"),
    [
        ({}, (*CODEX, *CODEX_END)),
        ({"model": "gpt-5.1"}, (*CODEX, "--model", "gpt-5.1", *CODEX_END)),
        ({"effort": "high"}, (*CODEX, "-c", 'model_reasoning_effort="high"', *CODEX_END)),
        (
            {"system_prompt": 'Say "a"\n'},
            (*CODEX, "-c", 'developer_instructions="Say \\"a\\"\\n"', *CODEX_END),
        ),
        ({"access": "read"}, ("codex", "exec", "--sandbox", "read-only", *CODEX[4:], *CODEX_END)),
        ({"access": "full"}, ("codex", "exec", "--sandbox", "danger-full-access", *CODEX[4:], *CODEX_END)),
        ({"add_dirs": ("a", "b")}, (*CODEX[:4], "--add-dir", "a", "--add-dir", "b", *CODEX[4:], *CODEX_END)),
        ({"args": ("-c", "x=1")}, (*CODEX, *CODEX_END[:-1], "-c", "x=1", "-")),
    ],
)
def test_codex(settings: dict[str, Any], argv: tuple[str, ...]) -> None:
    call = Codex().prepare(request(AgentSettings(**settings)))
    assert (call.argv, call.stdin, call.env) == (argv, b"Do it.", {})
    assert call.outputs == (Path("/visit/last-message.txt"),)


def test_codex_reads_the_schema_from_a_file_and_goes_on_with_a_session() -> None:
    call = Codex().prepare(request(schema=SCHEMA, resume="abc"))
    assert call.argv[:6] == ("codex", "exec", "--sandbox", "workspace-write", "resume", "abc")
    assert call.argv[8:10] == ("--output-schema", "/visit/schema.json")
    assert call.files == {Path("/visit/schema.json"): json.dumps(SCHEMA, sort_keys=True).encode()}


@pytest.mark.parametrize(
    ("settings", "argv"),
    [
        ({}, (*GEMINI, "auto_edit", "--session-id", SESSION)),
        ({"access": "read"}, (*GEMINI, "plan", "--session-id", SESSION)),
        ({"access": "full"}, (*GEMINI, "yolo", "--session-id", SESSION)),
        ({"model": "pro"}, (*GEMINI, "auto_edit", "--model", "pro", "--session-id", SESSION)),
        (
            {"add_dirs": ("a", "b"), "allowed_tools": ("t",)},
            (
                *GEMINI,
                "auto_edit",
                "--include-directories",
                "a",
                "--include-directories",
                "b",
                "--allowed-tools",
                "t",
                "--session-id",
                SESSION,
            ),
        ),
        ({"args": ("-d",)}, (*GEMINI, "auto_edit", "--session-id", SESSION, "-d")),
    ],
)
def test_gemini(settings: dict[str, Any], argv: tuple[str, ...]) -> None:
    call = Gemini().prepare(request(AgentSettings(**settings)))
    assert (call.argv, call.stdin, call.env, call.files) == (argv, b"Do it.", {}, {})


def test_gemini_is_told_system_prompt_and_schema_in_the_prompt() -> None:
    call = Gemini().prepare(request(AgentSettings(system_prompt="Be kind."), schema=SCHEMA, resume="abc"))
    assert call.argv[-2:] == ("--resume", "abc")
    assert call.prompt.startswith("Be kind.\n\nDo it.\n\n## Result\n")
    assert json.dumps(SCHEMA, sort_keys=True) in call.prompt
    assert call.stdin == call.prompt.encode()


FULL = AgentSettings(
    model="m", effort="low", system_prompt="S", max_turns=1, max_cost=1, max_tokens=9, temperature=0.5,
    fallback_models=("x",), add_dirs=("d",), allowed_tools=("t",), disallowed_tools=("u",), args=("-v",),
)  # fmt: skip


@pytest.mark.rule("D53")
@pytest.mark.parametrize(
    ("name", "ignored"),
    [
        ("claude", ["temperature"]),
        (
            "codex",
            [
                "max_turns",
                "max_cost",
                "max_tokens",
                "temperature",
                "fallback_models",
                "allowed_tools",
                "disallowed_tools",
            ],
        ),
        (
            "gemini",
            [
                "max_turns",
                "max_cost",
                "max_tokens",
                "temperature",
                "effort",
                "fallback_models",
                "disallowed_tools",
            ],
        ),
        (
            "anthropic",
            ["max_cost", "fallback_models", "add_dirs", "allowed_tools", "disallowed_tools", "args"],
        ),
        ("openai", ["max_cost", "fallback_models", "add_dirs", "allowed_tools", "disallowed_tools", "args"]),
        ("echo", []),
    ],
)
def test_each_setting_that_is_ignored_is_told_once(name: str, ignored: list[str]) -> None:
    provider = find_provider(name)
    assert [told.split("'")[1] for told in provider.unsupported(FULL)] == ignored
    assert not provider.unsupported(AgentSettings())


@pytest.mark.rule("D50")
@pytest.mark.rule("R091")
@pytest.mark.parametrize("name", [*BUILT_IN, "own"])
def test_the_prompt_never_stands_in_the_arguments(name: str) -> None:
    prompt = "a very particular prompt"
    own = Template("own", ("answer", "--now"))
    call = (own if name == "own" else find_provider(name)).prepare(request(AgentSettings(model="m"), prompt))
    assert prompt in call.prompt
    if isinstance(call, ProcessCall):
        assert prompt.encode() in call.stdin
        assert not any(prompt in word for word in call.argv)


def test_anthropic() -> None:
    call = Anthropic().prepare(request(FULL))
    assert isinstance(call, HttpCall)
    assert (call.method, call.url, call.streams) == ("POST", "https://api.anthropic.com/v1/messages", True)
    assert call.headers["x-api-key"] == "sk-a"
    assert call.body == {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "Do it."}],
        "stream": True,
        "system": "S",
        "temperature": 0.5,
        "output_config": {"effort": "low"},
    }


def test_anthropic_is_made_to_give_a_result() -> None:
    body = Anthropic(streams=False).prepare(request(AgentSettings(model="m"), schema=SCHEMA)).body
    assert body["tools"][0]["input_schema"] == SCHEMA
    assert body["tool_choice"] == {"type": "tool", "name": "give_result"}
    assert body["stream"] is False


def test_openai_responses() -> None:
    call = OpenAi().prepare(request(FULL, schema=SCHEMA, resume="resp_1"))
    assert call.url == "https://api.openai.com/v1/responses"
    assert call.headers["authorization"] == "Bearer sk-o"
    form = {"type": "json_schema", "name": "result", "schema": SCHEMA, "strict": False}
    assert call.body == {
        "model": "m",
        "input": "Do it.",
        "instructions": "S",
        "max_output_tokens": 9,
        "temperature": 0.5,
        "reasoning": {"effort": "low"},
        "previous_response_id": "resp_1",
        "text": {"format": form},
        "stream": True,
    }


def test_openai_chat_completions_by_the_address() -> None:
    env = {**KEYS, "OPENAI_BASE_URL": "http://127.0.0.1:8000/v1/chat/completions/"}
    call = OpenAi().prepare(request(FULL, schema=SCHEMA, env=env))
    assert call.url == "http://127.0.0.1:8000/v1/chat/completions"
    assert call.body == {
        "model": "m",
        "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "Do it."}],
        "max_tokens": 9,
        "temperature": 0.5,
        "reasoning_effort": "low",
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "result", "schema": SCHEMA, "strict": False},
        },
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    with pytest.raises(ProviderMisconfigured, match="no sessions"):
        OpenAi().prepare(request(FULL, env=env, resume="x"))


@pytest.mark.parametrize(
    ("name", "settings", "told"),
    [
        ("claude", AgentSettings(effort="silly"), "low, medium, high, xhigh, max"),
        ("codex", AgentSettings(effort="silly"), "minimal"),
        ("codex", AgentSettings(system_prompt="x" * 100_001), "too long"),
        ("anthropic", AgentSettings(), "needs `model`"),
        ("anthropic", AgentSettings(model="m", temperature=1.5), "up to 1"),
        ("openai", AgentSettings(), "needs `model`"),
    ],
)
def test_what_cannot_work_is_told_before_anything_is_spent(
    name: str, settings: AgentSettings, told: str
) -> None:
    provider = find_provider(name)
    assert told in " ".join(provider.validate_config(settings, KEYS))
    with pytest.raises(ProviderMisconfigured, match=told):
        provider.prepare(request(settings))


@pytest.mark.parametrize(("name", "key"), [("anthropic", "ANTHROPIC_API_KEY"), ("openai", "OPENAI_API_KEY")])
def test_a_missing_key_is_named(name: str, key: str) -> None:
    assert key in " ".join(find_provider(name).validate_config(AgentSettings(model="m"), {}))


def test_a_template_is_told_everything_in_variables() -> None:
    own = Template("own", ("answer", "--now"), env={"MODE": "fast"}, session_field="id")
    settings = AgentSettings(model="m", max_turns=2, system_prompt="S", args=("-v",))
    call = own.prepare(request(settings, schema=SCHEMA, resume="abc"))
    assert call.argv == ("answer", "--now", "-v")
    assert call.env == {
        "MODE": "fast",
        "PODIUM_PROMPT_FILE": "/visit/prompt.txt",
        "PODIUM_SYSTEM_PROMPT_FILE": "/visit/system-prompt.txt",
        "PODIUM_SCHEMA_FILE": "/visit/schema.json",
        "PODIUM_SESSION": "abc",
        "PODIUM_MODEL": "m",
        "PODIUM_ACCESS": "edit",
        "PODIUM_MAX_TURNS": "2",
    }
    assert call.files[Path("/visit/prompt.txt")] == call.stdin == call.prompt.encode()


def test_a_template_may_read_nothing_and_need_variables() -> None:
    own = Template("own", ("answer",), stdin="none", variables=("KEY",))
    assert own.prepare(request(env={"KEY": "x"})).stdin == b""
    with pytest.raises(ProviderMisconfigured, match="KEY"):
        own.prepare(request())
    with pytest.raises(ProviderMisconfigured, match="argv"):
        Template("own", ()).prepare(request())
