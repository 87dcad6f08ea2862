"""What a `${...}` may name, and what is known about its value.

    context.KEY   inputs.NAME   steps.STEP.FIELD   env.NAME   loop.FIELD   run.FIELD   and the variable of a loop

Unknown names are reported while the file is read, with the nearest known one; a known step that has not run
yet is null at run time. Secrets (`${env.NAME}` of a declared secret) may not be used where values are stored.
"""

from collections.abc import Callable, Collection, Iterable
from enum import Enum, auto
from typing import Any, Final, TypeAlias

import msgspec

from podium.expressions.types import Reference
from podium.language.codes import Code
from podium.language.diagnostics import Severity, did_you_mean
from podium.language.kinds import Kinds
from podium.language.namespaces import (
    FIELDS_ELSEWHERE,
    FIELDS_OF_A_STEP,
    FIELDS_OF_A_SUMMARY,
    FIELDS_OF_AN_ITERATION,
    FIELDS_OF_THE_END,
    FIELDS_OF_THE_RUN,
    KIND_OF_INPUT,
    MAP_OR_NULL,
    NAMESPACES,
    NUMBER_OR_NULL,
    TEXT_OR_NULL,
)
from podium.language.problems import Problems, suggestion
from podium.language.scopes import Declared, NotVisible, Scope, find_step
from podium.language.tree import Mapping as MappingNode
from podium.language.tree import Scalar
from podium.text import quoted

# Called with a reference and its position in a text; returns it with ids for names, and what is known of its
# value.
Resolve: TypeAlias = Callable[[Reference, int, int], tuple[Reference, Kinds]]


class Place(Enum):
    """Where a text is used, which decides who could see a secret in it."""

    PRIVATE = auto()  # only the child process sees it: env, headers
    ARGUMENT = auto()  # every process on the machine sees it: argv
    ADDRESS = auto()  # logs of requests contain it
    PROMPT = auto()  # the model's provider sees it
    STORED = auto()  # it is stored: conditions, items, context, outputs, file names


# The places where others see a secret, and who they are.
_SEEN: Final = {
    Place.ARGUMENT: "every process of the machine can see it",
    Place.ADDRESS: "servers and proxies write addresses down",
    Place.PROMPT: "it is sent with the prompt",
}
_INSTEAD: Final = {
    Place.ARGUMENT: "Let the program read it from its environment instead.",
    Place.ADDRESS: "Send it in `headers` instead.",
    Place.PROMPT: "Let the agent's tools read it from their environment instead.",
}
# These never occur in a name, and show that an expression was meant.
_OPERATORS: Final = ("(", ")", " + ", " - ", " * ", " == ", " != ", " < ", " > ", " and ", " or ")


class WorkflowNames(msgspec.Struct):
    """Everything that a workflow declares."""

    context: dict[str, Any] = msgspec.field(default_factory=dict)
    # Keys that some `set` step creates.
    set_keys: set[str] = msgspec.field(default_factory=set)
    # Name and type; None if the type could not be read.
    inputs: dict[str, str | None] = msgspec.field(default_factory=dict)
    # Those of the inputs whose values are secrets.
    secret_inputs: frozenset[str] = frozenset()
    secrets: set[str] = msgspec.field(default_factory=set)
    env_allow: set[str] = msgspec.field(default_factory=set)
    # Namespaces (`context`, `inputs`, `steps`, ...) of which not all declarations could be read, so that
    # unknown names may exist.
    unclear: set[str] = msgspec.field(default_factory=set)
    # Whether a key of a mapping was written but could not be used.
    has_lost: Callable[[MappingNode, str], bool] = lambda _node, _key: False
    # Whether any part of a mapping could not be used.
    is_damaged: Callable[[MappingNode], bool] = lambda _node: False
    # The outputs of the workflow that a step calls; None if they are unknown.
    outputs_of: Callable[[Declared], Collection[str] | None] = lambda _step: None

    def may_declare(self, what: str, name: str, known: Iterable[str]) -> bool:
        """Whether an unknown name is more likely one of those that could not be read than a typing mistake."""
        return what in self.unclear and not did_you_mean(name, known)

    def may_wait_for(self, found: NotVisible) -> bool:
        """Whether a step may have ended after all, because not all dependencies could be read."""
        return found.reason == "same time" and "depends_on" in self.unclear

    def context_keys(self) -> list[str]:
        return [*self.context, *sorted(self.set_keys)]


