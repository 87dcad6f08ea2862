"""Who answers an agent step.

A provider knows one agent program or one model server, and nothing about runs. It says how to ask (`prepare`), what an
answer that is still coming says already (`observe`), and what the whole answer amounts to (`interpret`). Starting the
process, sending the request, time limits, masks and records are for whoever calls it: a provider does no input or
output but reading the files it is given.

What every provider promises, and the tests try on each:

- The prompt is never in the arguments: they are limited to 128 KiB, and every user of the machine can read them.
- `observe` and `interpret` are total. Whatever bytes a program writes, in whatever state it died, there is an outcome.
- An outcome without an error can be believed: a text, or a result that is JSON where a schema was asked for. Whether
  the JSON fits its schema is for the caller to say, who knows schemas; `AGENT_SCHEMA` is the code for that, too.
- Nothing is read without a limit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from podium.errors import PodiumError
from podium.plan.plan import ProviderTemplate

# --- what is asked --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What a workflow says about an agent, with every template filled in."""

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
    # Where the agent works.
    workspace: Path
    # For the files of this visit: a schema, a last message. It belongs to this visit alone, is there when a call names
    # files in it, and is gone afterwards.
    folder: Path
    # A fresh UUID. A provider that takes one (`sessions` is "chosen") has this session, even if it dies at once.
    session_id: str
    settings: AgentSettings = AgentSettings()
    # The JSON Schema of the result; None if a text is wanted.
    schema: Mapping[str, Any] | None = None
    # The session of an earlier visit that continues, and what its last outcome told in `session_usage`.
    resume: str | None = None
    resumed_usage: "Usage | None" = None
    # What the agent will see; addresses and keys of model servers are looked up here.
    env: Mapping[str, str] = field(default_factory=dict, repr=False)


# --- how it is asked ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProcessCall:
    """A program to run in the workspace. `files` are written before it starts."""

    argv: tuple[str, ...]
    stdin: bytes
    # Exactly what the agent is told, for the record.
    prompt: str
    # Added to the environment of the request.
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[Path, bytes] = field(default_factory=dict)
    # Written by the program, if it gets that far; `interpret` reads them.
    outputs: tuple[Path, ...] = ()
    # It has tools that read the files of `add_dirs`: a prompt that is too long can be given as one.
    reads_files: bool = False


@dataclass(frozen=True, slots=True)
class HttpCall:
    method: Literal["POST"]
    url: str
    # Holds the key.
    headers: Mapping[str, str] = field(repr=False)
    body: Mapping[str, Any] = field(repr=False)
    prompt: str = ""
    # The answer comes as server-sent events; give `observe` every line of it.
    streams: bool = True


@dataclass(frozen=True, slots=True)
class Answered:
    """Nobody has to be asked: this is the outcome. For `echo`, and for answers that were kept."""

    outcome: "AgentOutcome"
    prompt: str


Call: TypeAlias = ProcessCall | HttpCall | Answered

# --- what came back -------------------------------------------------------------------------------

# A file that may be of any size, or bytes that somebody has bounded already.
Captured: TypeAlias = Path | bytes


@dataclass(frozen=True, slots=True)
class ProcessResult:
    # 128 + n if signal n ended it.
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
    # The connection ended before the answer did.
    was_cut: bool = False
    problem: str = ""
    # It was cut by the caller's limit, once decompressed.
    is_too_large: bool = False


Result: TypeAlias = ProcessResult | HttpResult


@dataclass(frozen=True, slots=True)
class Progress:
    """What one line of an answer that is still coming says. Texts are untrusted and may hold anything."""

    # The session, as soon as the program names it.
    session_id: str | None = None
    text: str | None = None
    # A tool that is being used, and on what.
    tool: str | None = None
    detail: str | None = None
    # A tool has given its result: what comes next is a new turn of the model.
    tool_ended: bool = False
    # Written by the model in this turn so far; of a program that tells no more than the sum, in all of them.
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    # All that was read, what came from a cache included.
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    # None: nobody knows. Then a budget in dollars cannot be kept.
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Denial:
    """A tool that the agent was not allowed to use."""

    tool: str
    detail: str = ""


