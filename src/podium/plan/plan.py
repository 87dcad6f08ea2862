"""The plan: what a workflow means, in the one form that every engine runs.

A plan is plain JSON with canonical bytes, so its SHA-256 identifies it. It holds no secret, only names of
secrets; nothing of the machine it was compiled on; and no text that still has to be parsed: templates and
conditions are trees. Everything optional is omitted when it has its default, so a new optional field does not
change the hash of old plans.

    Plan -> Workflow -> Block -> Step -> body: a task, or a composite with Blocks of its own
"""

from functools import cache
from typing import Any, Final, Literal, TypeAlias

import msgspec

from podium.expressions.types import Data, Text
from podium.plan.conditions import Condition

SCHEMA_VERSION: Final = "v1.2"
# Deeper nesting is refused when a workflow is loaded, because the machine walks upwards through all levels.
MAX_NESTING: Final = 32

Seconds: TypeAlias = float | int


class _Part(
    msgspec.Struct, gc=False, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
    def __post_init__(self) -> None:
        # msgspec omits only the default itself, not values equal to it; but equal plans must have equal
        # bytes.
        for name, default in _defaults_of(type(self)):
            value = getattr(self, name)
            if value is not default and value == default:
                msgspec.structs.force_setattr(self, name, default)


@cache
def _defaults_of(part: type[_Part]) -> tuple[tuple[str, Any], ...]:
    """The fields whose default can be created a second time: all but null, true, false and the empty ones."""
    defaults = part.__struct_defaults__
    fields = part.__struct_fields__[len(part.__struct_fields__) - len(defaults) :]
    return tuple(
        (name, value)
        for name, value in zip(fields, defaults, strict=True)
        if isinstance(value, str | int | _Part) and not isinstance(value, bool)
    )


# --- targets --------------------------------------------------------------------------------------


class Goto(_Part, frozen=True, tag="goto", tag_field="kind"):
    step: str


class End(_Part, frozen=True, tag="end", tag_field="kind"):
    """The workflow succeeds."""


class Error(_Part, frozen=True, tag="error", tag_field="kind"):
    """The workflow fails, for this reason."""

    message: Text


class ErrorStep(_Part, frozen=True, tag="errorStep", tag_field="kind"):
    """`_error`: that step runs, if there is one, and the workflow fails."""


class Break(_Part, frozen=True, tag="break", tag_field="kind"):
    """The innermost loop ends."""


class Continue(_Part, frozen=True, tag="continue", tag_field="kind"):
    """The innermost loop continues with its next item or pass."""


Target: TypeAlias = Goto | End | Error | ErrorStep | Break | Continue


class Handlers(_Part, frozen=True):
    """`on`: where a step's outcome leads. The default follows from the block's discipline."""

    success: Target | None = None
    failure: Target | None = None
    timeout: Target | None = None
    skipped: Target | None = None


# --- retries and limits ---------------------------------------------------------------------------


class Retry(_Part, frozen=True):
    attempts: int = 1
    backoff: Literal["linear", "exponential"] = "linear"
    delay: Seconds = 1
    max_delay: Seconds = 60
    # What is retried: exit codes, "timeout", "rate_limit"; empty means everything.
    on: tuple[int | str, ...] = ()
    # How long a step whose last attempt failed waits for an operator before its failure is routed.
    operator: Seconds = 0


class Limits(_Part, frozen=True):
    max_memory: int | None = None
    max_cpu: Seconds | None = None
    max_output_size: int | None = None
    # Bytes; exceeding one fails the step.
    max_log_size: int | None = None
    max_body_size: int | None = None
    max_artifact_size: int | None = None


class Budget(_Part, frozen=True):
    usd: float | int | None = None
    tokens: int | None = None
    soft: float | int | None = None
    reserve: float | int | None = None


class Join(_Part, frozen=True):
    wait_for: Literal["all", "any", "majority"] = "all"
    fail_fast: bool = False
    rest: Literal["cancel", "wait"] = "cancel"


class Expect(_Part, frozen=True):
    """What must exist for a success to count."""

    files: tuple[Text, ...] = ()
    schema: dict[str, Any] | None = None


# When a notification is sent: the last attempt failed, success, a person is needed, 80% of a budget are used.
Occasion: TypeAlias = Literal["failure", "success", "waiting", "budget"]


class Notification(_Part, frozen=True):
    """Whom to notify of what; exactly one of the three targets is set."""

    on: tuple[Occasion, ...]
    webhook: Text | None = None
    command: tuple[Text, ...] = ()
    apprise: Text | None = None


class Work(_Part, frozen=True):
    """What all tasks have in common: where it runs, what it may see, how its output is handled."""

    env: dict[str, Text] = {}
    env_policy: Literal["inherit", "minimal"] = "inherit"
    env_allow: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    workdir: Text | None = None
    input_files: tuple[Text, ...] = ()
    inject: Literal["listing", "content"] = "listing"
    output_file: Text | None = None
    capture: Literal["text", "lines", "json"] = "text"
    expect: Expect | None = None
    limits: Limits | None = None
    keep_children: bool = False
    cache: bool = False
    budget: Budget | None = None


PLAIN_WORK: Final = Work()


# --- what a step does -----------------------------------------------------------------------------


class Ssh(_Part, frozen=True):
    """Another machine on which a command runs; OpenSSH's configuration decides what is not given."""

    host: Text
    user: Text | None = None
    port: int | None = None
    identity_file: Text | None = None


class Container(_Part, frozen=True):
    """The container in which a command runs."""

    image: Text
    # None: the first one that is installed.
    runtime: Literal["podman", "docker"] | None = None
    network: Text | None = None
    # None: the user of the driver.
    user: Text | None = None
    pull: Literal["missing", "always", "never"] = "missing"


class Command(_Part, frozen=True, tag="command", tag_field="kind"):
    argv: tuple[Text, ...]
    work: Work = PLAIN_WORK
    ssh: Ssh | None = None
    container: Container | None = None


class Prompt(_Part, frozen=True):
    """Either the text, or the path of a file whose name is known only when the step runs."""

    text: Text | None = None
    file: Text | None = None


class Agent(_Part, frozen=True, tag="agent", tag_field="kind"):
    provider: str
    prompt: Prompt
    work: Work = PLAIN_WORK
    model: Text | None = None
    fallback_models: tuple[Text, ...] = ()
    effort: Text | None = None
    system_prompt: Prompt | None = None
    max_turns: int | None = None
    max_cost: float | int | None = None
    max_tokens: int | None = None
    temperature: float | int | None = None
    add_dirs: tuple[Text, ...] = ()
    allowed_tools: tuple[Text, ...] = ()
    disallowed_tools: tuple[Text, ...] = ()
    args: tuple[Text, ...] = ()
    access: Literal["read", "edit", "full"] = "edit"
    allow_denials: bool = False
    strict_provider: bool = False
    workspace: Literal["shared", "worktree"] = "shared"
    # The step whose conversation is continued.
    resume: str | None = None


class Http(_Part, frozen=True, tag="http", tag_field="kind"):
    url: Text
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] = "GET"
    headers: dict[str, Text] = {}
    # Text is sent as it is; anything else as JSON.
    body: "Data" = None
    expect_status: tuple[int, ...] = ()
    work: Work = PLAIN_WORK