class Names(msgspec.Struct):
    """The names that can be used at one step."""

    problems: Problems
    workflow: WorkflowNames
    scope: Scope
    # The step whose texts are read; None after all steps (`outputs`) and in a loop's own condition.
    step: Declared | None = None
    secrets: Collection[str] = ()
    env_allow: Collection[str] = ()

    def is_namespace(self, name: str) -> bool:
        """Whether `${name...}` refers to something: a namespace, or the variable of a loop around this step."""
        return name in NAMESPACES or any(scope.variable == name for scope in self.scope.outwards())

    def reference_to(self, name: str) -> str:
        """To the loop variable, the input or the context key of this name; empty if there is none."""
        if name not in NAMESPACES and self.is_namespace(name):
            return name
        if name in self.workflow.inputs:
            return f"inputs.{name}"
        return f"context.{name}" if name in self.workflow.context_keys() else ""

    def reader(self, scalar: Scalar, place: Place) -> Resolve:
        """The function to call for each reference found in a text."""

        def on_reference(reference: Reference, start: int, end: int) -> tuple[Reference, Kinds]:
            return _Resolving(self, scalar, place, reference, start, end).resolve()

        return on_reference


class _Resolving:
    """Resolves one reference."""

    __slots__ = ("_names", "_path", "_place", "_reference", "_scalar", "_span")

    def __init__(
        self, names: Names, scalar: Scalar, place: Place, reference: Reference, start: int, end: int
    ) -> None:
        self._names = names
        self._scalar = scalar
        self._place = place
        self._reference = reference
        self._path = reference.path
        self._span = (start, end)

    def resolve(self) -> tuple[Reference, Kinds]:
        kinds = self._kinds()
        reference = self._reference
        if reference.path != self._path:
            reference = msgspec.structs.replace(reference, path=self._path)
        if reference.default is not None:
            kinds = (kinds & ~Kinds.NULL) | Kinds.TEXT
        return reference, kinds

    def _kinds(self) -> Kinds:
        first = self._path[0]
        scope: Scope | None = self._names.scope
        while scope is not None:
            # The variable of a loop takes precedence: that is what shadowing means.
            if scope.variable == first:
                return self._item(scope)
            scope = scope.outer
        match first:
            case "context":
                return self._context()
            case "inputs":
                return self._input()
            case "steps":
                return self._step()
            case "env":
                return self._env()
            case "loop":
                return self._loop()
            case "run":
                return self._run()
            case _:
                return self._unknown_namespace(str(first))

    # --- namespaces -------------------------------------------------------------------------------

    def _item(self, scope: Scope) -> Kinds:
        known = sorted(scope.item_keys or ())
        if not known or len(self._path) < 2 or self._path[1] in known:
            return Kinds.ANY
        key = str(self._path[1])
        return self._unknown(
            f"{quoted(str(self._path[0]))} has no key {quoted(key)}.", suggestion(key, known, "keys")
        )

    def _context(self) -> Kinds:
        workflow = self._names.workflow
        key = self._part(1, "a key", workflow.context_keys)
        if key is None or key in workflow.set_keys:
            return Kinds.ANY
        if key not in workflow.context:
            return self._undeclared(
                "context", f"the context has no key {quoted(key)}.", key, workflow.context_keys(), "keys"
            )
        value = workflow.context[key]
        for place, part in enumerate(self._path[2:], start=2):
            if isinstance(value, dict) and isinstance(part, str):
                if part not in value:
                    where = ".".join(map(str, self._path[:place]))
                    return self._unknown(
                        f"{quoted(where)} has no key {quoted(part)}.", suggestion(part, list(value), "keys")
                    )
                value = value[part]
            elif isinstance(value, list) and isinstance(part, int):
                if part >= len(value):
                    return Kinds.ANY
                value = value[part]
            else:
                return Kinds.ANY
        # No `set` step replaces this key's value, so its kind is known.
        return _kind_of(value)

    def _input(self) -> Kinds:
        known = self._names.workflow.inputs
        name = self._part(1, "an input", lambda: list(known))
        if name is None:
            return Kinds.ANY
        if name not in known:
            return self._undeclared("inputs", f"unknown input {quoted(name)}.", name, known, "inputs")
        if name in self._names.workflow.secret_inputs:
            return self._secret_input(name)
        type_ = known[name]
        return Kinds.ANY if len(self._path) > 2 or type_ is None else KIND_OF_INPUT[type_] | Kinds.NULL

    def _secret_input(self, name: str) -> Kinds:
        """A step that names it sees it; it need not be listed."""
        if len(self._path) > 2:
            return self._unknown(
                f"the secret input {quoted(name)} is text, without parts.", "Use it as a whole."
            )
        if self._place is Place.STORED:
            self._error(
                Code.SECRET_STORED,
                f"the secret input {quoted(name)} is not allowed here: this value is stored.",
                "Write it in the `env` of the step that needs it.",
            )
        elif self._names.step is None:
            self._error(
                Code.SECRET_NOT_DECLARED,
                f"the secret input {quoted(name)} may only be used in steps.",
                "Move it into the `env` of the step that needs it.",
            )
        else:
            self._warn_if_visible(f"the secret input {quoted(name)}")
        return TEXT_OR_NULL

    def _env(self) -> Kinds:
        names = self._names
        name = self._part(
            1, "a variable", lambda: sorted({*names.secrets, *names.env_allow, *names.workflow.env_allow})
        )
        if name is None:
            return Kinds.ANY
        if name in names.workflow.secrets or name in names.secrets:
            self._check_secret(name)
        elif name not in names.env_allow and name not in names.workflow.env_allow:
            self._report_not_allowed(name)
        return TEXT_OR_NULL

    def _report_not_allowed(self, name: str) -> None:
        names = self._names
        if not {"secrets", "env_allow"}.isdisjoint(names.workflow.unclear) or names.problems.is_enough():
            return
        near = did_you_mean(name, [*names.secrets, *names.env_allow, *names.workflow.env_allow])
        self._error(
            Code.ENV_NOT_ALLOWED,
            f"the variable {quoted(name)} may not be read.",
            f"{near} {'Otherwise add' if near else 'Add'} `env_allow: [{name}]`, or list it in `secrets` if it is "
            "one.".strip(),
        )

    def _check_secret(self, name: str) -> None:
        names = self._names
        if self._place is Place.STORED:
            self._error(
                Code.SECRET_STORED,
                f"the secret {quoted(name)} is not allowed here: this value is stored.",
                "Let the step that needs it read it from its environment instead.",
            )
        elif name not in names.secrets:
            if names.step is not None and self._may_be_listed(name, names.step):
                return
            of_a_step = names.step is not None
            self._error(
                Code.SECRET_NOT_DECLARED,
                f"the secret {quoted(name)} is not among the secrets of this step."
                if of_a_step
                else f"the secret {quoted(name)} may only be used in steps that list it.",
                f"Add `secrets: [{name}]` to the step."
                if of_a_step
                else f"Move it into the `env` of a step with `secrets: [{name}]`.",
            )
        else:
            self._warn_if_visible(f"the secret {quoted(name)}")

    def _warn_if_visible(self, secret: str) -> None:
        if self._place is not Place.PRIVATE:
            self._names.problems.inside(
                Code.SECRET_VISIBLE,
                self._scalar,
                *self._span,
                f"{secret} is visible here: {_SEEN[self._place]}.",
                _INSTEAD[self._place],
                Severity.WARNING,
            )

    def _may_be_listed(self, name: str, step: Declared) -> bool:
        """Whether the step lists the secret, but in an invalid way that was reported already."""
        workflow = self._names.workflow
        unknown = [other for other in self._names.secrets if other not in workflow.secrets]
        return workflow.has_lost(step.node, "secrets") or bool(did_you_mean(name, unknown))

    def _loop(self) -> Kinds:
        scope: Scope | None = self._names.scope.innermost_loop()
        if scope is None:
            return self._outside_loop("'loop' is only known inside a loop.", "Use it in a step of a loop.")
        place = 1
        while place < len(self._path) and self._path[place] == "parent":
            scope = scope.outer.innermost_loop() if scope.outer is not None else None
            if scope is None:
                return self._outside_loop(
                    "'loop.parent' is only known inside a loop in a loop.", "Write ${loop...} for this loop."
                )
            place += 1
        fields = FIELDS_OF_AN_ITERATION["items" if scope.kind == "items" else "pass"]
        known = [*fields, "parent"]
        name = self._part(place, "a field", lambda: known)
        if name is None:
            return Kinds.ANY
        if name not in fields:
            kind = "for_each" if scope.kind == "items" else "while"
            return self._unknown(
                f"'loop' has no field {quoted(name)} in a {kind} loop.", suggestion(name, known, "fields")
            )
        return fields[name]

    def _run(self) -> Kinds:
        scope = self._names.scope
        ended = any(around.kind == "finally" for around in scope.outwards())
        fields = {**FIELDS_OF_THE_RUN, **FIELDS_OF_THE_END} if ended else FIELDS_OF_THE_RUN
        name = self._part(1, "a field", lambda: list(fields))
        if name is None:
            return Kinds.ANY
        if name in fields:
            return fields[name]
        if name in FIELDS_OF_THE_END:
            return self._unknown(
                f"'run.{name}' is not known before the run has ended.", "Use it in a step of `finally`."
            )
        return self._unknown(f"'run' has no field {quoted(name)}.", suggestion(name, list(fields), "fields"))

    def _unknown_namespace(self, first: str) -> Kinds:
        if self._names.problems.is_enough():
            return Kinds.ANY
        known = list(NAMESPACES)
        known += [scope.variable for scope in self._names.scope.outwards() if scope.variable]
        if self._names.workflow.may_declare("variables", first, known):
            return Kinds.ANY
        owner = _loop_with_variable(self._names.scope, first)
        if owner is not None:
            return self._outside_loop(
                f"{quoted(first)} is the variable of the loop {quoted(owner.step_id)} and not known outside of it.",
                f"Use it in the steps of {quoted(owner.step_id)}; afterwards "
                f"${{steps.{owner.step_id}.iterations[0].item}} is the first item.",
            )
        called = next((scope.variable for scope in self._names.scope.outwards() if scope.variable), None)
        if first == "item" and called is not None:
            hint = f"Write ${{{called}}}: that is what the item is called here."
        elif find_step(first, self._names.scope, self._names.step) is not None:
            hint = f"Write ${{steps.{'.'.join(map(str, self._path))}}} for the step."
        elif first in self._names.workflow.context:
            hint = f"Write ${{context.{'.'.join(map(str, self._path))}}}."
        elif first in self._names.workflow.inputs:
            hint = f"Write ${{inputs.{'.'.join(map(str, self._path))}}}."
        else:
            from podium.language.other_tools import namespace_hint, variable_hint

            rest = ".".join(map(str, self._path[1:]))
            hint = namespace_hint(first, rest)
            if not hint and not rest and not did_you_mean(first, known):
                hint = variable_hint(first)
            hint = hint or suggestion(first, known, "names")
        return self._unknown(f"{quoted(first)} is not known here.", hint)

    # --- steps ------------------------------------------------------------------------------------

    def _step(self) -> Kinds:
        names = self._names
        name = self._part(1, "a step", self._known_steps)
        if name is None:
            return Kinds.ANY
        found = find_step(name, names.scope, names.step)
        if found is None:
            if names.problems.is_enough():
                return Kinds.ANY
            known = self._known_steps()
            if not names.workflow.may_declare("steps", name, known):
                self._error(
                    Code.STEP_NOT_DEFINED,
                    f"step {quoted(name)} does not exist.",
                    suggestion(name, known, "steps"),
                )
            return Kinds.ANY
        if isinstance(found, NotVisible):
            if names.workflow.may_wait_for(found) or names.problems.is_enough():
                return Kinds.ANY
            self._error(Code.STEP_NOT_VISIBLE, *not_visible(name, found, names, "${%s.<field>}"))
            return Kinds.ANY
        self._path = ("steps", found.step_id, *self._path[2:])
        return self._field(found, 2)

    def _known_steps(self) -> list[str]:
        return [name for scope in self._names.scope.outwards() for name in scope.steps]

    def _field(self, step: Declared, place: int) -> Kinds:
        """What is known about `steps.X`, starting with the part at `place`."""
        fields = FIELDS_OF_A_STEP[step.action]
        if not fields:
            return Kinds.ANY
        if place == len(self._path):
            return MAP_OR_NULL
        name = self._path[place]
        if not isinstance(name, str) or name not in fields:
            meant = FIELDS_ELSEWHERE.get(str(name), "")
            hint = (
                f"Did you mean {quoted(meant)}?"
                if meant in fields
                else suggestion(str(name), fields, "fields")
            )
            return self._unknown(f"the step {quoted(step.step_id)} has no field {quoted(str(name))}.", hint)
        rest = place + 1
        match name:
            case "lines" | "json" if self._names.workflow.has_lost(step.node, "capture"):
                return Kinds.ANY
            case "lines" | "json" if not _captures(step, name):
                return self._unknown(
                    f"the output of {quoted(step.step_id)} is not read as {name}.",
                    f"Add `capture: {name}` to that step.",
                )
            case "summary" if rest < len(self._path):
                return self._one_of(rest, FIELDS_OF_A_SUMMARY, "summary") or NUMBER_OR_NULL
            case "outputs" if step.action == "call" and rest < len(self._path):
                return self._output(step, rest)
            case "form" if rest < len(self._path):
                return self._form(step, rest)
            case "iterations" if rest < len(self._path):
                return self._iteration(step, rest)
            case "last" | "branches" | "steps" if rest < len(self._path):
                return self._step_inside(step, rest)
            case _:
                return fields[name] if rest == len(self._path) else Kinds.ANY

    def _output(self, step: Declared, place: int) -> Kinds:
        """The outputs of a called workflow: only what it declares."""
        declared = self._names.workflow.outputs_of(step)
        name = str(self._path[place])
        if declared is not None and name not in declared:
            otherwise = f"Add it to the `outputs` of the workflow that {quoted(step.step_id)} calls."
            return self._unknown(
                f"the step {quoted(step.step_id)} has no output {quoted(name)}.",
                suggestion(name, declared, "outputs", otherwise),
            )
        return Kinds.ANY

    def _form(self, step: Declared, place: int) -> Kinds:
        """The answers of a person: only the declared fields."""
        approval = step.node.entries["approval"].value
        if isinstance(approval, MappingNode) and self._names.workflow.has_lost(approval, "form"):
            return Kinds.ANY
        form = approval.entries.get("form") if isinstance(approval, MappingNode) else None
        asked = form.value.entries if form is not None and isinstance(form.value, MappingNode) else {}
        name = str(self._path[place])
        if name not in asked:
            otherwise = f"Add it to the `form` of {quoted(step.step_id)}."
            return self._unknown(
                f"the form of {quoted(step.step_id)} has no field {quoted(name)}.",
                suggestion(name, asked, "fields", otherwise),
            )
        return Kinds.ANY

    def _iteration(self, step: Declared, place: int) -> Kinds:
        """`iterations[i]`, then `steps.NAME` or NAME alone, then a field."""
        if not isinstance(self._path[place], int):
            return self._unknown(
                "an iteration is chosen by its number.", "Write iterations[0] for the first."
            )
        place += 1
        if place == len(self._path):
            return MAP_OR_NULL
        if self._path[place] in ("index", "item", "status"):
            return Kinds.ANY
        if self._path[place] != "steps":
            self._path = (*self._path[:place], "steps", *self._path[place:])
        place += 1
        return self._step_inside(step, place) if place < len(self._path) else MAP_OR_NULL

    def _step_inside(self, step: Declared, place: int) -> Kinds:
        body = step.body
        if body is None:
            return Kinds.ANY
        name = str(self._path[place])
        found = body.steps.get(name)
        if found is None:
            if self._names.problems.is_enough() or self._names.workflow.may_declare(
                "steps", name, body.steps
            ):
                return Kinds.ANY
            return self._unknown(
                f"{quoted(step.step_id)} has no step {quoted(name)}.",
                suggestion(name, list(body.steps), "steps"),
            )
        self._path = (*self._path[:place], found.step_id, *self._path[place + 1 :])
        return self._field(found, place + 1)

    # --- reporting --------------------------------------------------------------------------------

    def _part(self, place: int, what: str, known: Callable[[], list[str]]) -> str | None:
        if place < len(self._path) and isinstance(self._path[place], str):
            return str(self._path[place])
        written = ".".join(map(str, self._path[:place]))
        example = next(iter(known()), "name")
        self._unknown(
            f"{quoted(written)} needs {what} after it.", f"Write ${{{written}.{example}}}, for example."
        )
        return None

    def _one_of(self, place: int, known: tuple[str, ...], where: str) -> Kinds | None:
        name = str(self._path[place])
        if name in known:
            return None
        return self._unknown(
            f"'{where}' has no field {quoted(name)}.", suggestion(name, list(known), "fields")
        )

    def _outside_loop(self, message: str, hint: str) -> Kinds:
        self._error(Code.OUTSIDE_LOOP, message, hint)
        return Kinds.ANY

    def _undeclared(self, where: str, message: str, name: str, known: Iterable[str], what: str) -> Kinds:
        """Report a name that the workflow could declare, and may have tried to."""
        if self._names.problems.is_enough() or self._names.workflow.may_declare(where, name, known):
            return Kinds.ANY
        otherwise = f"Add it to the workflow's `{where}`."
        return self._unknown(message, suggestion(name, known, what, otherwise))

    def _unknown(self, message: str, hint: str) -> Kinds:
        if any(sign in str(part) for part in self._path for sign in _OPERATORS):
            hint = "Write only a name between ${ and }; operators and functions go around it, in an `expr`."
        self._error(Code.UNKNOWN_NAME, message, hint)
        return Kinds.ANY

    def _error(self, code: Code, message: str, hint: str) -> None:
        self._names.problems.inside(code, self._scalar, *self._span, message, hint)


