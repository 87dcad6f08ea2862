"""Model servers without a program in between: what they answer, whole or in pieces, and what Podium makes of it."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from podium.ports.provider import (
    AgentOutcome,
    AgentRequest,
    AgentSettings,
    HttpCall,
    HttpResult,
    Progress,
)
from podium.providers.anthropic import Anthropic
from podium.providers.http_calls import send
from podium.providers.openai import OpenAi
from podium.providers.prices import prices_from
from tests.agents.asking import VERDICT
from tests.agents.servers import Asked, Calls, ModelServer, Refuses, Says, Sends, Turn, Waits
from tests.unit.tasks.engine import run

PRICES = prices_from({"big": {"input": 3.0, "output": 15.0, "cached": 0.3}})
KINDS = ["messages", "responses", "chat"]


@dataclass(frozen=True)
class Heard:
    outcome: AgentOutcome
    asked: list[Asked]
    progress: list[Progress]
    result: HttpResult

    @property
    def code(self) -> str | None:
        return None if self.outcome.error is None else self.outcome.error.code


@dataclass(frozen=True)
class Client:
    kind: str
    streams: bool
    folder: Path

    @property
    def provider(self) -> Anthropic | OpenAi:
        if self.kind == "messages":
            return Anthropic(PRICES, streams=self.streams)
        return OpenAi(PRICES, streams=self.streams)

    def request(self, url: str, **more: Any) -> AgentRequest:
        env = {"ANTHROPIC_API_KEY": "sk-a", "ANTHROPIC_BASE_URL": url, "OPENAI_API_KEY": "sk-o"}
        env["OPENAI_BASE_URL"] = f"{url}/v1/chat/completions" if self.kind == "chat" else f"{url}/v1"
        settings = more.pop("settings", AgentSettings(model="big-2026"))
        return AgentRequest("Say something.", self.folder, self.folder, "s", settings, env=env, **more)

    def ask(self, turns: list[Turn], **more: Any) -> Heard:
        with ModelServer(turns) as server:
            return asyncio.run(self._send(server, self.request(server.url, **more)))

    async def _send(self, server: ModelServer, request: AgentRequest) -> Heard:
        progress: list[Progress] = []

        def look_on(line: bytes) -> None:
            found = self.provider.observe(line)
            if found is not None:
                progress.append(found)

        call = self.provider.prepare(request)
        result = await send(call, self.folder / "body", look_on)
        return Heard(self.provider.interpret(request, result), server.asked, progress, result)


@pytest.fixture(params=[(kind, streams) for kind in KINDS for streams in (True, False)], ids=str)
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Client:
    kind, streams = request.param
    return Client(kind, streams, tmp_path)


def test_an_answer_comes_with_tokens_and_cost(client: Client) -> None:
    heard = client.ask([Says("hello back")])
    assert (heard.code, heard.outcome.text) == (None, "hello back")
    usage = heard.outcome.usage
    inputs = 15 if client.kind == "messages" else 12
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (inputs, 5, 3)
    assert usage.cost_usd == pytest.approx(((inputs - 3) * 3 + 3 * 0.3 + 5 * 15) / 1e6)
    assert [one.text for one in heard.progress if one.text] == (["hello back"] if client.streams else [])


def test_without_a_price_there_is_no_cost(client: Client) -> None:
    settings = AgentSettings(model="unpriced")
    assert client.ask([Says("x")], settings=settings).outcome.usage.cost_usd is None


def test_a_result_fits_the_form_that_was_asked_for(client: Client) -> None:
    turn = (
        Calls("give_result", {"approved": True}) if client.kind == "messages" else Says('{"approved": true}')
    )
    heard = client.ask([turn], schema=VERDICT)
    assert (heard.code, heard.outcome.structured) == (None, {"approved": True})
    assert str(VERDICT["properties"]) in str(heard.asked[0].body)


def test_no_result_is_a_failure(client: Client) -> None:
    assert client.ask([Says("all fine")], schema=VERDICT).code == "AGENT_SCHEMA"


@pytest.mark.parametrize(
    ("turn", "code", "retryable", "retry_after"),
    [
        (Refuses(429, "rate_limit_error", "slow", {"retry-after": "7"}), "RATE_LIMIT", True, 7.0),
        (Refuses(429, "rate_limit_error", "slow", {"retry-after-ms": "250"}), "RATE_LIMIT", True, 0.25),
        (Refuses(529, "overloaded_error", "busy", {"retry-after": "11"}), "OVERLOADED", True, 11.0),
        (Refuses(503, raw=b"<html>busy</html>"), "OVERLOADED", True, None),
        (Refuses(401, "authentication_error", "bad key"), "AUTH", False, None),
        (Refuses(400, "invalid_request_error", "bad"), "AGENT_ERROR", False, None),
        (Refuses(404, "not_found_error", "no such model"), "PROVIDER_MISCONFIGURED", False, None),
        (Says("half", cut=True), "AGENT_TRUNCATED", True, None),
        (Says("half", full=True), "AGENT_TRUNCATED", True, None),
        (Says(""), "AGENT_EMPTY", True, None),
        (Sends(b"{not json"), "AGENT_ERROR", True, None),
        (Sends(b"\xff\xfe\x00"), "AGENT_ERROR", True, None),
        (
            Sends(b'{"type": "error", "error": {"type": "overloaded_error", "message": "x"}}'),
            "OVERLOADED",
            True,
            None,
        ),
    ],
    ids=str,
)
def test_what_a_server_may_answer_instead(
    client: Client, turn: Turn, code: str, retryable: bool, retry_after: float | None
) -> None:
    error = client.ask([turn]).outcome.error
    assert error is not None
    assert (error.code, error.retryable, error.retry_after) == (code, retryable, retry_after)


def test_a_prompt_of_five_megabytes_arrives_whole(client: Client) -> None:
    prompt = "word " * 1_000_000 + "end"
    with ModelServer([Says("read it")]) as server:
        request = replace(client.request(server.url), prompt=prompt)
        result = asyncio.run(send(client.provider.prepare(request), client.folder / "body"))
        assert client.provider.interpret(request, result).text == "read it"
        assert prompt in str(server.asked[0].body)


def test_a_server_that_is_not_there(client: Client) -> None:
    with ModelServer([Says("x")]) as server:
        url = server.url

    async def ask() -> HttpResult:
        return await send(client.provider.prepare(client.request(url)), client.folder / "body")

    error = client.provider.interpret(client.request(url), asyncio.run(ask())).error
    assert error is not None
    assert (error.code, error.retryable) == ("PROVIDER_UNAVAILABLE", True)


def test_a_request_is_left_at_once_when_it_is_cancelled(client: Client) -> None:
    async def ask_and_cancel(server: ModelServer) -> float:
        call = client.provider.prepare(client.request(server.url))
        sending = asyncio.create_task(send(call, client.folder / "body"))
        await asyncio.to_thread(server.was_asked.wait, 10)
        began = asyncio.get_running_loop().time()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        return asyncio.get_running_loop().time() - began

    with ModelServer([Waits(30, Says("late"))]) as server:
        assert asyncio.run(ask_and_cancel(server)) < 1


def test_a_stream_is_left_in_the_middle_when_it_is_cancelled(tmp_path: Path) -> None:
    client = Client("messages", True, tmp_path)

    async def ask_and_cancel(server: ModelServer) -> list[bytes]:
        lines: list[bytes] = []
        seen = asyncio.Event()

        def look_on(line: bytes) -> None:
            lines.append(line)
            seen.set()

        call = client.provider.prepare(client.request(server.url))
        sending = asyncio.create_task(send(call, tmp_path / "body", look_on))
        await asyncio.wait_for(seen.wait(), 10)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        return lines

    # More than the pipes between us hold.
    with ModelServer([Says("x" * 30_000_000)]) as server:
        assert asyncio.run(ask_and_cancel(server))[0].startswith(b"event: message_start")


def test_responses_go_on_from_the_one_before(tmp_path: Path) -> None:
    client = Client("responses", True, tmp_path)
    first = client.ask([Says("I am Ada")])
    second = client.ask([Says("Ada")], resume=first.outcome.session_id)
    assert second.asked[0].body["previous_response_id"] == first.outcome.session_id
    assert [one.session_id for one in first.progress if one.session_id] == [first.outcome.session_id]


def test_the_key_is_sent_and_never_shown(client: Client) -> None:
    heard = client.ask([Says("x")])
    sent: Mapping[str, str] = {name.lower(): value for name, value in heard.asked[0].headers.items()}
    assert sent.get("x-api-key") == "sk-a" or sent.get("authorization") == "Bearer sk-o"
    call = client.provider.prepare(client.request("http://127.0.0.1:9"))
    assert isinstance(call, HttpCall)
    assert "sk-" not in repr(call) + repr(client.request("http://127.0.0.1:9"))


@pytest.mark.parametrize(("name", "tokens"), [("anthropic", True), ("openai", False)])
def test_an_answer_over_http_is_followed_while_it_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, tokens: bool
) -> None:
    with ModelServer([Says("hello there")]) as server:
        for variable, value in (
            *(("ANTHROPIC_API_KEY", "sk-scripted"), ("OPENAI_API_KEY", "sk-scripted")),
            *(("ANTHROPIC_BASE_URL", server.url), ("OPENAI_BASE_URL", f"{server.url}/v1")),
        ):
            monkeypatch.setenv(variable, value)
        ended = run(tmp_path, {"name": "A", "provider": name, "model": "m", "prompt": "hi"})
    assert ended.step("A")["output"] == "hello there"
    lines = ended.log("A.1.progress").decode().splitlines()
    assert lines[0] == "turn 1: writes"
    assert ("tokens" in lines[-1]) == tokens
    # Only a server that keeps conversations names one to go on with.
    assert (b"session" in ended.log("A.1.session")) == (name == "openai")
