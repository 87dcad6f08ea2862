"""Claude Code: the program `claude` (its behaviour was measured on 2.1.197).

Its exit code says little. A denied tool, a schema that was never met and an incomplete answer all end with 0;
an API error ends with 1 and calls itself a success. So the last line of its stream decides, and then what is
missing.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from podium.ports.provider import (
    AgentCode,
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
from podium.providers.reading import Object, count_at, dollars_at, list_at, object_at, text_at
from podium.providers.settings import ignored

_EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")
_MODES: Final = {"read": "dontAsk", "edit": "acceptEdits", "full": "bypassPermissions"}
# `dontAsk` refuses what is not explicitly allowed; a user's own settings may have allowed these.
_WRITING: Final = ("Edit", "Write", "NotebookEdit")
# An argument has at most 128 KiB.
_MAX_SCHEMA: Final = 100_000
_SUBTYPES: Final[Mapping[str, AgentCode]] = {
    "error_max_turns": "MAX_TURNS",
    "error_max_budget_usd": "BUDGET_EXCEEDED",
    "error_max_structured_output_retries": "AGENT_SCHEMA",
}
# Names of errors in the last message of the stream.
_KINDS: Final[Mapping[str, AgentCode]] = {
    "authentication_failed": "AUTH",
    "billing_error": "AUTH",
    "rate_limit": "RATE_LIMIT",
    "max_output_tokens": "AGENT_TRUNCATED",
}
_ENVIRONMENT: Final = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    # Its own retries take more than two minutes, even with a wrong key; the workflow says how often to retry.
    "CLAUDE_CODE_MAX_RETRIES": "2",
}
_MISCONFIGURED: Final = ("unknown option", "root/sudo", "is not a valid", "Invalid JSON", "is invalid")


class Claude:
    name = "claude"
    program = "claude"
    sessions: Literal["chosen"] = "chosen"
    needs_env: Sequence[Variable] = (
        Variable("ANTHROPIC_API_KEY"),
        Variable("ANTHROPIC_AUTH_TOKEN"),
        Variable("CLAUDE_CODE_OAUTH_TOKEN"),
        *plain_variables("ANTHROPIC_BASE_URL", "CLAUDE_CONFIG_DIR", "IS_SANDBOX", *_ENVIRONMENT),
    )

    def unsupported(self, settings: AgentSettings) -> Sequence[str]:
        return ignored(self.name, settings, ("temperature",))

    def validate_config(self, settings: AgentSettings, env: Mapping[str, str]) -> Sequence[str]:
        problems = []
        if settings.effort is not None and settings.effort not in _EFFORTS:
            problems.append(f"claude knows no effort {settings.effort!r}; write one of {', '.join(_EFFORTS)}")
        if settings.access == "full" and os.geteuid() == 0 and not env.get("IS_SANDBOX"):
            problems.append(
                "claude refuses `access: full` to root; run as another user, or set IS_SANDBOX=1 in a container"
            )
        return problems

    def prepare(self, request: AgentRequest) -> ProcessCall:
        settings = request.settings
        problems = self.validate_config(settings, request.env)
        if problems:
            raise ProviderMisconfigured("; ".join(problems))
        argv = [self.program, "-p", "--output-format", "stream-json", "--verbose"]
        for flag, value in (
            ("--model", settings.model),
            ("--fallback-model", ",".join(settings.fallback_models) or None),
            ("--effort", settings.effort),
            ("--max-turns", settings.max_turns),
            ("--max-budget-usd", settings.max_cost),
            ("--permission-mode", _MODES[settings.access]),
        ):
            if value is not None:
                argv += [flag, str(value)]
        refused = (*settings.disallowed_tools, *(_WRITING if settings.access == "read" else ()))
        for flag, values in (
            ("--allowedTools", settings.allowed_tools),
            ("--disallowedTools", refused),
            ("--add-dir", settings.add_dirs),
        ):
            if values:
                argv += [flag, *values]
        argv += ["--resume", request.resume] if request.resume else ["--session-id", request.session_id]
        files = {}
        if settings.system_prompt is not None:
            path = request.folder / "system-prompt.txt"
            files[path] = settings.system_prompt.encode()
            argv += ["--append-system-prompt-file", str(path)]
        if request.schema is not None:
            schema = results.schema_text(request.schema)
            if len(schema.encode()) > _MAX_SCHEMA:
                raise ProviderMisconfigured(
                    "the schema is too large for claude: it is an argument of the program"
                )
            argv += ["--json-schema", schema]
        words, prompt = (*argv, *settings.args), request.prompt
        return ProcessCall(words, prompt.encode(), prompt, _environment(request), files, reads_files=True)

    def observe(self, line: bytes) -> Progress | None:
        found = reading.as_object(line)
        if found is None:
            return None
        session = text_at(found, "session_id") or None
        match found.get("type"):
            case "system" if found.get("subtype") == "init":
                return Progress(session_id=session)
            case "assistant":
                return _message_progress(object_at(found, "message"), session)
            case "user":
                return Progress(tool_ended=True)
            case _:
                return None

    def interpret(self, request: AgentRequest, result: Result) -> AgentOutcome:
        if isinstance(result, HttpResult):
            raise TypeError("claude is a program")
        last: Object | None = None
        kind = ""
        for found in reading.objects_of(result.stdout, b'"result"', b'"error"'):
            if found.get("type") == "result":
                last = found
            elif found.get("type") == "assistant":
                kind = text_at(found, "error") or kind
        if last is None and result.exit_code == 0 and reading.breaks_off(result.stdout):
            session = request.resume or request.session_id
            return AgentOutcome(session_id=session, error=results.BROKEN_OFF)
        if last is None:
            return _without_result(request, result.exit_code, reading.tail_of(result.stderr))
        return _with_result(request, result.exit_code, last, kind)


def _environment(request: AgentRequest) -> dict[str, str]:
    environment = {name: value for name, value in _ENVIRONMENT.items() if name not in request.env}
    if request.settings.max_tokens is not None:
        environment["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(request.settings.max_tokens)
    return environment


def _message_progress(message: Object, session: str | None) -> Progress:
    text = tool = detail = None
    for block in list_at(message, "content"):
        if not isinstance(block, dict):
            continue
        if block.get("type") == "text":
            text = text_at(block, "text") or text
        elif block.get("type") == "tool_use":
            tool, detail = text_at(block, "name"), reading.detail_of(block.get("input"))
    tokens = count_at(message, "usage", "output_tokens")
    return Progress(session, text, tool, detail, output_tokens=tokens or None)


def _without_result(request: AgentRequest, exit_code: int, words: str) -> AgentOutcome:
    session = request.resume or request.session_id
    if "No conversation found" in words:
        return AgentOutcome(error=failure_codes.failure("SESSION_LOST", words))
    if "already in use" in words:
        return AgentOutcome(session_id=session, error=failure_codes.failure("AGENT_ERROR", words))
    if any(one in words for one in _MISCONFIGURED):
        return AgentOutcome(error=failure_codes.failure("PROVIDER_MISCONFIGURED", words))
    outcome = results.nothing_said(exit_code, words)
    # It may have started: the session can be continued.
    return AgentOutcome(session_id=session, error=outcome.error)


def _with_result(request: AgentRequest, exit_code: int, last: Object, kind: str) -> AgentOutcome:
    text = reading.bounded(text_at(last, "result"))
    structured = last.get("structured_output") if request.schema is not None else None
    denials = tuple(
        Denial(text_at(one, "tool_name"), reading.detail_of(one.get("tool_input")))
        for one in list_at(last, "permission_denials")
        if isinstance(one, dict)
    )
    error = _called_error(last, text, kind) or results.why_not(request, text, structured, denials, exit_code)
    return AgentOutcome(
        text="" if last.get("is_error") else text,
        structured=structured,
        session_id=text_at(last, "session_id") or request.resume or request.session_id,
        usage=_usage(last),
        denials=denials,
        error=error,
    )


def _called_error(last: Object, text: str, kind: str) -> AgentError | None:
    words = "; ".join(str(one) for one in list_at(last, "errors")) or text
    subtype = text_at(last, "subtype")
    if subtype in _SUBTYPES:
        return failure_codes.failure(_SUBTYPES[subtype], words or subtype)
    if "No conversation found" in words and last.get("is_error"):
        return failure_codes.failure("SESSION_LOST", words)
    status = count_at(last, "api_error_status")
    if status:
        return failure_codes.of_status(status, words)
    if last.get("is_error") or subtype.startswith("error"):
        if kind in _KINDS:
            return failure_codes.failure(_KINDS[kind], words)
        return failure_codes.of_words(
            words or subtype, "OVERLOADED" if kind == "server_error" else "AGENT_ERROR"
        )
    if text.startswith("API Error"):
        return failure_codes.of_words(text)
    match text_at(last, "stop_reason"):
        case "max_tokens" | "model_context_window_exceeded":
            return failure_codes.failure("AGENT_TRUNCATED", "the answer is longer than the model may write")
        case "refusal":
            return failure_codes.failure("AGENT_REFUSED", text or "the model declined to answer")
        case _:
            return None


def _usage(last: Object) -> Usage:
    models = [one for one in object_at(last, "modelUsage").values() if isinstance(one, dict)]
    cost = dollars_at(last, "total_cost_usd")
    if not models:
        usage = object_at(last, "usage")
        models = [usage]
        new, read, made, out = (
            "input_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
            "output_tokens",
        )
    else:
        new, read, made, out = (
            "inputTokens",
            "cacheReadInputTokens",
            "cacheCreationInputTokens",
            "outputTokens",
        )
    cached = sum(count_at(one, read) for one in models)
    fresh = sum(count_at(one, new) + count_at(one, made) for one in models)
    return Usage(fresh + cached, sum(count_at(one, out) for one in models), cached, cost)
