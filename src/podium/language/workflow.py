"""Compiles a workflow file to a plan.

    text --reader--> tree --shapes, grammar--> checked tree --blocks, tasks--> Workflow --plan.loading--> Plan

Every problem is reported, each with its position; there is a plan only if there is no error. The same text
gives the same plan on any machine: other files are read through `Files`, and nothing else is used.
"""

from collections.abc import Callable, Collection
from collections.abc import Mapping as MappingOf
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from podium.expressions.types import Data, Reference
from podium.language.blocks import block_of, notify_of
from podium.language.codes import Code
from podium.language.declaring import ERROR, START, WorkflowContext, declare
from podium.language.defaults import step_defaults
from podium.language.diagnostics import Diagnostic, Report, Severity
from podium.language.files import Files, FoundFile, NoFiles
from podium.language.grammar import RECORDS, WORKFLOW
from podium.language.including import YAML_DEPTH, Includes
from podium.language.input_files import FileUses
from podium.language.inputs import check_given_inputs, inputs_of, known_type
from podium.language.kinds import Kinds
from podium.language.problems import Problems
from podium.language.reader import read_yaml
from podium.language.references import Names, Place, WorkflowNames
from podium.language.scopes import Declared, Scope
from podium.language.shapes import Checker
from podium.language.source import Position
from podium.language.tasks import (
    BUILT_IN_PROVIDERS,
    KnownProviders,
    TaskContext,
    budget_of,
    check_provider,
    find_file,
    retry_of,
)
from podium.language.tree import Mapping, Node, Scalar, Sequence
from podium.language.values import (
    arguments_of,
    data_map,
    data_of,
    given,
    known_text,
    literal_of,
    lone_reference,
    scalar_at,
    text_map,
    text_of,
    texts_at,
    value_at,
)
from podium.patterns import lazy_pattern
from podium.plan.loading import FINALLY, depth_of, plan_of
from podium.plan.plan import (
    MAX_NESTING,
    ApprovalOfRuns,
    Block,
    Body,
    Call,
    Concurrency,
    Discipline,
    Engine,
    Fallback,
    Plan,
    ProviderTemplate,
    Step,
    Workflow,
)
from podium.plan.secret_inputs import secret_inputs
from podium.text import quoted

_COMPATIBLE_OUTPUT: Final = 10_000


class WorkflowReading(msgspec.Struct, frozen=True):
    """The result of reading a file: the plan if it is valid, and every problem."""

    plan: Plan | None
    # The position of each step in its file, by its path; not part of the plan, so not of its hash.
    places: MappingOf[str, Position]
    diagnostics: tuple[Diagnostic, ...]
    omitted: int
    # The files named in `env_file`, relative to the workflow file. Not part of the plan, which does not
    # depend on where it runs.
    env_files: tuple[str, ...] = ()


def read_workflow(
    content: bytes,
    name: str,
    *,
    files: Files | None = None,
    strict: bool = False,
    missing_is_error: bool = False,
    installed_providers: Callable[[], tuple[str, ...]] = tuple,
) -> WorkflowReading:
    """Read one workflow. Never raises, whatever `content` holds. `strict`: a warning is an error, too.

    `installed_providers`: names from other packages, in addition to the built-in ones.
    """
    reading = _Reading(files or NoFiles(), missing_is_error, installed_providers)
    workflow = reading.read(FoundFile(name, content, name))
    if not any(
        found.severity is Severity.ERROR for report in reading.reports for found in report.diagnostics
    ):
        # Otherwise a step that writes the file may have been dropped.
        reading.file_uses.warn(reading.files)
    # A file that several steps use is reported only once.
    diagnostics = list(dict.fromkeys(found for report in reading.reports for found in report.diagnostics))
    failed = any(found.severity is Severity.ERROR for found in diagnostics) or (strict and bool(diagnostics))
    if strict:
        diagnostics = [replace(found, severity=Severity.ERROR) for found in diagnostics]
    omitted = sum(report.omitted for report in reading.reports)
    plan = None
    if workflow is not None and not failed:
        plan = plan_of(
            workflow.workflow,
            revision=workflow.revision,
            description=workflow.description,
            labels=workflow.labels,
            priority=workflow.priority,
            concurrency=workflow.concurrency,
            engine=workflow.engine,
            fallback_behavior=workflow.fallback_behavior,
            approval=reading.approval,
        )
    return WorkflowReading(
        plan,
        workflow.places if workflow is not None else {},
        tuple(diagnostics),
        omitted,
        workflow.env_files if workflow is not None else (),
    )