def not_visible(name: str, found: NotVisible, names: Names, ask: str) -> tuple[str, str]:
    """Why a step cannot be named, and what to do about it: `ask`, with the path to the step inserted."""
    step = found.step
    if found.reason == "shadowed":
        return (
            f"the step {quoted(name)} has the id {quoted(step.step_id)}, which means another step here.",
            "Give one of the two another `id`.",
        )
    if step is names.step:
        return f"the step {quoted(name)} has not run when this is asked.", "Name a step that it depends on."
    visible = list(names.scope.outwards())
    # The visible step that contains the other one.
    outer = step
    while outer.scope.owner is not None and outer.scope not in visible:
        outer = outer.scope.owner
    if found.reason == "same time" or isinstance(
        find_step(outer.step_id, names.scope, names.step), NotVisible
    ):
        graph = outer.branch_of is None and outer.scope.needs is not None
        return (
            f"the step {quoted(name)} may still be running then.",
            f"Add {quoted(outer.step_id)} to `depends_on`, or name only steps that have ended before."
            if graph
            else "Name only steps that have ended before, or ask in a step after the block.",
        )
    where = step.scope.owner.step_id if step.scope.owner is not None else ""
    return (
        f"the step {quoted(name)} is inside {quoted(where)}.",
        f"Write {ask % _way_to(step, visible)} outside of it.",
    )


