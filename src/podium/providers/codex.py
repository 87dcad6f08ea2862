"""Codex: the program `codex exec` (its behaviour was measured on 0.166.0).

It chooses its session id itself, and writes it in its first line. A command that its sandbox refuses leaves
no trace in that stream: the model is informed, the stream is not, and it ends with 0. Required results have
to be checked with `expect`. Tokens are counted over the whole session, so a continued session reports again
what was paid before.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from podium.ports.provider import (
    AgentError,
    AgentOutcome,
    AgentRequest,
    AgentSettings,
    Denial,
    HttpResult,
    ProcessCall,
    Progress,
    ProviderMisconfigured,
    Result,
    Usage,
    Variable,
    plain_variables,
)
from podium.providers import failure_codes, reading, results
from podium.providers.reading import Object, count_at, object_at, text_at
from podium.providers.settings import ignored

_EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh")
_SANDBOXES: Final = {"read": "read-only", "edit": "workspace-write", "full": "danger-full-access"}
# An argument has at most 128 KiB.
_MAX_SYSTEM_PROMPT: Final = 100_000
_TOOLS: Final = frozenset({"command_execution", "file_change", "mcp_tool_call", "web_search"})
_IGNORED: Final = (
    "max_turns",
    "max_cost",
    "max_tokens",
    "temperature",
    "fallback_models",
    "allowed_tools",
    "disallowed_tools",
)


class Codex:
    name = "codex"
    program = "codex"
    sessions: Literal["named"] = "named"
    needs_env: Sequence[Variable] = (
        Variable("CODEX_API_KEY"),
        Variable("OPENAI_API_KEY"),
        *plain_variables("CODEX_HOME"),
    )

    def unsupported(self, settings: AgentSettings) -> Sequence[str]:
        return ignored(self.name, settings, _IGNORED)

    def validate_config(self, settings: AgentSettings, env: Mapping[str, str]) -> Sequence[str]:
        problems = []
        if settings.effort is not None and settings.effort not in _EFFORTS:
            problems.append(f"codex knows no effort {settings.effort!r}; write one of {', '.join(_EFFORTS)}")
        if len((settings.system_prompt or "").encode()) > _MAX_SYSTEM_PROMPT:
            problems.append("the system prompt is too long for codex: it is an argument of the program")
        return problems

    def prepare(self, request: AgentRequest) -> ProcessCall:
        settings = request.settings
        problems = self.validate_config(settings, request.env)
        if problems:
            raise ProviderMisconfigured("; ".join(problems))
        # Options before `resume` apply to both; the sandbox can only be given there.
        argv = [self.program, "exec", "--sandbox", _SANDBOXES[settings.access]]
        for folder in settings.add_dirs:
            argv += ["--add-dir", folder]
        if request.resume:
            argv += ["resume", request.resume]
        argv += ["--json", "--skip-git-repo-check"]
        if settings.model is not None:
            argv += ["--model", settings.model]
        if settings.effort is not None:
            argv += ["-c", f"model_reasoning_effort={json.dumps(settings.effort)}"]
        if settings.system_prompt is not None:
            # A JSON string is also a valid TOML string.
            argv += ["-c", f"developer_instructions={json.dumps(settings.system_prompt)}"]
        files = {}
        if request.schema is not None:
            path = request.folder / "schema.json"
            files[path] = results.schema_text(request.schema).encode()
            argv += ["--output-schema", str(path)]
        last = last_message(request)
        argv += ["--output-last-message", str(last), *settings.args, "-"]
        prompt = request.prompt
        return ProcessCall(
            tuple(argv), prompt.encode(), prompt, files=files, outputs=(last,), reads_files=True
        )

    def observe(self, line: bytes) -> Progress | None:
        found = reading.as_object(line)
        if found is None:
            return None
        match found.get("type"):
            case "thread.started":
                return Progress(session_id=text_at(found, "thread_id") or None)
            case "item.started" if text_at(found, "item", "type") in _TOOLS:
                item = object_at(found, "item")
                return Progress(tool=text_at(item, "type"), detail=_detail(item))
            case "item.completed" if text_at(found, "item", "type") in _TOOLS:
                return Progress(tool_ended=True)
            case "item.completed" if text_at(found, "item", "type") == "agent_message":
                return Progress(text=text_at(found, "item", "text"))
            case "turn.completed":
                return Progress(output_tokens=count_at(found, "usage", "output_tokens"))
            case _:
                return None

    def interpret(self, request: AgentRequest, result: Result) -> AgentOutcome:
        if isinstance(result, HttpResult):
            raise TypeError("codex is a program")
        heard = _Heard()
        for found in reading.objects_of(result.stdout):
            heard.hear(found)
        session = heard.session or request.resume
        if heard.text is None:
            heard.text = reading.head_of(last_message(request))
        text = reading.bounded(heard.text)
        structured = results.json_in(text) if request.schema is not None else None
        denials = tuple(heard.denials)
        error: AgentError | None
        if heard.failed is not None and not heard.is_complete:
            error = failure_codes.of_words(_unwrapped(heard.failed))
        elif heard.is_complete:
            error = results.why_not(request, text, structured, denials, result.exit_code)
        else:
            error = _unheard(result.exit_code, reading.tail_of(result.stderr), text)
        usage = _since(heard.usage, request.resumed_usage)
        return AgentOutcome(text, structured, session, usage, heard.usage, denials, error)


class _Heard:
    """What the stream has reported so far."""

    def __init__(self) -> None:
        self.session: str | None = None
        self.text: str | None = None
        self.failed: str | None = None
        self.is_complete = False
        self.usage = Usage()
        self.denials: list[Denial] = []

    def hear(self, found: Object) -> None:
        match found.get("type"):
            case "thread.started":
                self.session = text_at(found, "thread_id") or None
            case "item.completed":
                item = object_at(found, "item")
                if item.get("type") == "agent_message":
                    self.text = text_at(item, "text")
                elif item.get("status") == "declined":
                    self.denials.append(Denial(text_at(item, "type"), _detail(item)))
            case "turn.completed":
                self.is_complete = True
                self.usage = _usage(object_at(found, "usage"))
            case "turn.failed":
                self.is_complete = False
                self.failed = text_at(found, "error", "message") or "the turn failed"
            case "error":
                # Also reported for a connection that it is about to retry; the end of the turn shows whether
                # that helped.
                self.failed = text_at(found, "message") or "an error without words"


def last_message(request: AgentRequest) -> Path:
    return request.folder / "last-message.txt"


def _usage(usage: Object) -> Usage:
    cached = count_at(usage, "cached_input_tokens")
    return Usage(count_at(usage, "input_tokens"), count_at(usage, "output_tokens"), cached)


def _since(total: Usage, before: Usage | None) -> Usage:
    if before is None:
        return total
    return Usage(
        max(total.input_tokens - before.input_tokens, 0),
        max(total.output_tokens - before.output_tokens, 0),
        max(total.cached_tokens - before.cached_tokens, 0),
    )


def _unwrapped(message: str) -> str:
    """The server's refusals are reported as JSON."""
    one_line = reading.as_object(message)
    if one_line is None:
        return message
    return f"{text_at(one_line, 'error', 'type')}: {text_at(one_line, 'error', 'message')}"


def _unheard(exit_code: int, words: str, text: str) -> AgentError | None:
    if "no rollout found" in words:
        return failure_codes.failure("SESSION_LOST", words)
    if "input_too_large" in words:
        return failure_codes.failure("PROMPT_TOO_LONG", words)
    if "unexpected argument" in words or "error: invalid value" in words or "Error loading config" in words:
        return failure_codes.failure("PROVIDER_MISCONFIGURED", words)
    if text and exit_code == 0:
        return failure_codes.failure("AGENT_TRUNCATED", "its stream ended before its turn did")
    return results.nothing_said(exit_code, words).error


def _detail(item: Object) -> str:
    if item.get("type") == "file_change":
        changes = item.get("changes")
        paths = (
            [text_at(one, "path") for one in changes if isinstance(one, dict)]
            if isinstance(changes, list)
            else []
        )
        return reading.one_line(", ".join(paths))[:200]
    return reading.one_line(text_at(item, "command") or text_at(item, "tool") or text_at(item, "query"))[:200]
