"""Steps that do one thing: commands, agents, requests, functions, approvals, `set`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from podium.expressions.types import Text
from podium.language.codes import Code
from podium.language.conditions import step_named
from podium.language.diagnostics import Report
from podium.language.files import Files, FoundFile
from podium.language.input_files import FileUses
from podium.language.inputs import enum_of
from podium.language.problems import Problems, suggestion
from podium.language.reader import MAX_BYTES
from podium.language.references import Names, Place
from podium.language.source import Source
from podium.language.templates import ExpressionProblem, parse_template
from podium.language.tree import Entry, Mapping, Node, Scalar, Sequence, find
from podium.language.values import (
    arguments_of,
    command_of,
    data_map,
    data_of,
    given,
    literal_of,
    number_of,
    scalar_at,
    text_map,
    text_of,
    texts_at,
    value_at,
)
from podium.patterns import lazy_pattern
from podium.plan.canonical import MAX_INTEGER, comes_back
from podium.plan.plan import (
    PLAIN_WORK,
    Agent,
    Approval,
    Body,
    Budget,
    Command,
    Expect,
    FormField,
    Gate,
    Http,
    Limits,
    Prompt,
    Publish,
    Python,
    Retry,
    Set,
    Work,
)
from podium.text import quoted

if TYPE_CHECKING:
    from podium.language.result_schemas import Mistake

# Providers that need no declaration in the file.
BUILT_IN_PROVIDERS: Final = ("claude", "codex", "gemini", "anthropic", "openai", "echo")
DEFAULT_TIMEOUT: Final = {"command": 300, "http": 300, "python": 300, "agent": 3600}
# An agent's actions are not written in the workflow, so it sees no more of the environment than it needs.
_POLICY_OF_AGENTS: Final = "minimal"
_UNITS: Final = {"": 1} | {
    f"{unit}{i}": (1024 if i else 1000) ** power for power, unit in enumerate("KMGT", 1) for i in ("", "i")
}
_SIZE: Final = lazy_pattern(r"([0-9]+(?:\.[0-9]+)?)\s*((?:[KMGT]i?)?)B?")


class KnownProviders(msgspec.Struct, frozen=True):
    """The names that `provider` may have."""

    names: tuple[str, ...] = BUILT_IN_PROVIDERS
    # Those from installed packages. Finding them takes time, so this is called only for a name that is not
    # among `names`.
    installed: Callable[[], tuple[str, ...]] = tuple


class TaskContext(msgspec.Struct):
    """What tasks need to know about their workflow."""

    files: Files
    # Reports about other files, and problems with finding them.
    reports: list[Report]
    missing_is_error: bool
    providers: KnownProviders = KnownProviders()
    default_provider: str | None = None
    default_timeout: float | None = None
    default_retry: Retry | None = None
    env_policy: str | None = None
    # Default values of step keys.
    step_defaults: dict[str, Entry] = msgspec.field(default_factory=dict)
    assumed_provider: bool = False
    # The topics that the workflow publishes to; None if they could not be read.
    topics: tuple[str, ...] | None = ()
    file_uses: FileUses = msgspec.field(default_factory=FileUses)


def task_body(action: str, node: Mapping, names: Names, context: TaskContext) -> Body:
    return _BODIES[action](node, names, context)


def _command(node: Mapping, names: Names, context: TaskContext) -> Body:
    if "shell" in node.entries:
        return _shell(node, names, context)
    return _placed(
        Command(command_of(node.entries["command"].value, names), _work(node, names, context)), node, names
    )


def _shell(node: Mapping, names: Names, context: TaskContext) -> Body:
    if "command" in node.entries:
        names.problems.at_key(
            Code.CONFLICTING_KEYS,
            node,
            "shell",
            "a step has 'command' or 'shell', not both.",
            "Make it two steps, or call the program in the script.",
        )
    # Imported with the first script: few files have one.
    from podium.language.scripts import script_of
    from podium.plan.scripts import SHELL

    script, work = script_of(node.entries["shell"].value, names), _work(node, names, context)
    if script.env:
        work = msgspec.structs.replace(work, env={**work.env, **script.env})
    return _placed(Command((*SHELL, script.text), work), node, names)


def _placed(command: Command, node: Mapping, names: Names) -> Command:
    """The command with the place where it runs, if that is not this machine."""
    if "ssh" not in node.entries and "container" not in node.entries:
        return command
    # Imported with the first such step: few files have one.
    from podium.language.elsewhere import container_of, ssh_of

    return msgspec.structs.replace(command, ssh=ssh_of(node, names), container=container_of(node, names))


def _gate(_node: Mapping, _names: Names, _context: TaskContext) -> Body:
    return Gate()


def _set(node: Mapping, names: Names, _context: TaskContext) -> Body:
    return Set(data_map(node.entries["set"].value, names, Place.STORED))


def _publish(node: Mapping, names: Names, context: TaskContext) -> Body:
    publish = node.entries["publish"].value
    assert isinstance(publish, Mapping)
    topic, key, body = value_at(publish, "topic"), value_at(publish, "key"), value_at(publish, "body")
    if isinstance(topic, Scalar):
        _check_topic(topic, names, context)
    return Publish(
        scalar_at(publish, "topic", ""),
        data_of(body, names, Place.STORED) if body is not None else None,
        text_of(key, names, Place.STORED) if key is not None else None,
        scalar_at(publish, "type"),
    )


def _check_topic(topic: Scalar, names: Names, context: TaskContext) -> None:
    declared, name = context.topics, str(topic.value)
    if declared is None or name in declared:
        return
    names.problems.error(
        Code.TOPIC_NOT_DECLARED,
        topic,
        f"the topic {quoted(name)} is not among those that the workflow publishes to.",
        suggestion(name, declared, "topics", "Add it to `publishes:` at the top of the file."),
    )


def _http(node: Mapping, names: Names, context: TaskContext) -> Body:
    http = node.entries["http"].value
    assert isinstance(http, Mapping)
    body, headers = value_at(http, "body"), value_at(http, "headers")
    expected = value_at(http, "expect_status")
    url = value_at(http, "url")
    return Http(
        _address(url, names) if isinstance(url, Scalar) else "",
        **given(
            method=scalar_at(http, "method"),
            headers=text_map(headers, names, Place.PRIVATE) if headers is not None else None,
            body=data_of(body, names, Place.PRIVATE) if body is not None else None,
            expect_status=_status_codes(expected) if expected is not None else None,
        ),
        work=_work(node, names, context),
    )


def _address(node: Scalar, names: Names) -> Text:
    before, _, _ = str(node.value).partition("${")
    if before and not before.startswith(("http://", "https://")):
        names.problems.error(
            Code.INVALID_FORMAT,
            node,
            f"'url' cannot be {quoted(str(node.value))}.",
            "Write an address that starts with https:// or http://.",
        )
    return text_of(node, names, Place.ADDRESS)


def _status_codes(node: Node) -> tuple[int, ...]:
    items = node.items if isinstance(node, Sequence) else [node]
    return tuple(number_of(item.value) for item in items if isinstance(item, Scalar))


def _python(node: Mapping, names: Names, context: TaskContext) -> Body:
    python = node.entries["python"].value
    work = _work(node, names, context)
    if isinstance(python, Scalar):
        return Python(str(python.value), work=work)
    assert isinstance(python, Mapping)
    args = value_at(python, "args")
    return Python(
        scalar_at(python, "function", ""),
        data_map(args, names, Place.PRIVATE) if args is not None else {},
        work,
    )


def _approval(node: Mapping, names: Names, _context: TaskContext) -> Body:
    approval = node.entries["approval"].value
    if isinstance(approval, Scalar):
        return Approval(text_of(approval, names, Place.STORED))
    assert isinstance(approval, Mapping)
    message, form, assignee = (value_at(approval, key) for key in ("message", "form", "assignee"))
    return Approval(
        text_of(message, names, Place.STORED) if message is not None else "",
        _form(form, names) if isinstance(form, Mapping) else {},
        text_of(assignee, names, Place.STORED) if assignee is not None else None,
    )


def _form(node: Mapping, names: Names) -> dict[str, FormField]:
    form: dict[str, FormField] = {}
    for key, entry in node.entries.items():
        assert isinstance(entry.value, Mapping)
        is_unclear = names.workflow.has_lost(entry.value, "type")
        type_ = None if is_unclear else str(scalar_at(entry.value, "type", "string"))
        form[key] = FormField(
            **given(type=scalar_at(entry.value, "type"), required=scalar_at(entry.value, "required")),
            enum=enum_of(key, value_at(entry.value, "enum"), type_, names.problems),
        )
    return form


# --- agents ---------------------------------------------------------------------------------------


def _agent(node: Mapping, names: Names, context: TaskContext) -> Body:
    if "prompt" in node.entries and "prompt_file" in node.entries:
        names.problems.at_key(
            Code.CONFLICTING_KEYS,
            node,
            "prompt_file",
            "a step has 'prompt' or 'prompt_file', not both.",
            "Keep one; `input_files` adds further texts to a prompt.",
        )
    if "system_prompt" in node.entries and "system_prompt_file" in node.entries:
        names.problems.at_key(
            Code.CONFLICTING_KEYS,
            node,
            "system_prompt_file",
            "a step has 'system_prompt' or 'system_prompt_file', not both.",
            "Keep one of them.",
        )
    return Agent(
        _provider(node, names, context),
        _prompt(node, "prompt", names, context) or Prompt(),
        _work(node, names, context, env_policy=_POLICY_OF_AGENTS),
        **given(
            model=_text_at(node, "model", names),
            fallback_models=_texts_at(node, "fallback_models", names, Place.STORED),
            effort=_text_at(node, "effort", names),
            system_prompt=_prompt(node, "system_prompt", names, context),
            max_turns=scalar_at(node, "max_turns"),
            max_cost=scalar_at(node, "max_cost"),
            max_tokens=scalar_at(node, "max_tokens"),
            temperature=scalar_at(node, "temperature"),
            add_dirs=_texts_at(node, "add_dirs", names, Place.STORED),
            allowed_tools=_texts_at(node, "allowed_tools", names, Place.ARGUMENT),
            disallowed_tools=_texts_at(node, "disallowed_tools", names, Place.ARGUMENT),
            args=_texts_at(node, "args", names, Place.ARGUMENT),
            access=scalar_at(node, "access"),
            allow_denials=scalar_at(node, "allow_denials"),
            strict_provider=scalar_at(node, "strict_provider"),
            workspace=scalar_at(node, "workspace"),
            resume=_resumed(node, names),
        ),
    )


def _provider(node: Mapping, names: Names, context: TaskContext) -> str:
    written = value_at(node, "provider")
    if isinstance(written, Scalar):
        provider = str(written.value)
        check_provider(written, context.providers, names.problems)
        return provider
    if context.default_provider is not None:
        return context.default_provider
    if not context.assumed_provider:
        # Reported once per file, at the first such step.
        context.assumed_provider = True
        key = "prompt" if "prompt" in node.entries else "prompt_file"
        names.problems.warning(
            Code.PROVIDER_ASSUMED,
            node.entries[key].key,
            "no provider is named; 'claude' is taken.",
            "Add `provider: claude` to the step, or `defaults:` with `provider:` to the workflow.",
        )
    return "claude"


def check_provider(node: Scalar, known: KnownProviders, problems: Problems) -> None:
    name = str(node.value)
    if name not in known.names and not problems.is_enough() and name not in (installed := known.installed()):
        problems.error(
            Code.UNKNOWN_PROVIDER,
            node,
            f"provider {quoted(name)} not found.",
            suggestion(
                name,
                (*known.names, *installed),
                "providers",
                "Declare it under `providers`, or install its package.",
            ),
        )


def _resumed(node: Mapping, names: Names) -> str | None:
    session = value_at(node, "session")
    resume = value_at(session, "resume") if isinstance(session, Mapping) else None
    if not isinstance(resume, Scalar):
        return None
    step_id = step_named(resume, names)
    if step_id is None:
        return None
    found = next((s.steps[step_id] for s in names.scope.outwards() if step_id in s.steps), None)
    if found is not None and found.action not in ("agent", "unclear"):
        names.problems.error(
            Code.KEY_DOES_NOT_FIT,
            resume,
            f"{quoted(step_id)} is not an agent step: it has no conversation to continue.",
            "Name a step with a prompt.",
        )
    return step_id


def _prompt(node: Mapping, key: str, names: Names, context: TaskContext) -> Prompt | None:
    written = value_at(node, key)
    if written is not None:
        return Prompt(text=text_of(written, names, Place.PROMPT))
    path = value_at(node, f"{key}_file")
    if not isinstance(path, Scalar):
        return None
    template = text_of(path, names, Place.STORED)
    if not isinstance(template, str):
        return Prompt(file=template)
    found = find_file(path, template, names.problems, context)
    text = _decoded(found, path, names.problems) if found is not None else None
    if found is None or text is None:
        return Prompt(file=template)
    return Prompt(text=_text_of_file(found.name, text, names, context))


def find_file(node: Scalar, path: str, problems: Problems, context: TaskContext) -> FoundFile | None:
    """A file that becomes part of the plan; reports it if it is missing."""
    found = context.files.read(path, problems.file_of(node))
    if found is None:
        tell = problems.error if context.missing_is_error else problems.warning
        tell(
            Code.FILE_NOT_FOUND,
            node,
            f"file {quoted(path)} not found.",
            "Add it, or correct the path: files are looked for beside the workflow's file, then in the workspace.",
        )
    return found


def _decoded(found: FoundFile, node: Scalar, problems: Problems) -> str | None:
    name = quoted(str(node.value))
    if len(found.content) > MAX_BYTES:
        problems.error(
            Code.FILE_TOO_LARGE,
            node,
            f"the file {name} has more than {MAX_BYTES // 2**20} MiB.",
            "Keep the prompt short, and give large texts to the agent with `input_files`.",
        )
        return None
    try:
        return found.content.decode()
    except UnicodeDecodeError:
        problems.error(Code.INVALID_UTF8, node, f"the file {name} is not UTF-8.", "Save it as UTF-8.")
        return None


def _text_of_file(name: str, text: str, names: Names, context: TaskContext) -> Text:
    """The text of another file, as a template; its problems are reported with its own name and lines."""
    report = Report(Source(name, text))
    context.reports.append(report)
    # The whole file as one value.
    scalar = Scalar(0, len(text), text, text)
    there = msgspec.structs.replace(names, problems=Problems(report))
    try:
        return parse_template(text, there.reader(scalar, Place.PROMPT))
    except ExpressionProblem as problem:
        report.error(Code.INVALID_TEMPLATE, problem.start, problem.end, problem.message, problem.hint)
        return ""


# --- what tasks have in common --------------------------------------------------------------------


def _work(node: Mapping, names: Names, context: TaskContext, env_policy: str | None = None) -> Work:
    """`env_policy`: the default for this kind of step, if neither the step nor the workflow sets one."""
    entries = node.entries
    env_policy = context.env_policy or env_policy
    if entries.keys().isdisjoint(_WORK_KEYS) and env_policy is None:
        return PLAIN_WORK
    env = value_at(node, "env")
    expect = value_at(node, "expect")
    limits = value_at(node, "limits")
    output_file = _text_at(node, "output_file", names)
    if output_file is not None:
        context.file_uses.writes(output_file)
    return Work(
        **given(
            env=text_map(env, names, Place.PRIVATE) if env is not None else None,
            env_policy=scalar_at(node, "env_policy") or env_policy,
            workdir=_text_at(node, "workdir", names),
            inject=scalar_at(node, "inject"),
            output_file=output_file,
            capture=scalar_at(node, "capture"),
            expect=_expect(expect, names, context) if isinstance(expect, Mapping) else None,
            limits=limits_of(limits, names.problems) if isinstance(limits, Mapping) else None,
            keep_children=scalar_at(node, "keep_children"),
            cache=scalar_at(node, "cache"),
            budget=budget_of(node, names.problems),
        ),
        env_allow=texts_at(node, "env_allow"),
        secrets=texts_at(node, "secrets"),
        input_files=_input_files(node, names, context),
    )


_WORK_KEYS: Final = frozenset(
    {
        "env", "env_policy", "workdir", "inject", "output_file", "capture", "expect", "limits", "keep_children",
        "cache", "budget", "env_allow", "secrets", "input_file", "input_files",
    }
)  # fmt: skip


def _input_files(node: Mapping, names: Names, context: TaskContext) -> tuple[Text, ...]:
    if "input_file" in node.entries and "input_files" in node.entries:
        names.problems.at_key(
            Code.CONFLICTING_KEYS,
            node,
            "input_file",
            "a step has 'input_file' or 'input_files', not both.",
            "List all of them in `input_files`.",
        )
    one, several = value_at(node, "input_file"), value_at(node, "input_files")
    texts: tuple[Text, ...] = ()
    if one is not None:
        texts = (text_of(one, names, Place.STORED),)
    elif several is not None:
        texts = _texts(several, names, Place.STORED)
    nodes = several.items if one is None and isinstance(several, Sequence) else (one or several,)
    for text, written in zip(texts, nodes, strict=False):
        if written is not None:
            context.file_uses.reads(text, written, names.problems)
    return texts


def _expect(node: Mapping, names: Names, context: TaskContext) -> Expect:
    files, schema = value_at(node, "files"), value_at(node, "schema")
    expected = _texts(files, names, Place.STORED) if files is not None else ()
    for path in expected:
        context.file_uses.writes(path)
    return Expect(
        expected,
        _schema(schema, names, context) if schema is not None else None,
    )


def _schema(node: Node, names: Names, context: TaskContext) -> dict[str, Any] | None:
    if isinstance(node, Mapping):
        schema: dict[str, Any] = literal_of(node)
        for mistake in _mistakes(schema):
            names.problems.error(
                Code.INVALID_SCHEMA, find(node, mistake.path) or node, mistake.message, mistake.hint
            )
        return schema
    assert isinstance(node, Scalar)
    path = str(node.value)
    if "${" in path:
        names.problems.error(
            Code.INVALID_FORMAT,
            node,
            "the file of a schema must be known when the workflow is read.",
            "Write its path without ${...}.",
        )
        return None
    found = find_file(node, path, names.problems, context)
    if found is None:
        return None
    import json

    try:
        read = json.loads(found.content)
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict) or not comes_back(read):
        names.problems.error(
            Code.INVALID_FORMAT,
            node,
            f"the file {quoted(path)} holds no JSON object.",
            'Write a JSON Schema into it, like {"type": "object"}.',
        )
        return None
    for mistake in _mistakes(read):
        place = "/".join(("", *map(str, mistake.path)))
        message = f"in {quoted(path)}, at {quoted(place)}: {mistake.message}"
        names.problems.error(Code.INVALID_SCHEMA, node, message, mistake.hint)
    return read


def _mistakes(schema: dict[str, Any]) -> list["Mistake"]:
    # Imported with the first schema: few files have one.
    from podium.language.result_schemas import mistakes_of

    return mistakes_of(schema)


def limits_of(node: Mapping, problems: Problems) -> Limits:
    sizes = {
        key: _bytes(key, size, problems)
        for key in ("max_memory", "max_log_size", "max_body_size", "max_artifact_size")
        if isinstance(size := value_at(node, key), Scalar)
    }
    return Limits(
        **sizes,
        **given(
            max_cpu=scalar_at(node, "max_cpu"),
            max_output_size=scalar_at(node, "max_output_size"),
        ),
    )


def _bytes(key: str, node: Scalar, problems: Problems) -> int:
    if isinstance(node.value, int | float):
        return int(node.value)
    found = _SIZE.fullmatch(str(node.value))
    assert found is not None
    size = float(found[1]) * _UNITS[found[2]]
    if not 1 <= size <= MAX_INTEGER:
        problems.error(
            Code.OUT_OF_BOUNDS,
            node,
            f"{quoted(key)} is {quoted(node.text)}, which no machine has.",
            "Write a size like 512M or 2G.",
        )
        return 1
    return int(size)


def budget_of(node: Mapping, problems: Problems) -> Budget | None:
    budget = value_at(node, "budget")
    if not isinstance(budget, Mapping):
        return None
    soft, hard = value_at(budget, "soft"), scalar_at(budget, "usd")
    if isinstance(soft, Scalar) and hard is not None and float(str(soft.value)) > hard:
        problems.error(
            Code.OUT_OF_BOUNDS,
            soft,
            f"'soft' is {soft.text}, more than 'usd', which is {hard}.",
            "Use less than `usd`: the warning has to come before the end.",
        )
    return Budget(**given(**{key: scalar_at(budget, key) for key in ("usd", "tokens", "soft", "reserve")}))


def retry_of(node: Node | None) -> Retry | None:
    if not isinstance(node, Mapping):
        return None
    on = value_at(node, "on")
    return Retry(
        **given(
            attempts=scalar_at(node, "attempts"),
            backoff=scalar_at(node, "backoff"),
            delay=scalar_at(node, "delay"),
            max_delay=scalar_at(node, "max_delay"),
            operator=scalar_at(node, "operator"),
            on=tuple(number_of(item.value) for item in on.items if isinstance(item, Scalar))
            if isinstance(on, Sequence)
            else None,
        )
    )


def check_secrets(node: Mapping, names: Names) -> None:
    """A step may only use secrets that its workflow declares."""
    secrets = value_at(node, "secrets")
    if not isinstance(secrets, Sequence):
        return
    for item in secrets.items:
        assert isinstance(item, Scalar)
        name = str(item.value)
        declared = name in names.workflow.secrets or "secrets" in names.workflow.unclear
        if not declared and not names.problems.is_enough():
            names.problems.error(
                Code.SECRET_NOT_DECLARED,
                item,
                f"the workflow declares no secret {quoted(name)}.",
                suggestion(
                    name,
                    sorted(names.workflow.secrets),
                    "secrets",
                    f"Add `secrets: [{name}]` to the workflow.",
                ),
            )


def _text_at(node: Mapping, key: str, names: Names) -> Text | None:
    value = value_at(node, key)
    return text_of(value, names, Place.STORED) if value is not None else None


def _texts_at(node: Mapping, key: str, names: Names, place: Place) -> tuple[Text, ...] | None:
    value = value_at(node, key)
    return arguments_of(value, names, place) if value is not None else None


def _texts(node: Node, names: Names, place: Place) -> tuple[Text, ...]:
    assert isinstance(node, Sequence)
    return tuple(text_of(item, names, place) for item in node.items)


_BODIES: Final[dict[str, Callable[[Mapping, Names, TaskContext], Body]]] = {
    "command": _command,
    "agent": _agent,
    "http": _http,
    "python": _python,
    "approval": _approval,
    "set": _set,
    "publish": _publish,
    "gate": _gate,
}
TASKS: Final = frozenset(_BODIES)
