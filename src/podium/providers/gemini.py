"""Gemini CLI: the program `gemini` (its behaviour was measured on 0.61.0).

Its stream reports what its exit code does not: an incomplete answer ends with 0 and `status: error`. It does
not support schemas, so the result is requested in the prompt, and it has no option for a system prompt, so
that is placed before the prompt. An answer that ran out of tokens looks like any other; where that matters,
ask for a result in JSON.

It retries a broken answer by itself and then returns both, the half and the whole, as one text, without an
indication. Only its own settings can prevent that (`general.maxAttempts: 1` in ~/.gemini/settings.json);
retries are up to the workflow.
"""

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
    Result,
    Usage,
    Variable,
    plain_variables,
)
from podium.providers import failure_codes, reading, results
from podium.providers.reading import Object, count_at, object_at, text_at
from podium.providers.settings import ignored

_MODES: Final = {"read": "plan", "edit": "auto_edit", "full": "yolo"}
_IGNORED: Final = (
    "max_turns",
    "max_cost",
    "max_tokens",
    "temperature",
    "effort",
    "fallback_models",
    "disallowed_tools",
)
# Tools that are not available without the access they need.
_GUARDED: Final = frozenset({"run_shell_command", "write_file", "replace", "web_fetch", "google_web_search"})
_EXIT_CODES: Final[Mapping[int, AgentCode]] = {
    1: "PROVIDER_MISCONFIGURED",  # an unknown flag
    41: "AUTH",
    52: "PROVIDER_MISCONFIGURED",
    53: "MAX_TURNS",
    55: "PROVIDER_MISCONFIGURED",  # an untrusted folder
}

# Beyond the model's window it reports nothing, to the model or to us, and succeeds.
_LONG_PROMPT: Final = 400_000
_TOO_LONG: Final = failure_codes.failure(
    "PROMPT_TOO_LONG", "it sent nothing to the model, and the prompt is long"
)
# The status of the server, truncated to an exit code: 144 is 400, 173 is 429.
_FIRST_STATUS: Final = 144


