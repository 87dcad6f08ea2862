"""Lists of steps, and the steps that hold lists: loops, branches, groups, calls.

A list is read twice: first all names are declared, in every list however deep, so that steps can name what comes
later; then each step is compiled, and what only the whole list shows is checked.
"""

import re
from collections.abc import Callable
from itertools import pairwise
from posixpath import normpath
from typing import Any, Final

import msgspec

from podium.core.flow import Way, way_on
from podium.core.graph import order
from podium.core.plans import walk
from podium.language.codes import Code
from podium.language.conditions import condition_of
from podium.language.diagnostics import quoted
from podium.language.grammar import ACTIONS, BESIDE, RECORDS
from podium.language.kinds import Kinds
from podium.language.kinds import told as told_kinds
from podium.language.problems import Problems, suggestion
from podium.language.references import NAMESPACES, Names, Place, WorkflowNames
from podium.language.scopes import Declared, Scope, ScopeKind, steps_inside, waits_for
from podium.language.shapes import Checker
from podium.language.targets import handlers_of
from podium.language.tasks import (
    DEFAULT_TIMEOUT,
    TASKS,
    TaskContext,
    check_secrets,
    retry_of,
    task_body,
)
from podium.language.tree import Mapping, Node, Scalar, Sequence
from podium.language.values import (
    data_of,
    given,
    known_text,
    literal_of,
    lone_reference,
    scalar_at,
    texts_at,
    value_at,
)
from podium.model.plan import (
    MOST_NESTED,
    Block,
    Body,
    Call,
    Discipline,
    ForEach,
    Gate,
    Goto,
    Group,
    Join,
    Parallel,
    Seconds,
    Step,
    Target,
    While,
)

# What a name may not contain (D03): these are syntax in references and paths.
_NOT_IN_NAMES: Final = re.compile(r"""[.\[\]{}"|/#]|:-""")
# What the log keeps of a path, less room for numbers of iterations and visits.
_MOST_PATH: Final = 1024
# Names with a meaning; others may not begin with an underscore.
START: Final = "_start"
ERROR: Final = "_error"
_BODIES: Final[dict[str, ScopeKind]] = {
    "parallel": "branches",
    "for_each": "items",
    "while": "pass",
    "repeat_until": "pass",
    "steps": "group",
}
_DISCIPLINE: Final[dict[ScopeKind, Discipline]] = {
    "branches": "branch",
    "items": "branch",
    "group": "branch",
    "pass": "pass",
    "finally": "cleanup",
}
# A call compiles another file; who knows how is handed in.
CallBody = Callable[[Mapping, Names], Body]


class WorkflowContext(msgspec.Struct):
    """What all lists of one workflow share while they are read."""

    problems: Problems
    checker: Checker
    names: WorkflowNames
    tasks: TaskContext
    # What a list of the workflow itself does with an outcome that nothing handles.
    discipline: Discipline
    call: CallBody
    # Where each step stands, by its path.
    places: dict[str, tuple[int, int]] = msgspec.field(default_factory=dict)


class Written(msgspec.Struct):
    """What a step and those inside it leave in the workspace: files with fixed names, and edits of agents."""

    files: dict[str, Scalar] = msgspec.field(default_factory=dict)
    editors: list[Scalar] = msgspec.field(default_factory=list)


# What may be declared by a step that cannot be read: itself, and context keys.
_OF_A_STEP: Final = frozenset({"steps", "context"})


# --- declaring ------------------------------------------------------------------------------------


def declare(steps: Sequence, scope: Scope, context: WorkflowContext) -> None:
    """Declare the steps of a list, and of the lists inside them."""
    if scope.depth() > MOST_NESTED:
        context.problems.error(
            Code.STEPS_NESTED_TOO_DEEP,
            steps,
            f"steps are nested more than {MOST_NESTED} deep.",
            "Move the inner ones into a workflow of their own and `call` it.",
        )
        steps.items = []
        return
    if context.checker.is_damaged(steps):
        context.names.unclear |= _OF_A_STEP
    for item in steps.items:
        assert isinstance(item, Mapping)
        name = value_at(item, "name")
        if not isinstance(name, Scalar):
            # Reported as missing; what it declares is not known.
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


