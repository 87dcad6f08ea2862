"""Declares steps: all names of a workflow, at every level, before any step is compiled.

So steps can refer to later ones. Names, ids and dependencies are checked here.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from podium.language.codes import Code
from podium.language.grammar import ACTIONS
from podium.language.matrix import KEY, keys_of, without_matrix
from podium.language.namespaces import NAMESPACES
from podium.language.problems import Problems, suggestion
from podium.language.references import Names, WorkflowNames
from podium.language.scopes import Declared, Scope, ScopeKind, steps_inside
from podium.language.shapes import Checker
from podium.language.tasks import (
    TaskContext,
)
from podium.language.tree import Mapping, Node, Scalar, Sequence
from podium.language.values import (
    scalar_at,
    value_at,
)
from podium.patterns import lazy_pattern
from podium.plan.graph import order
from podium.plan.plan import (
    MAX_NESTING,
    Body,
    Discipline,
)
from podium.text import quoted

# What a name must not contain (D03), because these are syntax in references and paths.
_NOT_IN_NAMES: Final = lazy_pattern(r"""[.\[\]{}"|/#]|:-""")
# Names with a special meaning; others must not start with an underscore.
START: Final = "_start"
ERROR: Final = "_error"
_BODIES: Final[dict[str, ScopeKind]] = {
    "parallel": "branches",
    "for_each": "items",
    "while": "pass",
    "repeat_until": "pass",
    "steps": "group",
}
# What an unreadable step may declare: itself, and context keys.
_OF_A_STEP: Final = frozenset({"steps", "context"})
# A call compiles another file, so the function for it is passed in.
CallBody = Callable[[Mapping, Names], Body]


class WorkflowContext(msgspec.Struct):
    """What all lists of one workflow share while they are read."""

    problems: Problems
    checker: Checker
    names: WorkflowNames
    tasks: TaskContext
    # How a main list of the workflow handles an outcome that no handler names.
    discipline: Discipline
    call: CallBody
    # The position of each step, by its path.
    places: dict[str, tuple[int, int]] = msgspec.field(default_factory=dict)


def declare(steps: Sequence, scope: Scope, context: WorkflowContext) -> None:
    """Declare the steps of a list, and of the lists inside them."""
    if scope.depth() > MAX_NESTING:
        context.problems.error(
            Code.STEPS_NESTED_TOO_DEEP,
            steps,
            f"steps are nested more than {MAX_NESTING} deep.",
            "Move the inner ones into a workflow of their own and `call` it.",
        )
        steps.items = []
        return
    if context.checker.is_damaged(steps):
        context.names.unclear |= _OF_A_STEP
    for node in steps.items:
        assert isinstance(node, Mapping)
        item = _combined(node, context)
        name = value_at(item, "name")
        if not isinstance(name, Scalar):
            # Reported as missing; what it declares is unknown.
            context.names.unclear |= _OF_A_STEP
            continue
        declared = Declared(_step_id(item), name, item, _action(item, context), len(scope.listed), scope)
        _check_name(name, scope, context.problems)
        scope.listed.append(declared)
        _add(declared, scope, context.problems)
        if scope.kind == "branches" and scope.outer is not None:
            declared.branch_of = scope.owner
            _add(declared, scope.outer, context.problems)
        _declare_inside(declared, context)
    if any("depends_on" in step.node.entries for step in scope.listed) and _may_be_graph(scope, context):
        scope.needs = _needs(scope, context)


def _combined(node: Mapping, context: WorkflowContext) -> Mapping:
    if KEY not in node.entries and not context.checker.has_lost(node, KEY):
        return node
    step = without_matrix(node, context.checker, context.problems)
    if "for_each" not in step.entries:
        context.names.unclear.add("variables")
    return step


def _may_be_graph(scope: Scope, context: WorkflowContext) -> bool:
    if scope.kind != "branches":
        return True
    for step in scope.listed:
        if "depends_on" in step.node.entries:
            context.problems.at_key(
                Code.KEY_DOES_NOT_FIT,
                step.node,
                "depends_on",
                "the branches of 'parallel' start together, so none can wait for another.",
                "Write `steps:` instead of `parallel:`; independent steps run in parallel there, too.",
            )
    return False


def _declare_inside(step: Declared, context: WorkflowContext) -> None:
    if step.action == "unclear":
        context.names.unclear |= _OF_A_STEP
    if step.action == "set":
        keys = value_at(step.node, "set")
        if isinstance(keys, Mapping):
            context.names.set_keys.update(keys.entries)
    kind = _BODIES.get(step.action)
    if kind is None:
        return
    body = value_at(step.node, step.action)
    inner = Scope(kind, step.scope, step)
    steps: Node | None = body
    if isinstance(body, Mapping):
        if kind == "items":
            inner.variable = scalar_at(body, "as", "item")
            inner.item_keys = keys_of(body)
            _check_variable(body, context.problems)
            if context.checker.has_lost(body, "as"):
                context.names.unclear.add("variables")
            inner.concurrently = bool(scalar_at(body, "parallel", False))
        steps = value_at(body, "steps")
    step.body = inner
    if isinstance(steps, Sequence):
        declare(steps, inner, context)
    else:
        context.names.unclear |= _OF_A_STEP  # already reported as missing


