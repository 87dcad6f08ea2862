"""Providers: the agents that answer agent steps.

A provider knows one agent program or one model server, and nothing about runs. It says how to ask
(`prepare`), what an answer says while it is still arriving (`observe`), and what the whole answer means
(`interpret`). The caller starts the process, sends the request, applies time limits, masks secrets and
records: the only input or output of a provider is reading the files it is given.

What every provider promises, and the tests check for each:

- The prompt is never in the arguments: they are limited to 128 KiB, and every user of the machine can read
  them.
- `observe` and `interpret` are total. Whatever bytes a program writes, in whatever state it died, there is an
  outcome.
- An outcome without an error is reliable: a text, or a result that is JSON where a schema was requested. The
  caller, who knows schemas, checks whether the JSON fits its schema; `AGENT_SCHEMA` is the code for that,
  too.
- Nothing is read without a limit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from podium.errors import PodiumError
from podium.plan.plan import ProviderTemplate

# --- the request ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The settings of an agent in a workflow, with every template filled in."""

    model: str | None = None
    fallback_models: tuple[str, ...] = ()
    effort: str | None = None
    system_prompt: str | None = None
    max_turns: int | None = None
    max_cost: float | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    add_dirs: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    # Further arguments of a program, verbatim.
    args: tuple[str, ...] = ()
    access: Literal["read", "edit", "full"] = "edit"
    allow_denials: bool = False


@dataclass(frozen=True, slots=True)
class AgentRequest:
    prompt: str
    # The agent's working directory.
    workspace: Path
    # For the files of this visit: a schema, a last message. Only this visit uses it; it exists when a call
    # names files in it, and is deleted afterwards.
    folder: Path
    # A fresh UUID. A provider that accepts one (`sessions` is "chosen") has this session, even if it dies
    # immediately.
    session_id: str
    settings: AgentSettings = AgentSettings()
    # The JSON Schema of the result; None if a text is requested.
    schema: Mapping[str, Any] | None = None
    # The session of an earlier visit to continue, and the `session_usage` of its last outcome.
    resume: str | None = None
    resumed_usage: "Usage | None" = None
    # The agent's environment; addresses and keys of model servers are looked up here.
    env: Mapping[str, str] = field(default_factory=dict, repr=False)


# --- the call -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProcessCall:
    """A program to run in the workspace. `files` are written before it starts."""

    argv: tuple[str, ...]
    stdin: bytes
    # Exactly what the agent is given, for the record.
    prompt: str
    # Added to the environment of the request.
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[Path, bytes] = field(default_factory=dict)
    # Written by the program if it gets that far; `interpret` reads them.
    outputs: tuple[Path, ...] = ()
    # It has tools that read the files of `add_dirs`: a prompt that is too long can be passed as a file.
    reads_files: bool = False


@dataclass(frozen=True, slots=True)
class HttpCall:
    method: Literal["POST"]
    url: str
    # Contains the key.
    headers: Mapping[str, str] = field(repr=False)
    body: Mapping[str, Any] = field(repr=False)
    prompt: str = ""
    # The answer consists of server-sent events; every line of it is passed to `observe`.
    streams: bool = True


@dataclass(frozen=True, slots=True)
class Answered:
    """No call is needed: this is the outcome. For `echo`, and for recorded answers."""

    outcome: "AgentOutcome"
    prompt: str


Call: TypeAlias = ProcessCall | HttpCall | Answered

# --- the answer -----------------------------------------------------------------------------------

# A file of any size, or bytes whose size was limited already.
Captured: TypeAlias = Path | bytes


@dataclass(frozen=True, slots=True)
class ProcessResult:
    # 128 + n if it was killed by signal n.
    exit_code: int
    stdout: Captured
    stderr: Captured = b""


@dataclass(frozen=True, slots=True)
class HttpResult:
    # 0 if there was no answer at all; then `problem` says why.
    status: int
    body: Captured = b""
    # Names in lower case.
    headers: Mapping[str, str] = field(default_factory=dict)
    # The connection ended before the answer was complete.
    was_cut: bool = False
    problem: str = ""
    # It exceeded the caller's limit after decompression.
    is_too_large: bool = False


Result: TypeAlias = ProcessResult | HttpResult


@dataclass(frozen=True, slots=True)
class Progress:
    """What one line of an incomplete answer says. Texts are untrusted and may hold anything."""

    # The session, as soon as the program reports it.
    session_id: str | None = None
    text: str | None = None
    # The tool in use, and what it is used on.
    tool: str | None = None
    detail: str | None = None
    # A tool has returned its result: what follows is a new turn of the model.
    tool_ended: bool = False
    # Written by the model in this turn so far, or in all turns if the program only reports the sum.
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    # All tokens read, including those from a cache.
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    # None if unknown; then a budget in dollars cannot be enforced.
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Denial:
    """A tool that the agent was not allowed to use."""

    tool: str
    detail: str = ""