def _may_be_graph(scope: Scope, context: WorkflowContext) -> bool:
    if scope.kind != "branches":
        return True
    for step in scope.listed:
        if "depends_on" in step.node.entries:
            context.problems.at_key(
                Code.KEY_DOES_NOT_FIT,
                step.node,
                "depends_on",
                "the branches of 'parallel' all start at once, so none can wait for another.",
                "Write `steps:` instead of `parallel:`; what does not depend on each other runs at once there, too.",
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
            _check_variable(body, context.problems)
            if context.checker.has_lost(body, "as"):
                context.names.unclear.add("variables")
            inner.at_once = bool(scalar_at(body, "parallel", False))
        steps = value_at(body, "steps")
    step.body = inner
    if isinstance(steps, Sequence):
        declare(steps, inner, context)
    else:
        context.names.unclear |= _OF_A_STEP  # reported as missing


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
    """What the step does, by its keys; every other action it names as well is a problem."""
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
            "Begin with another character; only `_start` and `_error` in the workflow's own list have an underscore.",
        )
    elif len(text) > 200:
        problems.error(
            Code.INVALID_NAME,
            name,
            "the name is longer than 200 characters.",
            "Use a short one, and `description` for the rest.",
        )


def _add(step: Declared, scope: Scope, problems: Problems) -> None:
    """Make a step known by its id and its name, once each."""
    written = value_at(step.node, "id")
    if isinstance(written, Scalar) and step.scope is scope:
        _check_name(written, scope, problems)
    # In this order: of a step without an id of its own, the name is what is told.
    for key, place in {step.step_id: written, str(step.name.value): step.name}.items():
        other = scope.steps.get(key)
        if other is None:
            scope.steps[key] = step
        elif other is not step:
            at = place if isinstance(place, Scalar) else step.name
            line = problems.report.source.position(other.name.start).line
            problems.error(
                Code.DUPLICATE_NAME,
                at,
                f"there is another step {quoted(key)} in line {line}.",
                "Give each step of a list, and each branch in it, a name of its own.",
            )


def _needs(scope: Scope, context: WorkflowContext) -> list[list[int]]:
    """The graph: what each step depends on."""
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
        # What follows from a graph is not asked of one that is none.
        return [[] for _ in needs]
    return needs


def _meant_dependency(name: str, step: Declared) -> str:
    """What to depend on instead: the step of this list that the named one stands in, or one with a similar name."""
    # Not all steps are declared yet: only this list is searched.
    inner = dict(steps_inside(step.scope)).get(name)
    while inner is not None and inner.scope is not step.scope:
        inner = inner.scope.owner
    if inner is not None and inner is not step:
        return f"Depend on {quoted(inner.step_id)}, which it stands in."
    known = [other.step_id for other in step.scope.listed if other is not step]
    return suggestion(name, known, "steps", "Add a step of that name.")


# --- compiling ------------------------------------------------------------------------------------


def block_of(scope: Scope, path: str, context: WorkflowContext) -> tuple[Block, Written]:
    """The list as a part of the plan, and what its steps write."""
    discipline = _DISCIPLINE.get(scope.kind, context.discipline)
    if scope.needs is not None:
        _check_is_graph(scope, context.problems)
        discipline = "graph"
    steps: list[Step] = []
    written: list[Written] = []
    for declared in scope.listed:
        step, wrote = _step_of(declared, path, context)
        steps.append(step)
        written.append(wrote)
    if scope.needs is None and scope.kind != "branches":
        _check_ways(scope, steps, discipline, context)
    _check_written_at_once(scope, written, context.problems)
    return Block(discipline, tuple(steps)), _together(written)