class _Document(msgspec.Struct):
    """A workflow, and the other contents of its file."""

    workflow: Workflow
    places: dict[str, Position]
    revision: str | None = None
    description: str | None = None
    labels: dict[str, str] | None = None
    priority: int = 0
    concurrency: Concurrency | None = None
    engine: Engine = "any"
    fallback_behavior: Fallback = "reject"
    # Some declarations of the file could not be read, or are not as they were meant.
    has_errors: bool = False
    env_files: tuple[str, ...] = ()


class _Reading:
    """Reads one file and all files that it calls."""

    def __init__(
        self, files: Files, missing_is_error: bool, installed: Callable[[], tuple[str, ...]]
    ) -> None:
        self.files = files
        self.file_uses = FileUses()
        self._missing_is_error = missing_is_error
        self._installed = installed
        self.reports: list[Report] = []
        # The files being read, outermost first.
        self._open: list[str] = []
        # The total nesting depth of the open calls.
        self._depth = 0
        self._describe_depth = False
        # Results for called files: a file is read, and its problems reported, once.
        self._called_files: dict[str, _Document | None] = {}
        # By the calling file and the path in it, so that no reference has to look up a file again.
        self._outputs: dict[tuple[str, str], Collection[str] | None] = {}
        self._first_is_identified = False
        # Required if any of the files requires it: what needs an approval to run must not run without one
        # when it is called.
        self.approval: ApprovalOfRuns = "none"

    def read(self, file: FoundFile) -> _Document | None:
        document = read_yaml(file.content, file.name, max_depth=YAML_DEPTH)
        self.reports.append(document.report)
        if document.root is None:
            return None
        includes = Includes(self.files, document.report, self.reports)
        checker = Checker(RECORDS, document.report, includes.steps)
        if not checker.check(document.root, WORKFLOW, ""):
            return None
        assert isinstance(document.root, Mapping)
        self._open.append(file.identity)
        try:
            return self._workflow(document.root, checker, Problems(document.report))
        finally:
            self._open.pop()

    def _workflow(self, root: Mapping, checker: Checker, problems: Problems) -> _Document:
        if scalar_at(root, "approval") == "required":
            self.approval = "required"
        inputs_node = value_at(root, "inputs")
        inputs = inputs_of(inputs_node, checker, problems)
        context_node = value_at(root, "context")
        names = WorkflowNames(
            context=literal_of(context_node) if context_node is not None else {},
            inputs={name: known_type(name, inputs_node, checker) for name in inputs},
            secret_inputs=frozenset(name for name, declared in inputs.items() if declared.secret),
            secrets=set(texts_at(root, "secrets")),
            env_allow=set(texts_at(root, "env_allow")),
            unclear=_unclear(root, checker),
            has_lost=checker.has_lost,
            is_damaged=checker.is_damaged,
            outputs_of=lambda step: self._outputs_of(step, problems),
        )
        if context_node is not None:
            _check_no_secrets(context_node, names, problems)
        templates = value_at(root, "providers")
        declared_providers = tuple(templates.entries) if isinstance(templates, Mapping) else ()
        defaults = value_at(root, "defaults")
        defaults = defaults if isinstance(defaults, Mapping) else _EMPTY
        providers = KnownProviders((*BUILT_IN_PROVIDERS, *declared_providers), self._installed)
        default_provider = value_at(defaults, "provider")
        if isinstance(default_provider, Scalar) and not checker.has_lost(root, "providers"):
            check_provider(default_provider, providers, problems)
        context = WorkflowContext(
            problems,
            checker,
            names,
            TaskContext(
                self.files,
                self.reports,
                self._missing_is_error,
                providers,
                scalar_at(defaults, "provider"),
                scalar_at(defaults, "timeout"),
                retry_of(value_at(defaults, "retry")),
                scalar_at(root, "env_policy"),
                step_defaults(defaults, root, problems),
                file_uses=self.file_uses,
                assumed_provider=checker.has_lost(root, "defaults") or checker.is_damaged(defaults),
                topics=_topics(root, checker),
            ),
            _discipline(root, problems),
            lambda node, names: self._call(node, names, context),
        )
        scope = Scope("workflow")
        after = Names(problems, names, scope)
        block, error, entry = _main(root, scope, context)
        cleanup = _cleanup(root, scope, context)
        outputs = value_at(root, "outputs")
        env = {**_env(defaults, after), **_env(root, after)}
        labels = value_at(root, "labels")
        return _Document(
            Workflow(
                str(scalar_at(root, "name", "")),
                block,
                entry,
                error,
                cleanup,
                inputs,
                data_map(outputs, after, Place.STORED) if outputs is not None else {},
                names.context,
                **given(
                    timeout=scalar_at(root, "timeout"),
                    budget=budget_of(root, problems),
                    max_transitions=scalar_at(root, "max_transitions"),
                    max_parallel=scalar_at(root, "max_parallel"),
                    max_output_size=_COMPATIBLE_OUTPUT if scalar_at(root, "version") == "1.0" else None,
                ),
                notify=notify_of(root, after),
                secrets=texts_at(root, "secrets"),
                env=env,
                env_allow=texts_at(root, "env_allow"),
                http_allow=texts_at(root, "http_allow"),
                publishes=texts_at(root, "publishes"),
                providers=_providers(templates, after),
            ),
            {path: problems.report.position(start) for path, (start, _) in context.places.items()},
            _text(root, "revision"),
            scalar_at(root, "description"),
            {key: str(value) for key, value in literal_of(labels).items()} if labels is not None else None,
            scalar_at(root, "priority", 0),
            _concurrency(root, after),
            scalar_at(root, "engine", "any"),
            scalar_at(root, "fallback_behavior", "reject"),
            problems.report.has_errors,
            self._env_files(root, problems),
        )

    def _env_files(self, root: Mapping, problems: Problems) -> tuple[str, ...]:
        node = value_at(root, "env_file")
        if node is not None and len(self._open) > 1:
            problems.at_key(
                Code.KEY_DOES_NOT_FIT,
                root,
                "env_file",
                "'env_file' of a called workflow is not read: a run has the variables of the file it was started with.",
                "Move it to the workflow that is run.",
                Severity.WARNING,
            )
        if isinstance(node, Scalar):
            return (str(node.value),)
        return texts_at(root, "env_file") if node is not None else ()

    # --- calls ------------------------------------------------------------------------------------

    def _call(self, node: Mapping, names: Names, context: WorkflowContext) -> Body:
        """Another file, compiled into this plan: one run, one log, invisible to engines."""
        call, path = node.entries["call"].value, _path_of(node)
        inputs = value_at(call, "inputs") if isinstance(call, Mapping) else None
        called = self._called(path, names.scope.depth(), context) if isinstance(path, Scalar) else None
        given_inputs = inputs.entries if isinstance(inputs, Mapping) else {}
        values: dict[str, Data] = {}
        kinds: dict[str, Kinds] = {}
        secrets = secret_inputs(called) if called is not None else ()
        for key, entry in given_inputs.items():
            value = entry.value
            if key in secrets:
                values[key] = _handed_on(key, value, names)
            elif isinstance(value, Scalar) and isinstance(value.value, str) and "${" in value.value:
                text, kinds[key] = known_text(value, names, Place.STORED)
                values[key] = lone_reference(text) or text
            else:
                values[key] = data_of(value, names, Place.STORED)
        is_complete = not isinstance(call, Mapping) or not context.checker.has_lost(call, "inputs")
        if called is not None and path is not None and is_complete:
            given_node = inputs if isinstance(inputs, Mapping) else None
            check_given_inputs(given_node, path, called.inputs, _shown(path), kinds, names.problems)
        return Call(called or _NOTHING, values)

    def _outputs_of(self, step: Declared, problems: Problems) -> Collection[str] | None:
        """The outputs of the workflow that a step calls; None if they are unknown: the call reports why."""
        path = _path_of(step.node)
        if not isinstance(path, Scalar):
            return None
        file = problems.file_of(path)
        key = (file, str(path.value))
        if key not in self._outputs:
            self._outputs[key] = None
            found = self.files.read(str(path.value), file)
            if found is not None and not self._is_open(found):
                document = self._compiled(found, step.scope.depth())
                if document is not None and not document.has_errors:
                    self._outputs[key] = document.workflow.outputs
        return self._outputs[key]

    def _is_open(self, file: FoundFile) -> bool:
        # The first file is known by its name only; files that call it know it by the identity that `Files`
        # gives.
        if not self._first_is_identified:
            self._first_is_identified = True
            name = self._open[0]
            found = self.files.read(name.rsplit("/", 1)[-1], name)
            self._open[0] = found.identity if found is not None else name
        return file.identity in self._open

    def _called(self, path: Scalar, depth: int, context: WorkflowContext) -> Workflow | None:
        name = str(path.value)
        if "${" in name:
            context.problems.error(
                Code.INVALID_FORMAT,
                path,
                "the file of a call must be known when the workflow is read.",
                "Write its path without ${...}; choose between calls with `when`.",
            )
            return None
        found = find_file(path, name, context.problems, context.tasks)
        if found is None:
            return None
        if self._is_open(found):
            way = "" if self._open[-1] == found.identity else ", by way of others"
            context.problems.error(
                Code.CALLS_ITSELF,
                path,
                f"the workflow {quoted(name)} calls itself{way}.",
                "Write a loop instead: `while:` or `repeat_until:`.",
            )
            return None
        document = self._compiled(found, depth)
        called = document.workflow if document is not None else None
        inside = depth_of(called) if called is not None else 1
        if self._depth + depth + inside > MAX_NESTING and not self._describe_depth:
            self._describe_depth = True
            context.problems.error(
                Code.STEPS_NESTED_TOO_DEEP,
                path,
                f"steps are nested more than {MAX_NESTING} deep, calls included.",
                "Call workflows one after the other, or from further out.",
            )
        return called

    def _compiled(self, file: FoundFile, depth: int) -> _Document | None:
        # Checked before it is read, because its depth limits all code that walks the plan.
        if self._depth + depth < MAX_NESTING and file.identity not in self._called_files:
            self._depth += depth
            self._called_files[file.identity] = self.read(file)
            self._depth -= depth
        return self._called_files.get(file.identity)