def _check_variable(loop: Mapping, problems: Problems) -> None:
    variable = value_at(loop, "as")
    if isinstance(variable, Scalar) and variable.value in NAMESPACES:
        problems.error(
            Code.INVALID_NAME,
            variable,
            f"the variable {quoted(str(variable.value))} would hide ${{{variable.value}...}} inside the loop.",
            "Use another name, like `as: item`.",
        )


def _step_id(node: Mapping) -> str:
    written = scalar_at(node, "id")
    return str(written if written is not None else scalar_at(node, "name"))


def _action(node: Mapping, context: WorkflowContext) -> str:
    """What the step does, according to its keys; any further action that it names is reported."""
    keys = [key for key in node.entries if key in ACTIONS]
    actions = list(dict.fromkeys(ACTIONS[key] for key in keys))
    if len(actions) > 1:
        context.problems.at_key(
            Code.NOT_ONE_ACTION,
            node,
            keys[1],
            f"a step does one thing, but this one has {' and '.join(map(quoted, keys))}.",
            "Make it two steps, or a group with `steps:`.",
        )
    if actions:
        return actions[0]
    return "unclear" if context.checker.is_damaged(node) else "gate"


def _check_name(name: Scalar, scope: Scope, problems: Problems) -> None:
    text = str(name.value)
    found = _NOT_IN_NAMES.search(text)
    bad = found[0] if found is not None else None
    if text != text.strip():
        problems.error(
            Code.INVALID_NAME, name, f"the name {quoted(text)} has spaces around it.", "Remove the spaces."
        )
    elif bad is not None or not text.isprintable():
        what = quoted(bad) if bad is not None else "characters that cannot be seen"
        problems.error(
            Code.INVALID_NAME,
            name,
            f"the name {quoted(text)} has {what}.",
            'Use letters, digits, spaces, - and _; not . [ ] { } " | / # or :-.',
        )
    elif text.startswith("_") and not (text in (START, ERROR) and scope.kind == "workflow"):
        where = " here" if text in (START, ERROR) else ""
        problems.error(
            Code.INVALID_NAME,
            name,
            f"the name {quoted(text)} is reserved{where}.",
            "Start with another character; only `_start` and `_error` in the workflow's own list have an underscore.",
        )
    elif len(text) > 200:
        problems.error(
            Code.INVALID_NAME,
            name,
            "the name is longer than 200 characters.",
            "Use a short one, and `description` for the rest.",
        )


def _add(step: Declared, scope: Scope, problems: Problems) -> None:
    """Register a step by its id and its name, once each."""
    written = value_at(step.node, "id")
    if isinstance(written, Scalar) and step.scope is scope:
        _check_name(written, scope, problems)
    # In this order: for a step without an id of its own, messages mention the name.
    for key, place in {step.step_id: written, str(step.name.value): step.name}.items():
        other = scope.steps.get(key)
        if other is None:
            scope.steps[key] = step
        elif other is not step:
            at = place if isinstance(place, Scalar) else step.name
            problems.error(
                Code.DUPLICATE_NAME,
                at,
                f"there is another step {quoted(key)} in {problems.line_of(other.name, at)}.",
                "Give each step of a list, and each branch in it, a name of its own.",
            )


def _needs(scope: Scope, context: WorkflowContext) -> list[list[int]]:
    """The graph: the dependencies of each step."""
    problems, names_of_all = context.problems, context.names
    needs: list[list[int]] = []
    for step in scope.listed:
        needed: list[int] = []
        if context.checker.has_lost(step.node, "depends_on"):
            names_of_all.unclear.add("depends_on")
        listed = value_at(step.node, "depends_on")
        for item in listed.items if isinstance(listed, Sequence) else ():
            assert isinstance(item, Scalar)
            found = scope.steps.get(str(item.value))
            if found is None or found.scope is not scope:
                names_of_all.unclear.add("depends_on")
                if problems.is_enough() or names_of_all.may_declare("steps", str(item.value), scope.steps):
                    continue
                problems.error(
                    Code.STEP_NOT_DEFINED,
                    item,
                    f"step {quoted(step.step_id)} depends on {quoted(str(item.value))}, which is not in this list.",
                    _meant_dependency(str(item.value), step),
                )
            else:
                needed.append(found.index)
        needs.append(needed)
    cycle = order(needs).cycle
    if cycle:
        names = [scope.listed[index].step_id for index in cycle]
        itself = len(names) == 1
        problems.at_key(
            Code.DEPENDENCY_CYCLE,
            scope.listed[cycle[0]].node,
            "depends_on",
            f"the step {quoted(names[0])} waits for itself."
            if itself
            else f"steps wait for each other: {' -> '.join([*names, names[0]])}.",
            f"Remove {quoted(names[0])} from its own `depends_on`."
            if itself
            else "Remove one of these dependencies.",
        )
        # An invalid graph is not checked further.
        return [[] for _ in needs]
    return needs


def _meant_dependency(name: str, step: Declared) -> str:
    """A suggestion for `depends_on`: the step of this list that contains the named one, or one with a similar
    name.
    """
    # Not all steps are declared yet, so only this list is searched.
    inner = dict(steps_inside(step.scope)).get(name)
    while inner is not None and inner.scope is not step.scope:
        inner = inner.scope.owner
    if inner is not None and inner is not step:
        return f"Depend on {quoted(inner.step_id)}, which contains it."
    known = [other.step_id for other in step.scope.listed if other is not step]
    return suggestion(name, known, "steps", "Add a step of that name.")