AgentCode: TypeAlias = Literal[
    "AGENT_EMPTY",  # it succeeded without any text
    "AGENT_ERROR",  # it reports a failure, or its answer cannot be understood
    "AGENT_DENIED",  # it was not allowed to use a tool
    "AGENT_REFUSED",  # the model declined to answer
    "AGENT_SCHEMA",  # no result, or one that does not fit
    "AGENT_TRUNCATED",  # the answer was cut short
    "AUTH",
    "BUDGET_EXCEEDED",  # the step's own max_cost
    "MAX_TURNS",
    "OVERLOADED",
    "PROMPT_TOO_LONG",  # for the model or the program
    "PROVIDER_MISCONFIGURED",  # a flag, a model or an address that does not exist
    "PROVIDER_UNAVAILABLE",  # the server did not answer
    "RATE_LIMIT",
    "SESSION_LOST",  # the session to continue does not exist
]


@dataclass(frozen=True, slots=True)
class AgentError:
    code: AgentCode
    message: str
    # False: a retry cannot succeed, whatever the workflow says about retries.
    retryable: bool = True
    # Seconds that the server asked us to wait.
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class AgentOutcome:
    """The outcome of a call. Failures also have text, usage and session: they were paid for."""

    text: str = ""
    # The result, if a schema was requested and the answer was JSON.
    structured: Any = None
    session_id: str | None = None
    usage: Usage = Usage()
    # Usage of the whole session so far, for a program that reports it in this way; the next request that
    # resumes it needs this.
    session_usage: Usage | None = None
    denials: tuple[Denial, ...] = ()
    error: AgentError | None = None
    # What a user should know although it is not a failure.
    warnings: tuple[str, ...] = ()
    # Values that the program, or one of its tools, wrote to $PODIUM_OUTPUT. Providers do not set them.
    outputs: Mapping[str, str] = field(default_factory=dict)


# --- the provider ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable that the provider's steps get without listing it, and no other step does."""

    name: str
    required: bool = False
    # Masked wherever it would be visible.
    is_secret: bool = True


def plain_variables(*names: str) -> tuple[Variable, ...]:
    """Variables that are not secret: addresses, folders and switches of a program."""
    return tuple(Variable(name, is_secret=False) for name in names)


class Provider(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def needs_env(self) -> Sequence[Variable]: ...

    @property
    def program(self) -> str | None:
        """The program that has to be on PATH; None if there is none."""
        ...

    # Optional attribute `extra`: the name of the extra of Podium (`pip install 'podium[NAME]'`) that it
    # needs.

    @property
    def sessions(self) -> Literal["chosen", "named", "none"]:
        """Chosen: the request's id is used. Named: the program reports its own. None: there is nothing to
        continue.
        """
        ...

    def unsupported(self, settings: AgentSettings) -> Sequence[str]:
        """A sentence for each setting that will be ignored. The caller warns, or refuses if the workflow is
        strict.
        """
        ...

    def validate_config(self, settings: AgentSettings, env: Mapping[str, str]) -> Sequence[str]:
        """A sentence for each problem that would make every call fail: checked before anything is spent."""
        ...

    def prepare(self, request: AgentRequest) -> Call:
        """Raises `ProviderMisconfigured` for what `validate_config` reports."""
        ...

    def observe(self, line: bytes) -> Progress | None: ...

    def interpret(self, request: AgentRequest, result: Result) -> AgentOutcome: ...


class Providers(Protocol):
    """The providers that a run can use."""

    def find(self, name: str) -> Provider:
        """Raises `ProviderNotAvailable`."""
        ...

    def of_template(
        self, name: str, template: ProviderTemplate, argv: tuple[str, ...], env: Mapping[str, str]
    ) -> Provider:
        """A provider that a workflow describes itself; its texts are filled in."""
        ...

    async def send(
        self,
        call: HttpCall,
        body: Path,
        on_line: Callable[[bytes], object] | None = None,
        *,
        max_body: int,
    ) -> HttpResult: ...

    def repair_prompt(self, problem: str, schema: Mapping[str, Any]) -> str:
        """The prompt for one more turn, after a result that does not fit."""
        ...


class ProviderMisconfigured(PodiumError):
    """A setting that cannot work, or a missing variable."""

    code = "PROVIDER_MISCONFIGURED"


class ProviderNotAvailable(PodiumError):
    """No provider has that name, or its package cannot be loaded."""

    code = "PROVIDER_NOT_AVAILABLE"