_EMPTY: Final = Mapping(0, 0, {})
# Replaces a workflow that could not be read; an error has been reported, so no plan is made of it.
_NOTHING: Final = Workflow("", Block("implied", ()))


def _path_of(step: Mapping) -> Node | None:
    """The path in a `call`."""
    call = value_at(step, "call")
    return value_at(call, "workflow") if isinstance(call, Mapping) else call


def _shown(path: Node) -> str:
    return str(path.value) if isinstance(path, Scalar) else ""


def _unclear(root: Mapping, checker: Checker) -> set[str]:
    """The namespaces of which some declarations could not be read."""
    unclear = set()
    for key in ("context", "inputs", "secrets", "env_allow", "steps"):
        node = value_at(root, key)
        if checker.has_lost(root, key) or (isinstance(node, Mapping) and checker.is_damaged(node)):
            unclear.add(key)
    return unclear


def _topics(root: Mapping, checker: Checker) -> tuple[str, ...] | None:
    """The topics that steps may publish to; None if not all of them could be read."""
    node = value_at(root, "publishes")
    is_unclear = checker.has_lost(root, "publishes") or (
        isinstance(node, Sequence) and checker.is_damaged(node)
    )
    return None if is_unclear else texts_at(root, "publishes")


def _check_no_secrets(node: Node, names: WorkflowNames, problems: Problems) -> None:
    """Reports references to secrets in the context, which is plain data: they would not be resolved."""
    match node:
        case Sequence():
            for item in node.items:
                _check_no_secrets(item, names, problems)
        case Mapping():
            for entry in node.entries.values():
                _check_no_secrets(entry.value, names, problems)
        case Scalar(value=str(text)) if "${env." in text:
            for found in _FROM_ENVIRONMENT.finditer(text):
                if found[1] in names.secrets:
                    problems.inside(
                        Code.SECRET_STORED,
                        node,
                        *found.span(),
                        f"the secret {quoted(found[1])} is not allowed here: the context is stored.",
                        "Let the step that needs it read it from its environment instead.",
                    )


