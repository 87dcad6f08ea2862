"""The workflow language as a table: every key, its values, and its purpose.

The loader checks files against this table, `podium schema workflow` prints it as a JSON Schema, and the
documentation lists it. What is not specific to one key (names, targets, references) is checked in the modules
beside this one.
"""

from typing import Final

from podium.language.shapes import (
    SECONDS,
    Anything,
    Choice,
    Either,
    Field,
    Flag,
    ListOf,
    MapOf,
    Named,
    Number,
    Only,
    Record,
    Shape,
    Text,
)

_SECONDS: Final = Number(above=0, unit=SECONDS)
_DOLLARS: Final = Number(above=0, unit="dollars")
_COUNT: Final = Number(least=1, integer=True)
_WORDS: Final = Text()
_TEMPLATE: Final = Text(template=True)
_ARGUMENT: Final = Text(template=True, also_numbers=True, may_be_empty=True)
_PATH: Final = Text(template=True, expected="a path")
_WITHOUT_REFERENCE: Final = r"(?:(?!\$\{)[\s\S])+"
_FIXED_PATH: Final = Text(pattern=_WITHOUT_REFERENCE, expected="a path, without ${...}")
ENV_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_ENV_NAMES: Final = ListOf(Text(pattern=ENV_NAME, expected="the name of a variable, like GITHUB_TOKEN"))
VARIABLE: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_ENV: Final = MapOf(_ARGUMENT, key=ENV_NAME, expected="the name of a variable, like LOG_LEVEL")
_CONDITION: Final = Either((Flag(), Named("condition")))
_STEPS: Final = ListOf(Named("step"), least=1, included="include")
_LABELS: Final = MapOf(Text(also_numbers=True, may_be_empty=True))
_MEMORY: Final = Text(pattern=r"[0-9]+(\.[0-9]+)?\s*([KMGT]i?)?B?", expected="a size, like 512M or 2G")

_COMBINED_VALUE: Final = Either(
    (Text(expected="text", may_be_empty=True), Number(), Flag()),
    otherwise="Write text, or a number, or true or false. For chosen combinations, as with `include` and `exclude`, "
    "write `for_each: {items: [{os: linux, py: 3}], as: matrix, parallel: true, steps: [...]}`.",
)

TRIED_AGAIN_ON: Final = ("timeout", "rate_limit")

# --- small records --------------------------------------------------------------------------------