def _step_of(declared: Declared, path: str, context: WorkflowContext) -> tuple[Step, Written]:
    node = declared.node
    names = Names(
        context.problems,
        context.names,
        declared.scope,
        declared,
        frozenset(texts_at(node, "secrets")),
        frozenset(texts_at(node, "env_allow")),
    )
    here = f"{path}/{declared.step_id}" if path else declared.step_id
    context.places[here] = (declared.name.start, declared.name.end)
    _check_keys(declared, context)
    if "secrets" in BESIDE.get(declared.action, ()):
        check_secrets(node, names)
    body, wrote = _body_of(declared, here, names, context)
    _check_path(declared, here, body, context.problems)
    when, labels = value_at(node, "when"), value_at(node, "labels")
    name = str(declared.name.value)
    retried = declared.action in DEFAULT_TIMEOUT
    retry = retry_of(value_at(node, "retry"))
    return (
        Step(
            declared.step_id,
            body,
            **given(
                name=name if name != declared.step_id else None,
                description=scalar_at(node, "description"),
                labels={key: str(value) for key, value in literal_of(labels).items()} if labels else None,
                when=condition_of(when, names) if when is not None else None,
                on=handlers_of(node, names),
                retry=retry if retry is not None or not retried else context.tasks.default_retry,
                timeout=_timeout(declared, context),
                allow_failure=scalar_at(node, "allow_failure"),
                max_visits=scalar_at(node, "max_visits"),
                idempotent=scalar_at(node, "idempotent"),
                on_doubt=scalar_at(node, "on_doubt"),
            ),
            depends_on=_depends_on(declared),
        ),
        wrote,
    )


def _check_path(step: Declared, path: str, body: Body, problems: Problems) -> None:
    """Events name a step by its path, with the numbers of iterations and visits in it; the log keeps 1,024 bytes."""
    inside = (
        max((len(inner.encode()) for inner, _ in walk(body.workflow)), default=0)
        if isinstance(body, Call)
        else 0
    )
    length = len(path.encode()) + inside + 20 * (path.count("/") + 1)
    if length > _MOST_PATH:
        problems.error(
            Code.INVALID_NAME,
            step.name,
            f"the names down to the step {quoted(step.step_id)} have {length} bytes together.",
            f"Use shorter names, or give the outer steps a short `id`; at most {_MOST_PATH} bytes are kept.",
        )


def _depends_on(step: Declared) -> tuple[str, ...]:
    needs = step.scope.needs
    return tuple(step.scope.listed[index].step_id for index in needs[step.index]) if needs is not None else ()


def _timeout(step: Declared, context: WorkflowContext) -> Seconds | None:
    """The shortest of those written for it, else the default of its kind."""
    written = [scalar_at(step.node, "timeout")]
    for holder in (step.node, value_at(step.node, "for_each"), value_at(step.node, "approval")):
        if isinstance(holder, Mapping):
            join = value_at(holder, "join")
            if isinstance(join, Mapping):
                written.append(scalar_at(join, "timeout"))
            if step.action == "approval":
                written.append(scalar_at(holder, "timeout"))
    given_ones = [seconds for seconds in written if seconds is not None]
    if given_ones:
        shortest: Seconds = min(given_ones)
        return shortest
    if step.action in DEFAULT_TIMEOUT and context.tasks.default_timeout is not None:
        return context.tasks.default_timeout
    return DEFAULT_TIMEOUT.get(step.action)


def _check_keys(step: Declared, context: WorkflowContext) -> None:
    """Keys that do not go with what the step does, and steps that do nothing."""
    node, problems = step.node, context.problems
    if step.action == "unclear" or len({ACTIONS[key] for key in node.entries if key in ACTIONS}) > 1:
        return  # what it does has to be mended first
    if step.action == "gate" and "when" not in node.entries:
        _tell_no_action(step, problems)
        return
    fitting = BESIDE[step.action]
    for key, entry in node.entries.items():
        if key not in fitting:
            problems.error(
                Code.KEY_DOES_NOT_FIT,
                entry.key,
                f"{quoted(key)} means nothing for {_told_action(step.action)}.",
                _where_it_fits(key, step.action),
            )