AgentCode: TypeAlias = Literal[
    "AGENT_EMPTY",  # it ended well and said nothing
    "AGENT_ERROR",  # it says that it failed, or nobody can tell what it says
    "AGENT_DENIED",  # it was not allowed to use a tool
    "AGENT_REFUSED",  # the model declined to answer
    "AGENT_SCHEMA",  # no result, or none that fits
    "AGENT_TRUNCATED",  # the answer was cut short
    "AUTH",
    "BUDGET_EXCEEDED",  # the step's own max_cost
    "MAX_TURNS",
    "OVERLOADED",
    "PROMPT_TOO_LONG",  # for the model, or for the program
    "PROVIDER_MISCONFIGURED",  # a flag, a model or an address that does not exist
    "PROVIDER_UNAVAILABLE",  # the server did not answer
    "RATE_LIMIT",
    "SESSION_LOST",  # the session to continue is not there
]


@dataclass(frozen=True, slots=True)
class AgentError:
    code: AgentCode
    message: str
    # False: the same again cannot succeed, whatever the workflow says about retries.
    retryable: bool = True
    # Seconds that the server asked us to wait.
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class AgentOutcome:
    """What came of it. Text, usage and session are told of failures too: they were paid for."""

    text: str = ""
    # The result, where a schema was asked for and JSON came.
    structured: Any = None
    session_id: str | None = None
    usage: Usage = Usage()
    # Of the whole session so far, from a program that counts so; the next request that resumes it needs this.
    session_usage: Usage | None = None
    denials: tuple[Denial, ...] = ()
    error: AgentError | None = None
    # What a user should know although it is no failure.
    warnings: tuple[str, ...] = ()
    # Values that the program, or a tool of it, wrote to $PODIUM_OUTPUT. Providers need not care.
    outputs: Mapping[str, str] = field(default_factory=dict)


# --- who is asked ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable that a provider's steps get without listing it, and no other step does."""

    name: str
    required: bool = False
    # Masked wherever it would be shown.
    is_secret: bool = True


def plain_variables(*names: str) -> tuple[Variable, ...]:
    """Variables that may be seen: addresses, folders and switches of a program."""
    return tuple(Variable(name, is_secret=False) for name in names)


class Provider(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def needs_env(self) -> Sequence[Variable]: ...

    @property
    def program(self) -> str | None:
        """What has to be on PATH; None if nothing has."""
        ...

    # Optional: `extra`, the name of the optional part of Podium (`pip install 'podium[NAME]'`) that it needs.

    @property
    def sessions(self) -> Literal["chosen", "named", "none"]:
        """Chosen: the request's id is used. Named: the program tells its own. None: there is nothing to continue."""
        ...

    def unsupported(self, settings: AgentSettings) -> Sequence[str]:
        """A sentence for each setting that will be ignored. The caller warns, or refuses if the workflow is strict."""
        ...

    def validate_config(self, settings: AgentSettings, env: Mapping[str, str]) -> Sequence[str]:
        """What would make every call fail, a sentence each: known before anything is spent."""
        ...

    def prepare(self, request: AgentRequest) -> Call:
        """Raises `ProviderMisconfigured` for what `validate_config` tells."""
        ...

    def observe(self, line: bytes) -> Progress | None: ...

    def interpret(self, request: AgentRequest, result: Result) -> AgentOutcome: ...


class Providers(Protocol):
    """Whom a run can ask."""

    def find(self, name: str) -> Provider:
        """Raises `ProviderNotAvailable`."""
        ...

    def of_template(
        self, name: str, template: ProviderTemplate, argv: tuple[str, ...], env: Mapping[str, str]
    ) -> Provider:
        """One that a workflow describes itself; its texts are filled in."""
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
        """For one more turn, after a result that does not fit."""
        ...


class ProviderMisconfigured(PodiumError):
    """A setting that cannot work, or a variable that is missing."""

    code = "PROVIDER_MISCONFIGURED"


class ProviderNotAvailable(PodiumError):
    """Nobody goes by that name, or what should provide it cannot be loaded."""

    code = "PROVIDER_NOT_AVAILABLE"