class Gemini:
    name = "gemini"
    program = "gemini"
    sessions: Literal["chosen"] = "chosen"
    needs_env: Sequence[Variable] = (
        Variable("GEMINI_API_KEY"),
        Variable("GOOGLE_API_KEY"),
        *plain_variables("GOOGLE_GEMINI_BASE_URL", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA"),
        *plain_variables("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_APPLICATION_CREDENTIALS"),
    )

    def unsupported(self, settings: AgentSettings) -> Sequence[str]:
        return ignored(self.name, settings, _IGNORED)

    def validate_config(self, settings: AgentSettings, env: Mapping[str, str]) -> Sequence[str]:
        return ()

    def prepare(self, request: AgentRequest) -> ProcessCall:
        settings = request.settings
        argv = [self.program, "--output-format", "stream-json", "--skip-trust"]
        argv += ["--approval-mode", _MODES[settings.access]]
        if settings.model is not None:
            argv += ["--model", settings.model]
        for flag, values in (
            ("--include-directories", settings.add_dirs),
            ("--allowed-tools", settings.allowed_tools),
        ):
            for value in values:
                argv += [flag, value]
        argv += ["--resume", request.resume] if request.resume else ["--session-id", request.session_id]
        prompt = results.with_contract(request.prompt, request.schema)
        if settings.system_prompt is not None:
            prompt = f"{settings.system_prompt}\n\n{prompt}"
        return ProcessCall((*argv, *settings.args), prompt.encode(), prompt, reads_files=True)

    def observe(self, line: bytes) -> Progress | None:
        found = reading.as_object(line)
        if found is None:
            return None
        match found.get("type"):
            case "init":
                return Progress(session_id=text_at(found, "session_id") or None)
            case "message" if found.get("role") == "assistant":
                return Progress(text=text_at(found, "content"))
            case "tool_use":
                return Progress(
                    tool=text_at(found, "tool_name"), detail=reading.detail_of(found.get("parameters"))
                )
            case "tool_result":
                return Progress(tool_ended=True)
            case "result":
                return Progress(output_tokens=count_at(found, "stats", "output_tokens"))
            case _:
                return None

    def interpret(self, request: AgentRequest, result: Result) -> AgentOutcome:
        if isinstance(result, HttpResult):
            raise TypeError("gemini is a program")
        heard = _Heard()
        for found in reading.objects_of(result.stdout):
            heard.hear(found)
        text = reading.bounded("".join(heard.texts))
        structured = results.json_in(text) if request.schema is not None else None
        denials = tuple(heard.denials)
        error: AgentError | None
        if heard.result is None and result.exit_code == 0 and reading.breaks_off(result.stdout):
            # It echoes the prompt, and truncates a long one together with everything that would have
            # followed.
            is_long = len(request.prompt) > _LONG_PROMPT and not heard.has_answered
            error = _TOO_LONG if is_long else results.BROKEN_OFF
        elif heard.result is None:
            error = _unheard(result.exit_code, reading.tail_of(result.stderr))
        elif heard.result.get("status") != "success":
            error = _called_error(heard.result, heard.problem, result.exit_code)
        elif not text and not _usage(heard.result).input_tokens and len(request.prompt) > _LONG_PROMPT:
            error = _TOO_LONG
        else:
            error = results.why_not(request, text, structured, denials, result.exit_code)
            if error is not None and error.code == "AGENT_EMPTY" and heard.problem:
                # It stops a model that repeats itself, and reports success.
                error = failure_codes.failure("AGENT_EMPTY", heard.problem)
        lost = error is not None and error.code == "SESSION_LOST"
        session = None if lost else heard.session or request.resume or request.session_id
        return AgentOutcome(text, structured, session, _usage(heard.result or {}), None, denials, error)


class _Heard:
    """What the stream has reported so far. The answer is the text after the last tool."""

    def __init__(self) -> None:
        self.session: str | None = None
        self.texts: list[str] = []
        self.result: Object | None = None
        self.problem = ""
        self.denials: list[Denial] = []
        self.has_answered = False
        self._used: dict[str, Denial] = {}

    def hear(self, found: Object) -> None:
        self.has_answered |= found.get("role") == "assistant" or found.get("type") == "tool_use"
        match found.get("type"):
            case "init":
                self.session = text_at(found, "session_id") or None
            case "message" if found.get("role") == "assistant":
                self.texts.append(text_at(found, "content"))
            case "tool_use":
                self.texts.clear()
                use = Denial(text_at(found, "tool_name"), reading.detail_of(found.get("parameters")))
                self._used[text_at(found, "tool_id")] = use
            case "tool_result":
                self.texts.clear()
                used = self._used.pop(text_at(found, "tool_id"), None)
                if used is not None and _was_denied(found, used.tool):
                    self.denials.append(used)
            case "error":
                self.problem = text_at(found, "message")
            case "result":
                self.result = found


def _was_denied(tool_result: Object, tool: str) -> bool:
    kind = text_at(tool_result, "error", "type")
    return kind == "policy_violation" or (kind == "tool_not_registered" and tool in _GUARDED)


def _called_error(result: Object, problem: str, exit_code: int) -> AgentError:
    words = text_at(result, "error", "message") or problem or f"it failed with exit code {exit_code}"
    if text_at(result, "error", "type") == "FatalTurnLimitedError":
        return failure_codes.failure("MAX_TURNS", words)
    if exit_code >= _FIRST_STATUS:
        return failure_codes.of_status(exit_code + 256, words)
    if "empty response" in words:
        return failure_codes.failure("AGENT_EMPTY", words)
    if "finish reason" in words:
        return failure_codes.failure("AGENT_TRUNCATED", words)
    return failure_codes.of_words(words, _EXIT_CODES.get(exit_code, "AGENT_ERROR"))


def _unheard(exit_code: int, words: str) -> AgentError | None:
    if "Error resuming session" in words:
        return failure_codes.failure("SESSION_LOST", words)
    if exit_code in _EXIT_CODES:
        return failure_codes.failure(_EXIT_CODES[exit_code], f"exit code {exit_code}: {words}")
    return results.nothing_said(exit_code, words).error


def _usage(result: Object) -> Usage:
    stats = object_at(result, "stats")
    cached = count_at(stats, "cached")
    return Usage(count_at(stats, "input_tokens"), count_at(stats, "output_tokens"), cached)