def _tell_no_action(step: Declared, problems: Problems) -> None:
    if "provider" in step.node.entries:
        problems.at_key(
            Code.NO_ACTION,
            step.node,
            "provider",
            "a provider without a prompt does nothing.",
            "Add `prompt:` or `prompt_file:`.",
        )
    else:
        problems.error(
            Code.NO_ACTION,
            step.name,
            f"the step {quoted(step.step_id)} does nothing.",
            f"Add one of: {', '.join(ACTIONS)}; or `when:` to make it a gate.",
        )


def _told_action(action: str) -> str:
    match action:
        case "gate":
            return "a step without an action"
        case "agent":
            return "an agent step"
        case "steps":
            return "a group of steps"
        case _:
            return f"a step with '{action}'"


def _where_it_fits(key: str, action: str) -> str:
    if action in RECORDS and key in RECORDS[action].fields:
        return f"Move it into {quoted(action)}."
    actions = ["prompt" if other == "agent" else other for other, keys in BESIDE.items() if key in keys]
    return f"Remove it; it goes with: {', '.join(actions)}."


# --- bodies ---------------------------------------------------------------------------------------


def _body_of(declared: Declared, path: str, names: Names, context: WorkflowContext) -> tuple[Body, Written]:
    node, action = declared.node, declared.action
    if action == "unclear":
        return Gate(), Written()
    if action in TASKS:
        body = task_body(action, node, names, context.tasks)
        return body, _written_by(declared, body)
    if action == "call":
        return context.call(node, names), Written()
    assert declared.body is not None
    block, written = block_of(declared.body, path, context)
    match action:
        case "parallel":
            return (
                Parallel(
                    block,
                    **given(join=_join_of(node, context), max_workers=scalar_at(node, "max_workers")),
                ),
                written,
            )
        case "for_each":
            return _for_each(declared, block, names, context), written
        case "steps":
            return Group(block), written
        case _:
            return _loop(declared, block, context), written


def _for_each(step: Declared, block: Block, names: Names, context: WorkflowContext) -> Body:
    node = step.node.entries["for_each"].value
    assert isinstance(node, Mapping)
    return ForEach(
        _items(node, names),
        block,
        **given(
            variable=scalar_at(node, "as"),
            parallel=scalar_at(node, "parallel"),
            max_workers=scalar_at(node, "max_workers"),
            max_iterations=scalar_at(node, "max_iterations"),
            join=_join_of(step.node, context, node),
        ),
    )


def _items(node: Mapping, names: Names) -> Any:
    items = value_at(node, "items")
    if items is None:
        return None
    if isinstance(items, Scalar):
        return _named_list(items, names)
    most = scalar_at(node, "max_iterations")
    if isinstance(items, Sequence) and most is not None and len(items.items) > most:
        names.problems.error(
            Code.TOO_MANY_ITEMS,
            node.entries["items"].key,
            f"there are {len(items.items)} items, more than 'max_iterations', which is {most}.",
            "Raise `max_iterations`, or write fewer items.",
        )
    return data_of(items, names, Place.STORED)


def _named_list(node: Scalar, names: Names) -> Any:
    """A list is never made of a text: one reference, which has to be a list when the time comes."""
    text, kinds = known_text(node, names, Place.STORED)
    reference = lone_reference(text)
    if reference is not None and reference.spread:
        names.problems.error(
            Code.INVALID_TEMPLATE,
            node,
            "a list cannot be spread here.",
            "Leave out '[*]': the list itself is meant.",
        )
    elif Kinds.LIST not in kinds:
        names.problems.error(
            Code.WRONG_KIND,
            node,
            f"'items' is {told_kinds(kinds & ~Kinds.NULL)}, not a list.",
            "Write a list, or one ${...} that names one, like ${steps.X.lines} of a step with `capture: lines`.",
        )
    return reference


def _loop(step: Declared, block: Block, context: WorkflowContext) -> Body:
    node = step.node.entries[step.action].value
    assert isinstance(node, Mapping)
    assert step.body is not None
    condition = value_at(node, "condition")
    # Asked where the passes are: their steps can be named.
    names = Names(context.problems, context.names, step.body)
    return While(
        condition_of(condition, names) if condition is not None else False,
        block,
        until=step.action == "repeat_until",
        **given(
            max_iterations=scalar_at(node, "max_iterations"),
            max_duration=scalar_at(node, "max_duration"),
            check_interval=scalar_at(node, "check_interval"),
        ),
    )


