"""Lists of steps, and the steps that contain lists: loops, branches, groups, calls.

A list is read twice: first all names are declared (`declaring.py`); then, here, each step is compiled, and
everything that concerns the whole list is checked.
"""

from itertools import pairwise
from typing import Any, Final

from podium.language.codes import Code
from podium.language.conditions import condition_of
from podium.language.declaring import ERROR, START, WorkflowContext
from podium.language.defaults import fill_in
from podium.language.grammar import ACTIONS, BESIDE, RECORDS
from podium.language.kinds import Kinds
from podium.language.kinds import type_name as describe_kinds
from podium.language.problems import Problems
from podium.language.references import Names, Place
from podium.language.scopes import Declared, Scope, ScopeKind
from podium.language.shapes import Checker
from podium.language.targets import handlers_of
from podium.language.tasks import (
    DEFAULT_TIMEOUT,
    TASKS,
    budget_of,
    check_secrets,
    retry_of,
    task_body,
)
from podium.language.tree import Mapping, Scalar, Sequence
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
from podium.language.write_conflicts import Written, check_write_conflicts, together, written_by
from podium.machine.flow import Way, way_on
from podium.plan.loading import FINALLY, walk
from podium.plan.plan import (
    Block,
    Body,
    Call,
    Discipline,
    ForEach,
    Gate,
    Goto,
    Group,
    Join,
    Notification,
    Parallel,
    Seconds,
    Step,
    Target,
    While,
)
from podium.text import quoted

# The log's limit for a path, minus room for the numbers of iterations and visits.
_MAX_PATH: Final = 1024
_DISCIPLINE: Final[dict[ScopeKind, Discipline]] = {
    "branches": "branch",
    "items": "branch",
    "group": "branch",
    "pass": "pass",
    "finally": "cleanup",
}

# --- compiling ------------------------------------------------------------------------------------


def block_of(scope: Scope, path: str, context: WorkflowContext) -> tuple[Block, Written]:
    """The list as a part of the plan, and the files that its steps write."""
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
    check_write_conflicts(scope, written, context.problems)
    return Block(discipline, tuple(steps)), together(written)


def _step_of(declared: Declared, path: str, context: WorkflowContext) -> tuple[Step, Written]:
    node = declared.node
    if context.tasks.step_defaults:
        fill_in(declared, context.tasks.step_defaults, context.checker)
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
    if context.names.secret_inputs:
        # Loaded with the first workflow that has any: few have.
        from podium.language.secret_inputs import with_secret_inputs

        body = with_secret_inputs(body, context.names.secret_inputs)
    _check_path(declared, here, body, context.problems)
    _check_repeated(declared, here, context.problems)
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
            notify=notify_of(node, names),
        ),
        wrote,
    )


def notify_of(node: Mapping, names: Names) -> tuple[Notification, ...]:
    if "notify" not in node.entries:
        return ()
    # Imported with the first one: few files have any.
    from podium.language.notifications import notifications_of

    return notifications_of(node, names)


def _check_repeated(step: Declared, path: str, problems: Problems) -> None:
    """`_error` and `finally` belong to one end of the run; a resumed run ends again."""
    where = path.split("/", 1)[0]
    flag = value_at(step.node, "idempotent")
    if flag is None or where not in (ERROR, FINALLY) or scalar_at(step.node, "idempotent") is not False:
        return
    problems.warning(
        Code.REPEATED_AT_EVERY_END,
        flag,
        f"{quoted(step.step_id)} may run again after `podium resume`, also if it completed: `_error` and `finally` "
        "belong to one end of the run, and a resumed run has another.",
        f"Make it repeatable, or move it out of {'`finally`' if where == FINALLY else '`_error`'}.",
    )


def _check_path(step: Declared, path: str, body: Body, problems: Problems) -> None:
    """Events name a step by its path, which includes the numbers of iterations and visits; the log allows
    1,024 bytes.
    """
    inside = (
        max((len(inner.encode()) for inner, _ in walk(body.workflow)), default=0)
        if isinstance(body, Call)
        else 0
    )
    length = len(path.encode()) + inside + 20 * (path.count("/") + 1)
    if length > _MAX_PATH:
        problems.error(
            Code.INVALID_NAME,
            step.name,
            f"the names down to the step {quoted(step.step_id)} have {length} bytes together.",
            f"Use shorter names, or give the outer steps a short `id`; at most {_MAX_PATH} bytes are kept.",
        )


def _depends_on(step: Declared) -> tuple[str, ...]:
    needs = step.scope.needs
    return tuple(step.scope.listed[index].step_id for index in needs[step.index]) if needs is not None else ()


def _timeout(step: Declared, context: WorkflowContext) -> Seconds | None:
    """The shortest timeout written for the step, else the default for its kind."""
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
    """Report keys that do not apply to what the step does, and steps that do nothing."""
    node, problems = step.node, context.problems
    if step.action == "unclear" or len({ACTIONS[key] for key in node.entries if key in ACTIONS}) > 1:
        return  # what it does has to be fixed first
    if step.action == "gate" and "when" not in node.entries:
        _report_no_action(step, problems)
        return
    fitting = BESIDE[step.action]
    for key, entry in node.entries.items():
        if key not in fitting:
            problems.error(
                Code.KEY_DOES_NOT_FIT,
                entry.key,
                f"{quoted(key)} means nothing for {_describe_action(step)}.",
                _where_it_fits(key, step.action),
            )


def _report_no_action(step: Declared, problems: Problems) -> None:
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