_TARGET = Record(
    "target",
    "a target",
    {
        "goto": Field(
            Text(expected="the name of a step"),
            "The step to go to, or _end, _error, _loop_break, _loop_continue.",
        ),
        "end": Field(Only(True), "The workflow has succeeded (exit code 0)."),
        "error": Field(_TEMPLATE, "The workflow has failed (exit code 1); the text says why."),
    },
    one_key=True,
    main="goto",
)
_ON = Record(
    "on",
    "an 'on' block",
    {
        "success": Field(Named("target"), "Where to go when the step succeeded."),
        "failure": Field(Named("target"), "Where to go when the step failed."),
        "timeout": Field(
            Named("target"), "Where to go when the step took too long; without it 'failure' is taken."
        ),
        "skipped": Field(
            Named("target"), "Where to go when 'when' was false; without it 'success' is taken."
        ),
    },
    mistaken={
        "error": "Write `failure:` for a step that failed.",
        "fail": "Write `failure:` for a step that failed.",
        "else": "Write `failure:` for a step that failed.",
        "done": "Write `success:` for a step that succeeded.",
    },
)
_CONDITION_RECORD = Record(
    "condition",
    "a condition",
    {
        "all": Field(ListOf(_CONDITION, least=1), "Every one of these holds."),
        "any": Field(ListOf(_CONDITION, least=1), "At least one of these holds."),
        "not": Field(_CONDITION, "This does not hold."),
        "step_ok": Field(Text(expected="the name of a step"), "That step has run and succeeded."),
        "step_failed": Field(Text(expected="the name of a step"), "That step has run and failed."),
        "step_skipped": Field(Text(expected="the name of a step"), "That step was skipped."),
        "step_ran": Field(Text(expected="the name of a step"), "That step has run, with any outcome."),
        "file_exists": Field(_PATH, "There is such a file among the run's artifacts."),
        "env_set": Field(_TEMPLATE, "That environment variable is set and not empty."),
        "expr": Field(
            Text(template=True, expected="an expression, like ${context.branch} == 'main'"),
            "An expression such as ${context.branch} == 'main'.",
        ),
    },
    one_key=True,
    several="Put them into a list below `all:` or `any:`.",
    main="expr",
    mistaken={
        "and": "Write `all:` with a list.",
        "or": "Write `any:` with a list.",
        "step_success": "Write `step_ok:`.",
        "if": "Write `expr:`.",
    },
)
_RETRY = Record(
    "retry",
    "'retry'",
    {
        "attempts": Field(_COUNT, "How often the step is tried in all."),
        "backoff": Field(Choice(("linear", "exponential")), "How the wait between tries grows."),
        "delay": Field(Number(least=0, unit=SECONDS), "Seconds before the second try (default 1)."),
        "max_delay": Field(Number(least=0, unit=SECONDS), "The longest wait in seconds (default 60)."),
        "on": Field(
            ListOf(Either((Choice(TRIED_AGAIN_ON), Number(least=0, most=255, integer=True))), least=1),
            "Try again only after these: exit codes, timeout, rate_limit.",
        ),
        "operator": Field(
            Number(least=0, unit=SECONDS),
            "Seconds that a step which failed for good waits for a manual retry.",
        ),
    },
    main="attempts",
    mistaken={
        "max_attempts": "Write `attempts:`; it counts all tries.",
        "count": "Write `attempts:`; it counts all tries.",
        "times": "Write `attempts:`; it counts all tries.",
    },
)
_SIZE: Final = Either((_MEMORY, Number(least=1, integer=True)))
_LIMITS = Record(
    "limits",
    "'limits'",
    {
        "max_memory": Field(
            Either((_MEMORY, Number(least=1, integer=True))), "Memory, in bytes or like 512M."
        ),
        "max_cpu": Field(_SECONDS, "Seconds of processor time."),
        "max_output_size": Field(
            Number(least=0, integer=True),
            "Bytes of output that the run keeps (default 100,000; in version 1.0 files 10,000). "
            "Longer output is cut after a whole line, with a warning.",
        ),
        "max_log_size": Field(
            _SIZE, "Maximum size of each log stream of a step (default 1G). A step that writes more fails."
        ),
        "max_body_size": Field(
            _SIZE,
            "Maximum size of a response to an http step or from a model server, decompressed (default 256M). "
            "A larger one fails the step.",
        ),
        "max_artifact_size": Field(
            _SIZE,
            "Maximum size of `output_file` and of each of `expect.files` (default 1G). A larger one fails the step.",
        ),
    },
)
_JOIN = Record(
    "join",
    "'join'",
    {
        "wait_for": Field(Choice(("all", "any", "majority")), "Whose success makes a success (default all)."),
        "timeout": Field(_SECONDS, "Seconds before the event 'timeout'."),
        "fail_fast": Field(Flag(), "With 'all': decide at the first failure."),
        "rest": Field(Choice(("cancel", "wait")), "What becomes of those that still run when it is decided."),
        "on_timeout": Field(Named("target"), "The same as 'timeout' in the step's 'on' block."),
    },
    main="wait_for",
)
_BUDGET = Record(
    "budget",
    "a budget",
    {
        "usd": Field(_DOLLARS, "Maximum cost, in dollars."),
        "tokens": Field(_COUNT, "Maximum number of tokens."),
        "soft": Field(_DOLLARS, "Dollars at which a warning is raised."),
        "reserve": Field(Number(least=0, unit="dollars"), "Dollars set aside before each agent step starts."),
    },
    main="usd",
)
_EXPECT = Record(
    "expect",
    "'expect'",
    {
        "files": Field(ListOf(_PATH, least=1), "Files that must be there afterwards."),
        "schema": Field(
            Either((MapOf(Anything()), _PATH)), "A JSON Schema of the result, or the path of one."
        ),
    },
)
_SESSION = Record(
    "session",
    "'session'",
    {
        "resume": Field(
            Text(expected="the name of an agent step"),
            "The step whose conversation is continued.",
            required=True,
        )
    },
    main="resume",
)
_NOTIFICATION = Record(
    "notification",
    "a notification",
    {
        "on": Field(
            ListOf(Choice(("failure", "success", "waiting", "budget")), least=1),
            "When: the last try failed, success, a person is needed, 80% of a budget are used.",
            required=True,
        ),
        "webhook": Field(
            Text(template=True, expected="an address like https://example.com/hook"),
            "An address that is sent the notification as JSON.",
        ),
        "command": Field(
            ListOf(_ARGUMENT, least=1), "A program that reads the same JSON on its standard input."
        ),
        "apprise": Field(
            Text(template=True, expected="an address of Apprise, like mailto://user:password@example.com"),
            "An address of the library Apprise: mail, chat services and others.",
        ),
    },
    mistaken={
        "url": "Write `webhook:`.",
        "slack": "Write `apprise:` with an address like slack://....",
        "email": "Write `apprise:` with an address like mailto://....",
        "when": "Write `on:`.",
    },
)
_NOTIFY: Final = ListOf(Named("notification"), least=1)
_CONTAINER = Record(
    "container",
    "'container'",
    {
        "image": Field(
            Text(template=True, expected="the name of an image, like python:3.12"),
            "The image that the command runs in.",
            required=True,
        ),
        "runtime": Field(
            Choice(("podman", "docker")), "The program that runs it (default: the one that is installed)."
        ),
        "network": Field(
            _TEMPLATE, "The network: none, host, or the name of one (default: that of the program)."
        ),
        "user": Field(
            Text(template=True, also_numbers=True, expected="a user, like 1000:1000"),
            "The user inside (default: the user who runs Podium).",
        ),
        "pull": Field(
            Choice(("missing", "always", "never")),
            "When the image is fetched from its registry (default missing).",
        ),
    },
    main="image",
    mistaken={
        "volumes": "The workspace and the artifacts are mounted; other folders are not.",
        "env": "Write `env:` beside `container:`.",
        "entrypoint": "Write the program and its arguments as `command:`; the entrypoint of the image is not used.",
        "workdir": "Write `workdir:` beside `container:`.",
    },
)
_SSH = Record(
    "ssh",
    "'ssh'",
    {
        "host": Field(
            Text(template=True, expected="the name or address of a machine"),
            "The machine: a name of your OpenSSH configuration, or an address.",
            required=True,
        ),
        "user": Field(_TEMPLATE, "The user there (default: as OpenSSH is configured)."),
        "port": Field(
            Number(least=1, most=65535, integer=True), "The port (default: as OpenSSH is configured)."
        ),
        "identity_file": Field(_PATH, "The private key to use, on this machine."),
    },
    main="host",
    mistaken={
        "key": "Write `identity_file:`.",
        "hostname": "Write `host:`.",
        "username": "Write `user:`.",
        "password": "Passwords are not supported: use a key without a passphrase, or an agent that holds it.",
    },
)