def _join_of(step: Mapping, context: WorkflowContext, loop: Mapping | None = None) -> Join | None:
    beside = value_at(step, "join")
    inside = value_at(loop, "join") if loop is not None else None
    if beside is not None and inside is not None:
        context.problems.error(
            Code.CONFLICTING_KEYS,
            inside,
            "'join' stands beside 'for_each' and in it.",
            "Keep the one beside `for_each`.",
        )
    node = beside if beside is not None else inside
    if not isinstance(node, Mapping):
        return None
    fail_fast, wait_for = scalar_at(node, "fail_fast"), scalar_at(node, "wait_for", "all")
    if fail_fast and wait_for != "all":
        context.problems.at_key(
            Code.CONFLICTING_KEYS,
            node,
            "fail_fast",
            f"'fail_fast' is for `wait_for: all`; '{wait_for}' is decided as soon as it is certain anyway.",
            "Remove 'fail_fast'.",
        )
    join = Join(**given(wait_for=wait_for, fail_fast=fail_fast, rest=scalar_at(node, "rest")))
    return join if join != Join() else None


# --- checks on whole lists ------------------------------------------------------------------------


def _check_is_graph(scope: Scope, problems: Problems) -> None:
    for step in scope.listed:
        if step.step_id in (START, ERROR):
            problems.error(
                Code.FLOW_AND_GRAPH,
                step.name,
                f"{quoted(step.step_id)} means nothing in a list with `depends_on`.",
                "Use an ordinary name, and `finally:` for what is done on every way out; the dependencies say where "
                "the list begins.",
            )


def _check_ways(scope: Scope, steps: list[Step], discipline: Discipline, context: WorkflowContext) -> None:
    """Warn about steps that nothing leads to, and about outcomes that end a run by surprise."""
    problems = context.problems
    reached = _reached(scope, steps, discipline)
    # A target that could not be read may have been meant to lead anywhere.
    tell = len(reached) == len(steps) or _targets_are_known(scope, steps, context.checker)
    for step, declared in zip(steps, scope.listed, strict=True):
        if step.step_id == ERROR and scope.kind == "workflow":
            continue
        if declared.index not in reached:
            if tell:
                problems.warning(
                    Code.UNREACHABLE_STEP,
                    declared.name,
                    f"nothing leads to the step {quoted(step.step_id)}.",
                    "Go to it from another step's `on`, or remove it.",
                )
        elif discipline == "strict" and step.on is None and not context.checker.is_damaged(declared.node):
            problems.warning(
                Code.NO_HANDLER,
                declared.name,
                f"the step {quoted(step.step_id)} has no `on`: with `strict_flow: true` the run ends there (code 4).",
                "Add `on:` with `success:` and `failure:`.",
            )


def _targets_are_known(scope: Scope, steps: list[Step], checker: Checker) -> bool:
    """Whether every `on` of the list, and of the lists inside, says where it leads."""
    for declared, step in zip(scope.listed, steps, strict=True):
        on = value_at(declared.node, "on")
        if checker.is_damaged(declared.node) and (on is None or declared.action == "unclear"):
            return False
        if isinstance(on, Mapping) and (checker.is_damaged(on) or len(_targets_of(step)) < len(on.entries)):
            return False
        block = getattr(step.body, "block", None)
        if (
            declared.body is not None
            and isinstance(block, Block)
            and not _targets_are_known(declared.body, list(block.steps), checker)
        ):
            return False
    return True


