"""OpenAI's Responses API, its older chat completions, and the many servers that support one of them.

The address selects one of the two: `OPENAI_BASE_URL` may end in `/chat/completions`; otherwise `/responses`
is called below it. Responses have sessions, for as long as the server keeps them: the next request continues
from the id of an answer.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from podium.ports.provider import (
    AgentOutcome,
    AgentRequest,
    AgentSettings,
    HttpCall,
    ProcessResult,
    Progress,
    ProviderMisconfigured,
    Result,
    Variable,
)
from podium.providers import reading, results
from podium.providers.events import event_in, listen, refusal
from podium.providers.openai_answers import Completion, Response
from podium.providers.prices import Price, with_cost
from podium.providers.reading import list_at, text_at
from podium.providers.settings import FOR_PROGRAMS, ignored

_URL: Final = "https://api.openai.com/v1"
_CHAT: Final = "/chat/completions"
_RESPONSES: Final = "/responses"


class OpenAi:
    name = "openai"
    program = None
    extra = "http"
    sessions: Literal["named"] = "named"
    needs_env: Sequence[Variable] = (
        Variable("OPENAI_API_KEY", required=True),
        Variable("OPENAI_BASE_URL", is_secret=False),
    )

    def __init__(self, prices: Mapping[str, Price] | None = None, *, streams: bool = True) -> None:
        self._prices = prices or {}
        self._streams = streams

    def unsupported(self, settings: AgentSettings) -> Sequence[str]:
        return ignored(self.name, settings, FOR_PROGRAMS)

    def validate_config(self, settings: AgentSettings, env: Mapping[str, str]) -> Sequence[str]:
        problems = []
        if not settings.model:
            problems.append("openai needs `model`")
        if not env.get("OPENAI_API_KEY"):
            problems.append(
                "openai needs the variable OPENAI_API_KEY, which is not set; any text of at least 6 "
                "characters will do for a server that wants none"
            )
        return problems

    def prepare(self, request: AgentRequest) -> HttpCall:
        problems = list(self.validate_config(request.settings, request.env))
        url = _address(request.env)
        is_chat = url.endswith(_CHAT)
        if is_chat and request.resume:
            problems.append("chat completions have no sessions to resume")
        if problems:
            raise ProviderMisconfigured("; ".join(problems))
        body = _chat(request) if is_chat else _response(request)
        body["stream"] = self._streams
        if is_chat and self._streams:
            body["stream_options"] = {"include_usage": True}
        headers = {
            "authorization": f"Bearer {request.env['OPENAI_API_KEY']}",
            "content-type": "application/json",
        }
        return HttpCall("POST", url, headers, body, request.prompt, self._streams)

    def observe(self, line: bytes) -> Progress | None:
        found = event_in(line)
        if found is None:
            return None
        if found.get("type") == "response.created":
            return Progress(session_id=text_at(found, "response", "id") or None)
        if found.get("type") == "response.output_text.delta":
            return Progress(text=text_at(found, "delta"))
        choices = list_at(found, "choices")
        if choices and isinstance(choices[0], dict) and text_at(choices[0], "delta", "content"):
            return Progress(text=text_at(choices[0], "delta", "content"))
        return None

    def interpret(self, request: AgentRequest, result: Result) -> AgentOutcome:
        if isinstance(result, ProcessResult):
            raise TypeError("openai is a server")
        refused = refusal(result)
        if refused is not None:
            return refused
        is_chat = _address(request.env).endswith(_CHAT)
        heard: Completion | Response = Completion() if is_chat else Response()
        listen(result.body, heard)
        text = reading.bounded("".join(heard.texts))
        structured = results.json_in(text) if request.schema is not None else None
        usage = with_cost(heard.usage, heard.model or request.settings.model or "", self._prices)
        error = heard.error(was_cut=result.was_cut) or results.why_not(request, text, structured, ())
        return AgentOutcome(text, structured, heard.session or None, usage, error=error)


def _address(env: Mapping[str, str]) -> str:
    url = (env.get("OPENAI_BASE_URL") or _URL).rstrip("/")
    return url if url.endswith((_CHAT, _RESPONSES)) else f"{url}{_RESPONSES}"


def _response(request: AgentRequest) -> dict[str, Any]:
    settings = request.settings
    body: dict[str, Any] = {"model": settings.model, "input": request.prompt}
    if settings.system_prompt is not None:
        body["instructions"] = settings.system_prompt
    if settings.max_tokens is not None:
        body["max_output_tokens"] = settings.max_tokens
    if settings.temperature is not None:
        body["temperature"] = settings.temperature
    if settings.effort is not None:
        body["reasoning"] = {"effort": settings.effort}
    if request.resume:
        body["previous_response_id"] = request.resume
    if request.schema is not None:
        # Not `strict`, which refuses most of what JSON Schema can express. The result is checked anyway.
        format_ = {"type": "json_schema", "name": "result", "schema": dict(request.schema), "strict": False}
        body["text"] = {"format": format_}
    return body


def _chat(request: AgentRequest) -> dict[str, Any]:
    settings = request.settings
    system = [] if settings.system_prompt is None else [{"role": "system", "content": settings.system_prompt}]
    body: dict[str, Any] = {
        "model": settings.model,
        "messages": [*system, {"role": "user", "content": request.prompt}],
    }
    if settings.max_tokens is not None:
        body["max_tokens"] = settings.max_tokens
    if settings.temperature is not None:
        body["temperature"] = settings.temperature
    if settings.effort is not None:
        body["reasoning_effort"] = settings.effort
    if request.schema is not None:
        schema = {"name": "result", "schema": dict(request.schema), "strict": False}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body