class Python(_Part, frozen=True, tag="python", tag_field="kind"):
    """`module:function`, which receives and returns JSON."""

    function: str
    args: dict[str, "Data"] = {}
    work: Work = PLAIN_WORK


class NodeRetry(_Part, frozen=True):
    """How often, and after which delays, an effect is retried inside one attempt of its step."""

    retries: int = 3
    delay: Seconds = 0.1
    factor: float | int = 2
    max_delay: Seconds = 5
    # Names of the errors that are retried.
    on: tuple[str, ...] = ("EffectExecutionError", "ConnectionError", "TimeoutError")


class NodeBreaker(_Part, frozen=True):
    """After this many consecutive failed attempts, the service of a node is not called for a while."""

    failures: int = 5
    reset: Seconds = 60


class Node(_Part, frozen=True, tag="node", tag_field="kind"):
    """An operation of a node that is installed on the worker."""

    type: Literal["compute", "effect", "reducer", "orchestrator", "custom"]
    node: str
    operation: str
    config: dict[str, Any] = {}
    # The input of the node: the run's event, and the outputs of earlier steps. Missing values are omitted.
    inputs: dict[str, "Data"] = {}
    # Priority of the action as which the step is executed.
    priority: int = 1
    # Effects only.
    retry: NodeRetry | None = None
    breaker: NodeBreaker | None = None
    # Names of errors after which the step is not retried.
    fatal: tuple[str, ...] = ()


class Approval(_Part, frozen=True, tag="approval", tag_field="kind"):
    message: Text
    form: dict[str, "FormField"] = {}
    assignee: Text | None = None


class FormField(_Part, frozen=True):
    type: Literal["string", "int", "number", "bool", "list", "map"] = "string"
    required: bool = False
    enum: tuple[Any, ...] = ()


class Set(_Part, frozen=True, tag="set", tag_field="kind"):
    """Creates or replaces context keys."""

    values: dict[str, "Data"]


class Publish(_Part, frozen=True, tag="publish", tag_field="kind"):
    """A message for a topic. It is stored in the completion of the step; a relay delivers it."""

    topic: str
    body: "Data" = None
    # Messages with the same key stay in order.
    key: Text | None = None
    # The type of the message for its consumers; by default its topic.
    type: str | None = None


class Gate(_Part, frozen=True, tag="gate", tag_field="kind"):
    """Does nothing: success if `when` is true, otherwise failure."""


class Call(_Part, frozen=True, tag="call", tag_field="kind"):
    workflow: "Workflow"
    inputs: dict[str, "Data"] = {}


class Group(_Part, frozen=True, tag="group", tag_field="kind"):
    block: "Block"
    budget: Budget | None = None