_FROM_ENVIRONMENT: Final = lazy_pattern(r"\$\{env\.(\w+)[^}]*\}")


def _discipline(root: Mapping, problems: Problems) -> Discipline:
    strict, version = scalar_at(root, "strict_flow"), scalar_at(root, "version")
    if version == "1.0" and strict:
        problems.error(
            Code.CONFLICTING_KEYS,
            root.entries["strict_flow"].value,
            "version 1.0 has no strict flow.",
            'Write `version: "2.0"`, or remove `strict_flow`.',
        )
        return "compatible"
    if version == "1.0" or strict is False:
        key = "strict_flow" if strict is False else "version"
        problems.warning(
            Code.FAILURE_IGNORED,
            root.entries[key].value,
            "failures are ignored: after a failed step the next one runs, and the end of the list is a success.",
            'Handle failures with `on:`, or write `version: "2.0"` without `strict_flow: false`.',
        )
        return "compatible"
    return "strict" if strict else "implied"


def _main(root: Mapping, scope: Scope, context: WorkflowContext) -> tuple[Block, Step | None, int]:
    """The workflow's main list, without `_error`, and its entry."""
    steps = value_at(root, "steps")
    if isinstance(steps, Sequence):
        declare(steps, scope, context)
    block, _ = block_of(scope, "", context)
    error = next((step for step in block.steps if step.step_id == ERROR), None)
    ordered = tuple(step for step in block.steps if step.step_id != ERROR)
    if error is not None and not ordered:
        context.problems.error(
            Code.NO_ACTION,
            scope.listed[0].name,
            "the only step is '_error', so nothing would be done.",
            "Add the steps of the workflow; `_error` runs only when one of them goes to it.",
        )
    entry = next((number for number, step in enumerate(ordered) if step.step_id == START), 0)
    return Block(block.discipline, ordered), error, entry


