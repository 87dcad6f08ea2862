"""An agent program that a workflow describes itself, under `providers:`.

The program is started in the workspace with the prompt on its standard input, and gets the rest in variables:

    PODIUM_PROMPT_FILE   the prompt again, for a program with `stdin: none`
    PODIUM_MODEL, PODIUM_EFFORT, PODIUM_ACCESS, PODIUM_MAX_TURNS, PODIUM_MAX_TOKENS, PODIUM_SYSTEM_PROMPT_FILE
    PODIUM_SESSION       the session to continue
    PODIUM_SCHEMA_FILE   the JSON Schema of the result; its text also follows the prompt
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from podium.ports.provider import (
    AgentOutcome,
    AgentRequest,
    AgentSettings,
    Captured,
    HttpResult,
    ProcessCall,
    Progress,
    ProviderMisconfigured,
    Result,
    Usage,
    Variable,
)
from podium.providers import failure_codes, reading, results
from podium.providers.reading import Object
from podium.providers.settings import ignored

_IGNORED: Final = (
    "max_cost",
    "temperature",
    "fallback_models",
    "add_dirs",
    "allowed_tools",
    "disallowed_tools",
)


@dataclass(frozen=True, slots=True)
class Template:
    """`model.plan.ProviderTemplate` with every template filled in."""

    name: str
    argv: tuple[str, ...]
    stdin: Literal["prompt", "none"] = "prompt"
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    variables: tuple[str, ...] = ()
    result: Literal["text", "json"] = "text"
    # Paths in the JSON, with dots between the keys.
    text_field: str | None = None
    session_field: str | None = None
    tokens_field: str | None = None
    cost_field: str | None = None

    @property
    def program(self) -> str | None:
        return self.argv[0] if self.argv else None

    @property
    def needs_env(self) -> Sequence[Variable]:
        return tuple(Variable(name, required=True) for name in self.variables)

    @property
    def sessions(self) -> Literal["named", "none"]:
        return "none" if self.session_field is None else "named"

    def unsupported(self, settings: AgentSettings) -> Sequence[str]:
        return ignored(self.name, settings, _IGNORED)

    def validate_config(self, settings: AgentSettings, env: Mapping[str, str]) -> Sequence[str]:
        problems = [] if self.argv else [f"the provider {self.name!r} names no program in `argv`"]
        missing = [name for name in self.variables if not env.get(name)]
        return problems + [f"{self.name} needs the variable {name}, which is not set" for name in missing]

    def prepare(self, request: AgentRequest) -> ProcessCall:
        settings = request.settings
        problems = self.validate_config(settings, request.env)
        if problems:
            raise ProviderMisconfigured("; ".join(problems))
        prompt = results.with_contract(request.prompt, request.schema)
        files = {request.folder / "prompt.txt": prompt.encode()}
        if settings.system_prompt is not None:
            files[request.folder / "system-prompt.txt"] = settings.system_prompt.encode()
        if request.schema is not None:
            files[request.folder / "schema.json"] = results.schema_text(request.schema).encode()
        environment = {**self.env, **_variables(request, files)}
        content = prompt.encode() if self.stdin == "prompt" else b""
        return ProcessCall((*self.argv, *settings.args), content, prompt, environment, files)

    def observe(self, line: bytes) -> Progress | None:
        if self.result == "text":
            return Progress(text=reading.one_line(line.decode("utf-8", "replace"))) if line.strip() else None
        found = reading.as_object(line)
        session = _text(found, self.session_field) if found is not None else None
        return Progress(session_id=session) if session else None

    def interpret(self, request: AgentRequest, result: Result) -> AgentOutcome:
        if isinstance(result, HttpResult):
            raise TypeError("a template is a program")
        found = self._object(result.stdout) if self.result == "json" else None
        text = self._text_of(found, result.stdout)
        session = _text(found, self.session_field) if found is not None else None
        structured: Any = None
        if request.schema is not None:
            whole = found if self.text_field is None else None
            structured = whole if whole is not None else results.json_in(text)
        if result.exit_code:
            words = reading.tail_of(result.stderr) or text
            error = failure_codes.failure("AGENT_ERROR", f"exit code {result.exit_code}: {words}")
        elif self.result == "json" and found is None:
            error = failure_codes.failure("AGENT_ERROR", "its output holds no JSON object")
        else:
            wrong = results.why_not(request, text, structured, ())
            return AgentOutcome(text, structured, session or request.resume, self._usage(found), error=wrong)
        return AgentOutcome(text, None, session or request.resume, self._usage(found), error=error)

    def _usage(self, found: Object | None) -> Usage:
        """Input and output tokens are not distinguished."""
        tokens, cost = _at(found, self.tokens_field), _at(found, self.cost_field)
        return Usage(
            input_tokens=tokens if isinstance(tokens, int) and tokens is not True and tokens >= 0 else 0,
            cost_usd=float(cost)
            if isinstance(cost, int | float) and cost is not True and 0 <= cost < math.inf
            else None,
        )

    def _object(self, stdout: Captured) -> Object | None:
        """The whole output, or else its last line that is an object."""
        whole = reading.as_object(reading.head_of(stdout, reading.MAX_LINE).strip())
        if whole is not None:
            return whole
        last = None
        for last in reading.objects_of(stdout):  # noqa: B007 - the last one is wanted
            pass
        return last

    def _text_of(self, found: Object | None, stdout: Captured) -> str:
        if found is None or self.text_field is None:
            return reading.head_of(stdout).strip()
        return reading.bounded(_text(found, self.text_field) or "")


def _at(found: Object | None, dotted: str | None) -> Any:
    value: Any = found
    for key in dotted.split(".") if dotted else ("",):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _text(found: Object | None, dotted: str | None) -> str | None:
    value = _at(found, dotted)
    return value if isinstance(value, str) and value else None


def _variables(request: AgentRequest, files: Mapping[Path, bytes]) -> dict[str, str]:
    settings = request.settings
    names = {path.name: str(path) for path in files}
    values = {
        "PODIUM_PROMPT_FILE": names["prompt.txt"],
        "PODIUM_SYSTEM_PROMPT_FILE": names.get("system-prompt.txt"),
        "PODIUM_SCHEMA_FILE": names.get("schema.json"),
        "PODIUM_SESSION": request.resume,
        "PODIUM_MODEL": settings.model,
        "PODIUM_EFFORT": settings.effort,
        "PODIUM_ACCESS": settings.access,
        "PODIUM_MAX_TURNS": settings.max_turns,
        "PODIUM_MAX_TOKENS": settings.max_tokens,
    }
    return {name: str(value) for name, value in values.items() if value is not None}