# --- bodies ---------------------------------------------------------------------------------------

_BESIDE_A_LOOP: Final = dict.fromkeys(
    ("timeout", "retry", "on", "when", "budget", "allow_failure"), "Move it out, beside the loop's own key."
)
_FOR_EACH = Record(
    "for_each",
    "'for_each'",
    {
        "items": Field(
            Either((ListOf(Anything()), Text(template=True, expected="one ${...} that names a list"))),
            "The items, or one ${...} that names a list.",
            required=True,
        ),
        "as": Field(
            Text(pattern=VARIABLE, expected="a name of letters, digits and _"),
            "The variable of the item (default item).",
        ),
        "parallel": Field(Flag(), "Take items at the same time."),
        "max_workers": Field(_COUNT, "How many items at the same time (default 10)."),
        "max_iterations": Field(_COUNT, "Refuse longer lists."),
        "join": Field(Named("join"), "Whose success counts; better written beside 'for_each'."),
        "steps": Field(_STEPS, "What is done with each item.", required=True),
    },
    mistaken=_BESIDE_A_LOOP,
)
_PASSES: Final = {
    "max_iterations": Field(_COUNT, "Maximum number of passes (default 1000)."),
    "max_duration": Field(_SECONDS, "Maximum number of seconds (default 3600)."),
    "check_interval": Field(Number(least=0, unit=SECONDS), "Seconds to wait between passes."),
    "steps": Field(_STEPS, "One pass.", required=True),
}
_WHILE = Record(
    "while",
    "'while'",
    {"condition": Field(_CONDITION, "Asked before each pass.", required=True), **_PASSES},
    mistaken=_BESIDE_A_LOOP,
)
_REPEAT_UNTIL = Record(
    "repeat_until",
    "'repeat_until'",
    {"condition": Field(_CONDITION, "Asked after each pass; true ends the loop.", required=True), **_PASSES},
    mistaken=_BESIDE_A_LOOP,
)
_CALL = Record(
    "call",
    "'call'",
    {
        "workflow": Field(
            Text(expected="the path of a workflow file"),
            "The path of the other workflow's file.",
            required=True,
        ),
        "inputs": Field(MapOf(Anything()), "Its inputs."),
    },
    main="workflow",
)
_HTTP = Record(
    "http",
    "'http'",
    {
        "method": Field(
            Choice(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")), "The method (default GET)."
        ),
        "url": Field(
            Text(template=True, expected="an address like https://example.com/"), "Where to.", required=True
        ),
        "headers": Field(MapOf(_ARGUMENT), "Request headers."),
        "body": Field(Anything(), "Text is sent as it is, anything else as JSON."),
        "expect_status": Field(
            Either(
                (
                    Number(least=100, most=599, integer=True),
                    ListOf(Number(least=100, most=599, integer=True), least=1),
                )
            ),
            "Status codes that are a success (default 200 to 299).",
        ),
    },
    main="url",
)
_FUNCTION: Final = Text(
    pattern=r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*|[A-Za-z_]\w*",
    expected="a function like package.module:function, or the name of a registered one",
)
_TOPIC: Final = Text(
    pattern=r"[A-Za-z0-9._-]{1,249}", expected="a topic like orders.placed, of letters, digits, . _ and -"
)
_PUBLISH = Record(
    "publish",
    "'publish'",
    {
        "topic": Field(_TOPIC, "One of the topics in `publishes`.", required=True),
        "key": Field(_ARGUMENT, "Messages with the same key stay in order."),
        "type": Field(_WORDS, "What it is, for its consumers (default: the topic)."),
        "body": Field(Anything(), "What it says, as JSON; values may be `${...}`.", required=True),
    },
    main="topic",
)
_PYTHON = Record(
    "python",
    "'python'",
    {
        "function": Field(_FUNCTION, "module:function, or the name of a registered function.", required=True),
        "args": Field(
            MapOf(Anything(), key=VARIABLE, expected="the name of a parameter, of letters, digits and _"),
            "Its arguments, by name.",
        ),
    },
)
_FORM_FIELD = Record(
    "form_field",
    "a field of a form",
    {
        "type": Field(
            Choice(("string", "int", "number", "bool", "list", "map")), "Its type (default string)."
        ),
        "required": Field(Flag(), "Approval needs an answer."),
        "enum": Field(ListOf(Anything(), least=1), "The answers that are allowed."),
    },
)
_APPROVAL = Record(
    "approval",
    "'approval'",
    {
        "message": Field(
            Text(template=True, expected="what the person is asked"),
            "What the person is asked.",
            required=True,
        ),
        "form": Field(
            MapOf(Named("form_field"), key=VARIABLE, expected="a name of letters, digits and _"),
            "What the person fills in.",
        ),
        "assignee": Field(_TEMPLATE, "Who is asked."),
        "timeout": Field(_SECONDS, "Seconds before the event 'timeout'."),
    },
)

# --- steps ----------------------------------------------------------------------------------------

_PROVIDER_SETTINGS: Final = {
    "model": Field(_TEMPLATE, "The model."),
    "fallback_models": Field(ListOf(_TEMPLATE, least=1), "Models to take when the first is overloaded."),
    "effort": Field(_TEMPLATE, "How hard the model should think."),
    "system_prompt": Field(_TEMPLATE, "A system prompt."),
    "system_prompt_file": Field(_PATH, "A file with the system prompt."),
    "max_turns": Field(_COUNT, "Maximum number of turns."),
    "max_cost": Field(_DOLLARS, "Maximum cost of this step, in dollars."),
    "max_tokens": Field(_COUNT, "Maximum number of tokens of an answer."),
    "temperature": Field(Number(least=0, most=2), "Sampling temperature."),
    "add_dirs": Field(ListOf(_PATH, least=1), "Further folders the agent may use."),
    "allowed_tools": Field(ListOf(_TEMPLATE, least=1), "Tools the agent may use."),
    "disallowed_tools": Field(ListOf(_TEMPLATE, least=1), "Tools the agent may not use."),
    "args": Field(ListOf(_ARGUMENT, least=1), "Further arguments of the agent's program, verbatim."),
    "access": Field(
        Choice(("read", "edit", "full")), "What the agent may do in the workspace (default edit)."
    ),
    "allow_denials": Field(Flag(), "Denied tool calls do not fail the step."),
    "strict_provider": Field(Flag(), "A setting the provider does not have is an error, not a warning."),
    "workspace": Field(
        Choice(("shared", "worktree")), "worktree: a git worktree of its own; its changes are kept as a diff."
    ),
    "session": Field(Named("session"), "Continue the conversation of an earlier step."),
}
_STEP = Record(
    "step",
    "a step",
    {
        "name": Field(
            Text(expected="what the step is called"),
            "What the step is called; unique in its list.",
            required=True,
        ),
        "id": Field(_WORDS, "A stable id, when the name is for people and may change."),
        "description": Field(Text(may_be_empty=True), "What it is for."),
        "labels": Field(_LABELS, "Labels of your own."),
        "when": Field(_CONDITION, "The step is skipped unless this holds."),
        "on": Field(Named("on"), "Where to go afterwards."),
        "notify": Field(_NOTIFY, "Who is notified when it fails, succeeds or waits."),
        "depends_on": Field(
            ListOf(Text(expected="the name of a step")),
            "Steps that must have ended before; makes the list a graph.",
        ),
        "retry": Field(Named("retry"), "Try again after failures."),
        "timeout": Field(_SECONDS, "Seconds one attempt may take."),
        "allow_failure": Field(Flag(), "A failure counts as a pass for what comes next."),
        "max_visits": Field(_COUNT, "Maximum number of visits in one scope."),
        "idempotent": Field(Flag(), "false: never repeated blindly after a crash."),
        "on_doubt": Field(
            Choice(("retry", "fail", "ask")),
            "What to do when it is unknown whether the step took effect (after a crash or a cancel).",
        ),
        # actions
        "command": Field(
            Either((Text(template=True, expected="a command like `make test`"), ListOf(_ARGUMENT, least=1))),
            "A program and its arguments, without a shell.",
        ),
        "shell": Field(
            Text(template=True, expected="a script for sh"),
            "A script for `sh -eu`; values reach it as variables, never as text.",
        ),
        "provider": Field(_WORDS, "Who answers the prompt: claude, codex, gemini, ..."),
        "prompt": Field(_TEMPLATE, "What the agent is asked."),
        "prompt_file": Field(_PATH, "A file with what the agent is asked."),
        "http": Field(Named("http"), "An HTTP request."),
        "python": Field(Either((_FUNCTION, Named("python"))), "A Python function."),
        "set": Field(
            MapOf(Anything(), key=r"[^.\[\]{}]+", expected="a name without . [ ] { }"),
            "Context keys to create or replace.",
        ),
        "publish": Field(Named("publish"), "A message for other systems, sent when the step has completed."),
        "approval": Field(
            Either((Text(template=True, expected="what the person is asked"), Named("approval"))),
            "Ask a person.",
        ),
        "call": Field(
            Either((Text(expected="the path of a workflow file"), Named("call"))),
            "Run another workflow as a step.",
        ),
        "parallel": Field(_STEPS, "Branches that run at the same time."),
        "for_each": Field(Named("for_each"), "Steps for each item of a list."),
        "while": Field(Named("while"), "Steps, as long as a condition holds."),
        "repeat_until": Field(Named("repeat_until"), "Steps, until a condition holds."),
        "steps": Field(_STEPS, "A group of steps."),
        # one task, call or group for each of several values
        "matrix": Field(
            MapOf(
                ListOf(_COMBINED_VALUE, least=1),
                key=VARIABLE,
                expected="a name of letters, digits and _, like os",
            ),
            "Lists of values: the step runs for each combination, in parallel; ${matrix.KEY} is the value.",
        ),
        # for parallel, for_each and matrix
        "join": Field(Named("join"), "Whose success counts, and how long to wait."),
        "max_workers": Field(_COUNT, "How many branches at the same time (default 10)."),
        # tasks
        "input_file": Field(_PATH, "A file for the prompt, or for the command's standard input."),
        "input_files": Field(ListOf(_PATH, least=1), "Files for the prompt, in this order."),
        "inject": Field(Choice(("listing", "content")), "What of a directory goes into the prompt."),
        "output_file": Field(_PATH, "Where the output is kept, below the run's artifacts."),
        "capture": Field(Choice(("text", "lines", "json")), "How ${steps.X} reads the output."),
        "expect": Field(Named("expect"), "What must be there before success counts."),
        "limits": Field(Named("limits"), "Memory, processor time, output."),
        "secrets": Field(_ENV_NAMES, "The secrets this step may see."),
        "env": Field(_ENV, "Environment variables."),
        "env_allow": Field(_ENV_NAMES, "Variables that ${env.X} may name."),
        "env_policy": Field(
            Choice(("inherit", "minimal")), "minimal, the default of agents: PATH, HOME and the like only."
        ),
        "workdir": Field(_PATH, "Where the command runs, below the workspace."),
        "container": Field(
            Named("container"), "The container that the command runs in, by Podman or Docker."
        ),
        "ssh": Field(Named("ssh"), "The machine that the command runs on, by OpenSSH."),
        "keep_children": Field(Flag(), "Processes it leaves behind live until the run ends."),
        "cache": Field(Flag(), "Reuse an earlier result when nothing changed."),
        "budget": Field(Named("budget"), "What this step may cost."),
        **_PROVIDER_SETTINGS,
    },
    mistaken={
        "catch": "Write `on:` with `failure:` instead of 'catch'.",
        "run": "Write `command:` with a list, like [make, test], or `shell:` for a script.",
        "script": "Write `shell:`; several lines are one text below `shell: |`.",
        "before_script": "Write a step of its own before this one, with `shell:`.",
        "after_script": "Write a step below `finally:`, with `shell:`.",
        "bash": "Write `shell:`.",
        "bash_command": "Write `shell:`.",
        "cmd": "Write `command:`.",
        "cmds": "Write `shell:` with several lines, or a step for each command.",
        "commands": "Write `shell:` with several lines, or a step for each command.",
        "needs": "Write `depends_on:`.",
        "deps": "Write `depends_on:`.",
        "depends": "Write `depends_on:`.",
        "dependsOn": "Write `depends_on:`.",
        "if": "Write `when:`, like `when: {expr: \"${context.branch} == 'main'\"}`.",
        "condition": "Write `when:`, like `when: {expr: \"${context.branch} == 'main'\"}`.",
        "unless": "Write `when:` with `not:`.",
        "only": "Write `when:` with a condition.",
        "except": "Write `when:` with `not:`.",
        "foreach": "Write `for_each:`.",
        "with_items": "Write `for_each:` with `items:` and `steps:`.",
        "loop": "Write `for_each:`, `while:` or `repeat_until:`.",
        "until": "Write `repeat_until:`.",
        "strategy": "Write `matrix:` directly, like `matrix: {os: [linux, mac]}`.",
        "retries": "Write `retry:` with `attempts:`.",
        "environment": "Write `env:`.",
        "env_file": "Write it at the top of the file: it holds for all steps.",
        "goto": "Write `on:` with `success:` and in it `goto:`.",
        "continue_on_error": "Write `allow_failure: true`.",
        "continue-on-error": "Write `allow_failure: true`.",
        "ignore_errors": "Write `allow_failure: true`.",
        "timeout-minutes": "Write `timeout:` with a duration, like `timeout: 10m`.",
        "working-directory": "Write `workdir:`.",
        "working_directory": "Write `workdir:`.",
        "dir": "Write `workdir:`.",
        "cwd": "Write `workdir:`.",
        "uses": "Write `call:` for a workflow file, or `command:` for what the action does.",
        "with": "Write `env:` for variables of a command; a called workflow has `inputs:` below `call:`.",
        "register": "Leave it out: the output of each step is ${steps.NAME.output}.",
        "runs-on": "Leave it out: steps run where Podium runs, or on the workers of `podium run --pool`.",
        "stage": "Leave it out: steps run in the order of the list, or by `depends_on:`.",
        "image": "Write `container:`, like `container: {image: python}`.",
        "agent": "Write `provider:` and `prompt:`.",
    },
)

_INCLUDE = Record(
    "include",
    "an entry with 'include'",
    {
        "include": Field(
            Text(
                pattern=_WITHOUT_REFERENCE,
                expected="the path of a file with a list of steps, without ${...}",
            ),
            "In the place of a step: a file with a list of steps, which are put here when the workflow is read.",
            required=True,
        )
    },
)

# --- the document ---------------------------------------------------------------------------------

_INPUT = Record(
    "input",
    "an input",
    {
        "type": Field(
            Choice(("string", "int", "number", "bool", "list", "map")), "Its type (default string)."
        ),
        "default": Field(Anything(), "Its value when none is given."),
        "required": Field(Flag(), "It is required."),
        "secret": Field(
            Flag(),
            "It is a secret: given as `env:NAME` or `file:PATH`, used like the secrets of a step, and never recorded.",
        ),
        "enum": Field(ListOf(Anything(), least=1), "The values there are."),
        "description": Field(Text(may_be_empty=True), "What it is for."),
    },
    main="default",
)
_PROVIDER = Record(
    "provider",
    "a provider",
    {
        "argv": Field(ListOf(_ARGUMENT, least=1), "The program and its arguments.", required=True),
        "stdin": Field(Choice(("prompt", "none")), "What it reads (default prompt)."),
        "env": Field(_ENV, "Environment variables."),
        "needs_env": Field(_ENV_NAMES, "Variables it needs from the environment, such as its API key."),
        "result": Field(Choice(("text", "json")), "How its output is read."),
        "text_field": Field(_WORDS, "In JSON: where the answer is, like result.text."),
        "session_field": Field(_WORDS, "In JSON: where the session's id is."),
        "tokens_field": Field(_WORDS, "In JSON: where the number of tokens is that it took."),
        "cost_field": Field(_WORDS, "In JSON: where it says what it has cost, in dollars."),
    },
)
# Keys of steps that `defaults` may also have: they apply to each step that may have the key and does not set
# it.
FROM_DEFAULTS: Final = ("container", "ssh", "env_policy", "workdir", "limits", "model", "access")
_DEFAULTS = Record(
    "defaults",
    "'defaults'",
    {
        "timeout": Field(_SECONDS, "For tasks that have none."),
        "retry": Field(Named("retry"), "For tasks that have none."),
        "provider": Field(_WORDS, "For agent steps that name none."),
        "env": Field(_ENV, "For every task; a step's own variables are added to it."),
        **{
            key: Field(_STEP.fields[key].shape, f"For steps that may have `{key}` and do not.")
            for key in FROM_DEFAULTS
        },
    },
)
_CONCURRENCY = Record(
    "concurrency",
    "'concurrency'",
    {
        "key": Field(
            Text(template=True, expected="text that the runs share"),
            "Runs with the same key share the limit.",
            required=True,
        ),
        "limit": Field(_COUNT, "How many at the same time (default 1)."),
        "on_conflict": Field(
            Choice(("queue", "reject", "cancel")),
            "One too many waits in line, is refused with exit code 75, or cancels the oldest (default queue).",
        ),
    },
    main="key",
)
_WORKFLOW = Record(
    "workflow",
    "a workflow",
    {
        "version": Field(
            Choice(("1.0", "2.0"), numbers=((1.0, "1.0"), (2.0, "2.0"))),
            "The version of the language.",
            required=True,
        ),
        "name": Field(
            Text(
                pattern=r".*[A-Za-z0-9].*",
                expected="what the workflow is called, with a letter of a to z or a digit in it",
            ),
            "What the workflow is called.",
            required=True,
        ),
        "revision": Field(
            Text(
                also_numbers=True,
                pattern=r"[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}",
                expected="a version like 1.4.0",
            ),
            "The version of this workflow; without it, its hash.",
        ),
        "description": Field(Text(may_be_empty=True), "What it is for."),
        "labels": Field(_LABELS, "Labels of your own."),
        "strict_flow": Field(
            Flag(), "true: every outcome must be handled. false: the next step follows after any outcome."
        ),
        "inputs": Field(
            MapOf(Named("input"), key=VARIABLE, expected="a name of letters, digits and _"),
            "What a run is given.",
        ),
        "outputs": Field(
            MapOf(_ARGUMENT, key=VARIABLE, expected="a name of letters, digits and _"), "What a run gives."
        ),
        "context": Field(MapOf(Anything()), "Variables and their first values."),
        "secrets": Field(_ENV_NAMES, "Names of the secrets that steps may ask for."),
        "env": Field(_ENV, "Environment variables of every command."),
        "env_file": Field(
            Either((_FIXED_PATH, ListOf(_FIXED_PATH, least=1))),
            "Files of NAME=value lines, from the folder of this file: variables of the run, read when it starts or "
            "continues.",
        ),
        "env_allow": Field(_ENV_NAMES, "Variables that ${env.X} may name."),
        "env_policy": Field(Choice(("inherit", "minimal")), "For steps that do not say it."),
        "http_allow": Field(ListOf(_WORDS), "Hosts that http steps may call."),
        "publishes": Field(ListOf(_TOPIC, least=1), "Topics that `publish` steps may name."),
        "timeout": Field(_SECONDS, "Seconds the whole run may take."),
        "defaults": Field(Named("defaults"), "For steps that do not say it themselves."),
        "providers": Field(
            MapOf(
                Named("provider"),
                key=r"[A-Za-z][A-Za-z0-9_-]*",
                expected="a name of letters, digits, - and _",
            ),
            "Agent programs of your own.",
        ),
        "budget": Field(Named("budget"), "What the run may cost."),
        "notify": Field(_NOTIFY, "Who is notified when the run fails, succeeds or waits for a person."),
        "max_transitions": Field(_COUNT, "Maximum number of returns to a visited step (default 1000)."),
        "max_parallel": Field(_COUNT, "Maximum number of tasks that run in parallel (default 16)."),
        "concurrency": Field(
            Named("concurrency"),
            "How many runs with one key work at the same time, over all processes on one store.",
        ),
        "priority": Field(
            Number(least=-1000, most=1000, integer=True),
            "Among runs that wait for the same concurrency key, higher starts first.",
        ),
        "approval": Field(
            Choice(("none", "required")),
            "Whether a person has to approve the plan of a run before it starts (default none).",
        ),
        "engine": Field(
            Choice(("any", "local", "temporal", "conductor")), "The engine that may run it (default any)."
        ),
        "fallback_behavior": Field(
            Choice(("reject", "emulate", "degrade")),
            "If an engine lacks something: refuse (default), accept an emulation, or do with less.",
        ),
        "steps": Field(_STEPS, "What is done.", required=True),
        "finally": Field(_STEPS, "What is done on every way out."),
    },
    mistaken={
        "jobs": "Write `steps:`; a job is a step with `steps:` of its own, and its `needs` is `depends_on:`.",
        "tasks": "Write `steps:`.",
        "stages": "Leave it out: steps run in the order of the list, or by `depends_on:`.",
        "vars": "Write `context:`.",
        "variables": "Write `env:` for variables of commands, or `context:` for values of the workflow.",
        "params": "Write `inputs:`.",
        "parameters": "Write `inputs:`.",
        "env_vars": "Write `env:`.",
        "dotenv": "Write `env_file:`.",
        "on": "Leave it out: `podium hook` and `podium schedule` say what starts a workflow.",
        "schedule": "Leave it out: `podium schedule` says when a workflow runs.",
        "cron": "Leave it out: `podium schedule` says when a workflow runs.",
        "permissions": "Leave it out: steps have the permissions of the user who runs them.",
        "on_error": "Write a step named `_error`, or `finally:`.",
        "handlerOn": "Write a step named `_error`, or `finally:`.",
    },
)

WORKFLOW: Final[Shape] = Named("workflow")
RECORDS: Final = {
    record.name: record
    for record in (
        _WORKFLOW,
        _STEP,
        _INCLUDE,
        _ON,
        _TARGET,
        _CONDITION_RECORD,
        _RETRY,
        _LIMITS,
        _JOIN,
        _BUDGET,
        _EXPECT,
        _SESSION,
        _NOTIFICATION,
        _CONTAINER,
        _SSH,
        _FOR_EACH,
        _WHILE,
        _REPEAT_UNTIL,
        _CALL,
        _HTTP,
        _PUBLISH,
        _PYTHON,
        _FORM_FIELD,
        _APPROVAL,
        _INPUT,
        _PROVIDER,
        _DEFAULTS,
        _CONCURRENCY,
    )
}

# --- which keys go together -----------------------------------------------------------------------

# The keys that define what a step does; a step has one of them, or only a condition.
ACTIONS: Final = {
    "command": "command",
    "shell": "command",
    "prompt": "agent",
    "prompt_file": "agent",
    "http": "http",
    "python": "python",
    "set": "set",
    "publish": "publish",
    "approval": "approval",
    "call": "call",
    "parallel": "parallel",
    "for_each": "for_each",
    "while": "while",
    "repeat_until": "repeat_until",
    "steps": "steps",
}
_EVERY_STEP: Final = frozenset(
    {
        "name",
        "id",
        "description",
        "labels",
        "when",
        "on",
        "depends_on",
        "allow_failure",
        "max_visits",
        "notify",
    }
)
_RETRIED: Final = frozenset({"retry", "timeout"})
_TASK: Final = _RETRIED | {
    "idempotent", "on_doubt", "secrets", "env", "env_allow", "output_file", "capture", "expect", "limits", "cache",
}  # fmt: skip
_PROCESS: Final = _TASK | {"env_policy", "workdir", "keep_children", "input_file"}
_COMBINED: Final = frozenset({"matrix"})
# The keys that can be combined with each action.
BESIDE: Final = {
    "command": _EVERY_STEP | _COMBINED | _PROCESS | {"command", "shell", "ssh", "container"},
    "agent": _EVERY_STEP
    | _COMBINED
    | _PROCESS
    | {"prompt", "prompt_file", "provider", "input_files", "inject", "budget", *_PROVIDER_SETTINGS},
    "http": _EVERY_STEP | _COMBINED | _TASK | {"http"},
    "python": _EVERY_STEP | _COMBINED | _TASK | {"python", "env_policy", "workdir"},
    "set": _EVERY_STEP | {"set"},
    "publish": _EVERY_STEP | _COMBINED | {"publish"},
    "approval": _EVERY_STEP | _COMBINED | {"approval"},
    "call": _EVERY_STEP | _COMBINED | _RETRIED | {"call"},
    "parallel": _EVERY_STEP | _RETRIED | {"parallel", "join", "max_workers", "budget"},
    "for_each": _EVERY_STEP | _RETRIED | {"for_each", "join", "budget"},
    "while": _EVERY_STEP | _RETRIED | {"while", "budget"},
    "repeat_until": _EVERY_STEP | _RETRIED | {"repeat_until", "budget"},
    "steps": _EVERY_STEP | _COMBINED | _RETRIED | {"steps", "budget"},
    "gate": _EVERY_STEP,
}