def _cleanup(root: Mapping, main: Scope, context: WorkflowContext) -> Block | None:
    steps = value_at(root, "finally")
    if not isinstance(steps, Sequence):
        return None
    scope = Scope("finally", main)
    declare(steps, scope, context)
    block, _ = block_of(scope, FINALLY, context)
    return block


def _handed_on(name: str, node: Node, names: Names) -> Data:
    """A secret input of a called workflow. What is passed is where the value comes from, and never the value."""
    wanted = f"${{inputs.{name}}}"
    if name not in names.workflow.secret_inputs or not isinstance(node, Scalar) or node.value != wanted:
        names.problems.error(
            Code.SECRET_NOT_DECLARED,
            node,
            f"{quoted(name)} is a secret input of the called workflow, which only a secret input of the same name can "
            "be given to.",
            f"Write {wanted}, and declare `{name}: {{secret: true}}` in the `inputs` of this workflow.",
        )
    return Reference(("inputs", name))


def _env(node: Mapping, names: Names) -> dict[str, Any]:
    env = value_at(node, "env")
    return text_map(env, names, Place.PRIVATE) if env is not None else {}


def _providers(node: Node | None, names: Names) -> dict[str, ProviderTemplate]:
    if not isinstance(node, Mapping):
        return {}
    templates: dict[str, ProviderTemplate] = {}
    for name, entry in node.entries.items():
        provider = entry.value
        assert isinstance(provider, Mapping)
        argv = value_at(provider, "argv")
        templates[name] = ProviderTemplate(
            arguments_of(argv, names, Place.ARGUMENT) if argv is not None else (),
            **given(
                stdin=scalar_at(provider, "stdin"),
                env=_env(provider, names) or None,
                result=scalar_at(provider, "result"),
                text_field=scalar_at(provider, "text_field"),
                session_field=scalar_at(provider, "session_field"),
                tokens_field=scalar_at(provider, "tokens_field"),
                cost_field=scalar_at(provider, "cost_field"),
            ),
            needs_env=texts_at(provider, "needs_env"),
        )
    return templates


def _concurrency(root: Mapping, names: Names) -> Concurrency | None:
    node = value_at(root, "concurrency")
    if not isinstance(node, Mapping):
        return None
    key = value_at(node, "key")
    return Concurrency(
        text_of(key, names, Place.STORED) if key is not None else "",
        **given(limit=scalar_at(node, "limit"), on_conflict=scalar_at(node, "on_conflict")),
    )


def _text(root: Mapping, key: str) -> str | None:
    value = value_at(root, key)
    return str(value.value) if isinstance(value, Scalar) else None