def _describe_action(step: Declared) -> str:
    match step.action:
        case "gate":
            return "a step without an action"
        case "agent":
            return "an agent step"
        case "steps":
            return "a group of steps"
        case "command" if "shell" in step.node.entries:
            return "a step with 'shell'"
        case action:
            return f"a step with '{action}'"


def _where_it_fits(key: str, action: str) -> str:
    if action in RECORDS and key in RECORDS[action].fields:
        return f"Move it into {quoted(action)}."
    written = {"agent": "prompt", "command": "command, shell"}
    actions = [written.get(other, other) for other, keys in BESIDE.items() if key in keys]
    return f"Remove it; it goes with: {', '.join(actions)}."


# --- bodies ---------------------------------------------------------------------------------------


def _body_of(declared: Declared, path: str, names: Names, context: WorkflowContext) -> tuple[Body, Written]:
    node, action = declared.node, declared.action
    if action == "unclear":
        return Gate(), Written()
    if action in TASKS:
        body = task_body(action, node, names, context.tasks)
        return body, written_by(declared, body)
    if action == "call":
        return context.call(node, names), Written()
    assert declared.body is not None
    block, written = block_of(declared.body, path, context)
    match action:
        case "parallel":
            return (
                Parallel(
                    block,
                    **given(
                        join=_join_of(node, context),
                        max_workers=scalar_at(node, "max_workers"),
                        budget=budget_of(node, context.problems),
                    ),
                ),
                written,
            )
        case "for_each":
            return _for_each(declared, block, names, context), written
        case "steps":
            return Group(block, budget_of(node, context.problems)), written
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
            budget=budget_of(step.node, context.problems),
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
    """A list is never built from a text: it is a single reference, whose value has to be a list at run time."""
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
            f"'items' is {describe_kinds(kinds & ~Kinds.NULL)}, not a list.",
            "Write a list, or one ${...} that names one, like ${steps.X.lines} of a step with `capture: lines`.",
        )
    return reference


def _loop(step: Declared, block: Block, context: WorkflowContext) -> Body:
    node = step.node.entries[step.action].value
    assert isinstance(node, Mapping)
    assert step.body is not None
    condition = value_at(node, "condition")
    # Evaluated inside the passes, so their steps can be named.
    names = Names(context.problems, context.names, step.body)
    return While(
        condition_of(condition, names) if condition is not None else False,
        block,
        until=step.action == "repeat_until",
        **given(
            max_iterations=scalar_at(node, "max_iterations"),
            max_duration=scalar_at(node, "max_duration"),
            check_interval=scalar_at(node, "check_interval"),
            budget=budget_of(step.node, context.problems),
        ),
    )


def _join_of(step: Mapping, context: WorkflowContext, loop: Mapping | None = None) -> Join | None:
    beside = value_at(step, "join")
    inside = value_at(loop, "join") if loop is not None else None
    if beside is not None and inside is not None:
        context.problems.error(
            Code.CONFLICTING_KEYS,
            inside,
            "'join' is given both beside 'for_each' and in it.",
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
                "Use an ordinary name, and `finally:` for what is done on every way out; the dependencies decide where "
                "the list starts.",
            )


def _check_ways(scope: Scope, steps: list[Step], discipline: Discipline, context: WorkflowContext) -> None:
    """Warn about unreachable steps, and about outcomes that end a run unexpectedly."""
    problems = context.problems
    reached = _reached(scope, steps, discipline)
    if scope.kind == "workflow":
        _check_start(scope, steps, reached, discipline, problems)
    # An invalid target may have been meant to lead anywhere.
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
    """Whether every `on` of the list, and of the lists inside it, has a valid target."""
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
    """The steps that can be reached from where the list is entered."""
    index = {step.step_id: number for number, step in enumerate(steps)}
    ordered = [
        number for number, step in enumerate(steps) if step.step_id != ERROR or scope.kind != "workflow"
    ]
    first = index.get(START, ordered[0] if ordered else 0) if scope.kind == "workflow" else 0
    following = _following(ordered, first)
    entries = [first] if steps else []
    if ERROR in index and scope.kind == "workflow":
        entries.append(index[ERROR])
    # Steps inside a step may go to a step of this list.
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


def _following(ordered: list[int], entry: int) -> dict[int, int]:
    """The step that each step falls through to; the entry is skipped."""
    following = dict(pairwise(ordered))
    return {
        at: following[after] if after == entry else after
        for at, after in following.items()
        if after != entry or after in following
    }


def _check_start(
    scope: Scope, steps: list[Step], reached: set[int], discipline: Discipline, problems: Problems
) -> None:
    """Warn if the list reads as if a step continued with `_start`."""
    listed = [number for number, step in enumerate(steps) if step.step_id != ERROR]
    for before, at in pairwise(listed):
        if steps[at].step_id != START or before not in reached:
            continue
        if any(_way(discipline, steps[before], event) is Way.NEXT for event in ("success", "failure")):
            after = _following(listed, at).get(before)
            instead = (
                f"{quoted(steps[after].step_id)} follows" if after is not None else "the list ends there"
            )
            problems.warning(
                Code.START_PASSED_OVER,
                scope.listed[at].name,
                f"{quoted(steps[before].step_id)} does not continue with '_start', which is only the entry and a "
                f"target of `goto`: {instead}.",
                f"Write '_start' first, or add `on: {{success: {{goto: _start}}}}` to {quoted(steps[before].step_id)}.",
            )


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
