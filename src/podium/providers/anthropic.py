"""Anthropic's Messages API, and compatible servers.

One request, one answer: no tools, no files, no session. A result in JSON is requested as the arguments of a
tool that the model has to use, because every model and every compatible server supports that form.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from podium.ports.provider import (
    AgentError,
    AgentOutcome,
    AgentRequest,
    AgentSettings,
    HttpCall,
    ProcessResult,
    Progress,
    ProviderMisconfigured,
    Result,
    Usage,
    Variable,
)
from podium.providers import failure_codes, reading, results
from podium.providers.events import event_in, listen, refusal
from podium.providers.prices import Price, with_cost
from podium.providers.reading import Object, count_at, list_at, object_at, text_at
from podium.providers.settings import FOR_PROGRAMS, ignored

_URL: Final = "https://api.anthropic.com"
_VERSION: Final = "2023-06-01"
# The API requires a number; this is the maximum that all current models accept.
_MAX_TOKENS: Final = 8192
_TOOL: Final = "give_result"


class Anthropic:
    name = "anthropic"
    program = None
    extra = "http"
    sessions: Literal["none"] = "none"
    needs_env: Sequence[Variable] = (
        Variable("ANTHROPIC_API_KEY", required=True),
        Variable("ANTHROPIC_BASE_URL", is_secret=False),
    )

    def __init__(self, prices: Mapping[str, Price] | None = None, *, streams: bool = True) -> None:
        self._prices = prices or {}
        self._streams = streams

    def unsupported(self, settings: AgentSettings) -> Sequence[str]:
        return ignored(self.name, settings, FOR_PROGRAMS)

    def validate_config(self, settings: AgentSettings, env: Mapping[str, str]) -> Sequence[str]:
        problems = []
        if not settings.model:
            problems.append("anthropic needs `model`: the full name of one")
        if not env.get("ANTHROPIC_API_KEY"):
            problems.append("anthropic needs the variable ANTHROPIC_API_KEY, which is not set")
        if settings.temperature is not None and settings.temperature > 1:
            problems.append(f"anthropic knows temperatures up to 1, not {settings.temperature}")
        return problems

    def prepare(self, request: AgentRequest) -> HttpCall:
        settings = request.settings
        problems = self.validate_config(settings, request.env)
        if problems:
            raise ProviderMisconfigured("; ".join(problems))
        body: dict[str, Any] = {
            "model": settings.model,
            "max_tokens": settings.max_tokens or _MAX_TOKENS,
            "messages": [{"role": "user", "content": request.prompt}],
            "stream": self._streams,
        }
        if settings.system_prompt is not None:
            body["system"] = settings.system_prompt
        if settings.temperature is not None:
            body["temperature"] = settings.temperature
        if settings.effort is not None:
            body["output_config"] = {"effort": settings.effort}
        if request.schema is not None:
            tool = {"name": _TOOL, "description": "Takes the result.", "input_schema": dict(request.schema)}
            body |= {"tools": [tool], "tool_choice": {"type": "tool", "name": _TOOL}}
        url = (request.env.get("ANTHROPIC_BASE_URL") or _URL).rstrip("/")
        headers = {
            "x-api-key": request.env["ANTHROPIC_API_KEY"],
            "anthropic-version": _VERSION,
            "content-type": "application/json",
        }
        return HttpCall("POST", f"{url}/v1/messages", headers, body, request.prompt, self._streams)

    def observe(self, line: bytes) -> Progress | None:
        found = event_in(line)
        if found is None:
            return None
        if found.get("type") == "content_block_delta" and text_at(found, "delta", "text"):
            return Progress(text=text_at(found, "delta", "text"))
        if found.get("type") == "message_delta":
            return Progress(output_tokens=count_at(found, "usage", "output_tokens"))
        return None

    def interpret(self, request: AgentRequest, result: Result) -> AgentOutcome:
        if isinstance(result, ProcessResult):
            raise TypeError("anthropic is a server")
        refused = refusal(result)
        if refused is not None:
            return refused
        heard = _Heard()
        listen(result.body, heard)
        text = reading.bounded("".join(heard.texts))
        structured = reading.as_object("".join(heard.arguments)) if request.schema is not None else None
        usage = with_cost(heard.usage(), heard.model or request.settings.model or "", self._prices)
        error = heard.error(was_cut=result.was_cut) or results.why_not(request, text, structured, ())
        return AgentOutcome(text, structured, usage=usage, error=error)


class _Heard:
    """A message, complete or in parts."""

    def __init__(self) -> None:
        self.was_started = False
        self.model = ""
        self.texts: list[str] = []
        self.arguments: list[str] = []
        self._stop_reason = ""
        self._failed: Object | None = None
        self._counts = {"input_tokens": 0, "output_tokens": 0}
        self._counts |= {"cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}

    def hear(self, found: Object) -> None:
        match found.get("type"):
            case "message_start":
                self._begin(object_at(found, "message"))
            case "message":
                self._begin(found)
                self._stop_reason = text_at(found, "stop_reason")
                for block in list_at(found, "content"):
                    self._whole(block)
            case "content_block_delta":
                self.texts.append(text_at(found, "delta", "text"))
                self.arguments.append(text_at(found, "delta", "partial_json"))
            case "message_delta":
                self._stop_reason = text_at(found, "delta", "stop_reason") or self._stop_reason
                self._count(object_at(found, "usage"))
            case "error":
                self.was_started = True
                self._failed = object_at(found, "error")

    def error(self, *, was_cut: bool) -> AgentError | None:
        if self._failed is not None:
            words = f"{text_at(self._failed, 'type')}: {text_at(self._failed, 'message')}"
            return failure_codes.of_words(words)
        if not self.was_started and not was_cut:
            return failure_codes.failure("AGENT_ERROR", "the answer of the model server cannot be understood")
        if was_cut or not self._stop_reason:
            return failure_codes.failure("AGENT_TRUNCATED", "the connection ended before the answer did")
        if self._stop_reason in ("max_tokens", "model_context_window_exceeded"):
            return failure_codes.failure("AGENT_TRUNCATED", "the answer needs more than `max_tokens`")
        if self._stop_reason == "refusal":
            return failure_codes.failure("AGENT_REFUSED", "the model declined to answer")
        return None

    def usage(self) -> Usage:
        cached = self._counts["cache_read_input_tokens"]
        fresh = self._counts["input_tokens"] + self._counts["cache_creation_input_tokens"]
        return Usage(fresh + cached, self._counts["output_tokens"], cached)

    def _begin(self, message: Object) -> None:
        self.was_started = True
        self.model = text_at(message, "model")
        self._count(object_at(message, "usage"))

    def _count(self, usage: Object) -> None:
        # The later figure includes the earlier one.
        for name in self._counts:
            self._counts[name] = max(self._counts[name], count_at(usage, name))

    def _whole(self, block: Any) -> None:
        if not isinstance(block, dict):
            return
        if block.get("type") == "text":
            self.texts.append(text_at(block, "text"))
        elif block.get("type") == "tool_use":
            self.arguments.append(results.schema_text(object_at(block, "input")))