class Parallel(_Part, frozen=True, tag="parallel", tag_field="kind"):
    """Each step of the block is a branch."""

    block: "Block"
    join: Join = Join()
    max_workers: int = 10
    budget: Budget | None = None


class ForEach(_Part, frozen=True, tag="forEach", tag_field="kind"):
    items: "Data"
    block: "Block"
    variable: str = "item"
    parallel: bool = False
    max_workers: int | None = None
    max_iterations: int | None = None
    join: Join = Join()
    budget: Budget | None = None


class While(_Part, frozen=True, tag="while", tag_field="kind"):
    """A loop with a condition, evaluated before each pass (`while`) or after it (`repeat_until`)."""

    condition: Condition
    block: "Block"
    # True: repeat until the condition holds; it is evaluated after each pass.
    until: bool = False
    max_iterations: int = 1000
    max_duration: Seconds = 3600
    check_interval: Seconds = 0
    budget: Budget | None = None


Body: TypeAlias = (
    Command
    | Agent
    | Http
    | Python
    | Node
    | Approval
    | Set
    | Publish
    | Gate
    | Call
    | Group
    | Parallel
    | ForEach
    | While
)


# --- steps and blocks -----------------------------------------------------------------------------

# What follows from an outcome that no handler names; the machine has one table for it.
Discipline: TypeAlias = Literal["strict", "implied", "compatible", "branch", "pass", "cleanup", "graph"]


class Step(_Part, frozen=True):
    step_id: str
    body: Body
    # Displayed name, if it differs from the id.
    name: str | None = None
    description: str | None = None
    labels: dict[str, str] = {}
    when: Condition | None = None
    on: Handlers | None = None
    retry: Retry | None = None
    # For a task: how long one attempt may take. For anything else: how long it may be open (its join, its
    # answer).
    timeout: Seconds | None = None
    depends_on: tuple[str, ...] = ()
    error_action: Literal["continue", "stop"] = "continue"
    allow_failure: bool = False
    max_visits: int | None = None
    idempotent: bool = True
    on_doubt: Literal["retry", "fail", "ask"] = "ask"
    notify: tuple[Notification, ...] = ()


class Block(_Part, frozen=True):
    discipline: Discipline
    steps: tuple[Step, ...]


# --- workflows ------------------------------------------------------------------------------------


class Input(_Part, frozen=True):
    type: Literal["string", "int", "number", "bool", "list", "map"] = "string"
    required: bool = False
    default: Any = None
    enum: tuple[Any, ...] = ()
    description: str | None = None
    # A run is given where its value comes from, like `env:TOKEN`, and only that is recorded.
    secret: bool = False


class ProviderTemplate(_Part, frozen=True):
    """An agent program described in the workflow itself."""

    argv: tuple[Text, ...]
    stdin: Literal["prompt", "none"] = "prompt"
    env: dict[str, Text] = {}
    needs_env: tuple[str, ...] = ()
    result: Literal["text", "json"] = "text"
    text_field: str | None = None
    session_field: str | None = None
    tokens_field: str | None = None
    cost_field: str | None = None


class Workflow(_Part, frozen=True):
    """The content of one file; a `call` holds another one."""

    name: str
    block: Block
    # Index of the step at which the block is entered: `_start`, wherever it is in the list.
    entry: int = 0
    # `_error`, removed from the list.
    error: Step | None = None
    # `finally`
    cleanup: Block | None = None
    inputs: dict[str, Input] = {}
    outputs: dict[str, Data] = {}
    context: dict[str, Any] = {}
    timeout: Seconds | None = None
    secrets: tuple[str, ...] = ()
    env: dict[str, Text] = {}
    env_allow: tuple[str, ...] = ()
    http_allow: tuple[str, ...] = ()
    # The topics that its steps may publish to.
    publishes: tuple[str, ...] = ()
    providers: dict[str, ProviderTemplate] = {}
    budget: Budget | None = None
    max_transitions: int = 1000
    max_parallel: int = 16
    max_output_size: int = 100_000
    notify: tuple[Notification, ...] = ()


class Concurrency(_Part, frozen=True):
    key: Text
    limit: int = 1
    on_conflict: Literal["queue", "reject", "cancel"] = "queue"


# What a plan accepts if an engine lacks a capability that it requires.
Fallback: TypeAlias = Literal["reject", "emulate", "degrade"]
Engine: TypeAlias = Literal["any", "local", "temporal", "conductor"]
# Whether a person has to approve the plan of a run before it starts.
ApprovalOfRuns: TypeAlias = Literal["none", "required"]


class Metadata(_Part, frozen=True):
    plan_id: str
    plan_version: str
    name: str
    requires_capabilities: tuple[str, ...] = ()
    fallback_behavior: Fallback = "reject"
    target_adapter: Engine = "any"
    description: str | None = None
    labels: dict[str, str] = {}


class Plan(_Part, frozen=True):
    schema_version: str
    metadata: Metadata
    workflow: Workflow
    priority: int = 0
    concurrency: Concurrency | None = None
    approval: ApprovalOfRuns = "none"