def _reached(scope: Scope, steps: list[Step], discipline: Discipline) -> set[int]:
    """The steps that some outcome leads to, from where the list is entered."""
    index = {step.step_id: number for number, step in enumerate(steps)}
    ordered = [
        number for number, step in enumerate(steps) if step.step_id != ERROR or scope.kind != "workflow"
    ]
    following = dict(pairwise(ordered))
    first = index.get(START, ordered[0] if ordered else 0) if scope.kind == "workflow" else 0
    entries = [first] if steps else []
    if ERROR in index and scope.kind == "workflow":
        entries.append(index[ERROR])
    # What stands inside a step may go to a step of this list.
    reached: set[int] = set()
    while entries:
        at = entries.pop()
        if at in reached:
            continue
        reached.add(at)
        step = steps[at]
        targets = [_way(discipline, step, event) for event in ("success", "failure", "timeout", "skipped")]
        for target in [*targets, *_targets_inside(step.body)]:
            if target is Way.NEXT and at in following:
                entries.append(following[at])
            elif isinstance(target, Goto) and target.step in index:
                entries.append(index[target.step])
    return reached


def _way(discipline: Discipline, step: Step, event: Any) -> Target | Way:
    return way_on(discipline, step.on, "success" if step.allow_failure and event != "skipped" else event)


def _targets_inside(body: Body) -> list[Target]:
    block = getattr(body, "block", None)
    if not isinstance(block, Block):
        return []
    found: list[Target] = []
    for step in block.steps:
        found += _targets_of(step) + _targets_inside(step.body)
    return found


def _targets_of(step: Step) -> list[Target]:
    on = step.on
    handlers = (on.success, on.failure, on.timeout, on.skipped) if on is not None else ()
    return [target for target in handlers if target is not None]


# --- what is written at the same time -------------------------------------------------------------


def _written_by(step: Declared, body: Body) -> Written:
    output = value_at(step.node, "output_file")
    written = Written()
    if isinstance(output, Scalar) and isinstance(output.value, str) and "${" not in output.value:
        # ./report.txt is report.txt.
        written.files[normpath(output.value)] = output
    if (
        step.action == "agent"
        and getattr(body, "access", "") != "read"
        and getattr(body, "workspace", "") == "shared"
    ):
        written.editors.append(step.name)
    return written


def _together(parts: list[Written]) -> Written:
    whole = Written()
    for part in parts:
        whole.files.update(part.files)
        whole.editors += part.editors
    return whole


def _check_written_at_once(scope: Scope, written: list[Written], problems: Problems) -> None:
    if scope.kind == "items" and scope.at_once:
        for part in written:
            for path, scalar in part.files.items():
                _tell_same_file(
                    path, scalar, "every item writes it, and items are taken at the same time", problems
                )
            # Told once, not again for each loop around.
            part.files.clear()
            for editor in part.editors:
                problems.warning(
                    Code.SHARED_WORKSPACE,
                    editor,
                    "this agent may edit the same files for several items at the same time.",
                    "Give it `workspace: worktree`, or `access: read`.",
                )
            part.editors.clear()
        return
    if scope.kind != "branches" and scope.needs is None:
        return
    seen: dict[str, int] = {}
    last_editor: int | None = None
    for number, part in enumerate(written):
        for path, scalar in part.files.items():
            other = seen.setdefault(path, number)
            if other != number and _at_once(scope, other, number):
                name = scope.listed[other].step_id
                _tell_same_file(
                    path, scalar, f"{quoted(name)} writes it and may run at the same time", problems
                )
        if part.editors:
            if last_editor is not None and _at_once(scope, last_editor, number):
                other_editor = quoted(scope.listed[last_editor].step_id)
                problems.warning(
                    Code.SHARED_WORKSPACE,
                    part.editors[0],
                    f"this agent may edit the same files at the same time as {other_editor}.",
                    "Give each `workspace: worktree`, or `access: read`.",
                )
            last_editor = number


def _tell_same_file(path: str, scalar: Scalar, why: str, problems: Problems) -> None:
    problems.error(
        Code.SAME_OUTPUT_FILE,
        scalar,
        f"the file {quoted(path)} is written twice: {why}.",
        f"Give each its own name{', like a-${loop.index}.txt' if 'item' in why else ''}.",
    )


def _at_once(scope: Scope, one: int, other: int) -> bool:
    if scope.needs is None:
        return True
    return not (waits_for(scope.needs, one, other) or waits_for(scope.needs, other, one))