# How to refer to the steps inside another.
_THROUGH: Final = {
    "for_each": "iterations[0]",
    "while": "last",
    "repeat_until": "last",
    "parallel": "branches",
}


def _way_to(step: Declared, visible: list[Scope]) -> str:
    owner = step.scope.owner
    if owner is None or step.scope in visible:
        return f"steps.{step.step_id}"
    return f"{_way_to(owner, visible)}.{_THROUGH.get(owner.action, 'steps')}.{step.step_id}"


def _captures(step: Declared, what: str) -> bool:
    capture = step.node.entries.get("capture")
    if capture is not None and isinstance(capture.value, Scalar) and capture.value.value == what:
        return True
    expect = step.node.entries.get("expect")
    checked = (
        expect is not None and isinstance(expect.value, MappingNode) and "schema" in expect.value.entries
    )
    return what == "json" and (checked or step.action == "python")


def _loop_with_variable(scope: Scope, name: str) -> Declared | None:
    outermost = list(scope.outwards())[-1]
    pending = list(outermost.listed)
    while pending:
        step = pending.pop()
        if step.body is not None:
            if step.body.variable == name:
                return step
            pending.extend(step.body.listed)
    return None


def _kind_of(value: Any) -> Kinds:
    match value:
        case None:
            return Kinds.NULL
        case bool():
            return Kinds.BOOL
        case int() | float():
            return Kinds.NUMBER
        case str():
            return Kinds.TEXT
        case list():
            return Kinds.LIST
        case _:
            return Kinds.MAP
