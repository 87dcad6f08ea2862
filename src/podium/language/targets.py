"""`on`: where the run continues after a step, and whether that step can be reached from here."""

from typing import Final

from podium.language.codes import Code
from podium.language.problems import suggestion
from podium.language.references import Names, Place
from podium.language.scopes import Declared, NotVisible, Scope, find_step, is_meant
from podium.language.tree import Mapping, Node, Scalar
from podium.language.values import text_of
from podium.plan.plan import Break, Continue, End, Error, ErrorStep, Goto, Handlers, Target
from podium.text import quoted

_RESERVED: Final[dict[str, Target]] = {
    "_end": End(),
    "_error": ErrorStep(),
    "_loop_break": Break(),
    "_loop_continue": Continue(),
}
_WITHOUT_LOOP: Final = ("_end", "_error")


def handlers_of(step: Mapping, names: Names) -> Handlers | None:
    """The step's `on` block, with the `on_timeout` of its join."""
    on = step.entries.get("on")
    targets: dict[str, Target] = {}
    if on is not None:
        assert isinstance(on.value, Mapping)
        for event, entry in on.value.entries.items():
            target = _target_of(entry.value, names)
            if target is not None:
                targets[event] = target
    on_timeout = _on_timeout(step)
    if on_timeout is not None:
        if on is not None and isinstance(on.value, Mapping) and "timeout" in on.value.entries:
            names.problems.error(
                Code.CONFLICTING_KEYS,
                on_timeout,
                "'join.on_timeout' and 'on.timeout' say the same thing twice.",
                "Keep `on.timeout`.",
            )
        elif (target := _target_of(on_timeout, names)) is not None:
            targets["timeout"] = target
    if on is None and not targets:
        return None
    return Handlers(**targets)


def _on_timeout(step: Mapping) -> Node | None:
    for place in (step, _mapping_at(step, "for_each")):
        join = _mapping_at(place, "join") if place is not None else None
        if join is not None and "on_timeout" in join.entries:
            return join.entries["on_timeout"].value
    return None


def _mapping_at(node: Mapping, key: str) -> Mapping | None:
    entry = node.entries.get(key)
    return entry.value if entry is not None and isinstance(entry.value, Mapping) else None


def _target_of(node: Node, names: Names) -> Target | None:
    assert isinstance(node, Mapping)
    if not node.entries:
        return None
    key, entry = next(iter(node.entries.items()))
    match key:
        case "end":
            return End()
        case "error":
            return Error(text_of(entry.value, names, Place.STORED))
        case _:
            assert isinstance(entry.value, Scalar)
            return _goto(entry.value, names)


def _goto(node: Scalar, names: Names) -> Target | None:
    name = str(node.value)
    if "${" in name:
        names.problems.error(
            Code.INVALID_FORMAT,
            node,
            "the target of a `goto` must be known when the workflow is read.",
            "Write the name of a step; choose between steps with gates: steps that have only `when` and `on`.",
        )
        return None
    reserved = _RESERVED.get(name)
    if names.scope.needs is not None and not isinstance(reserved, End | ErrorStep):
        _report_graph(name, node, names)
        return None
    if isinstance(reserved, Break | Continue) and names.scope.innermost_loop() is None:
        names.problems.error(
            Code.OUTSIDE_LOOP,
            node,
            f"{quoted(name)} is outside of any loop.",
            "Write `end: true`, or the name of a step.",
        )
        return None
    if isinstance(reserved, Break | Continue) and (block := _left_concurrently(names.scope)) is not None:
        names.problems.error(
            Code.TARGET_OUT_OF_REACH,
            node,
            f"{quoted(name)} leads out of {quoted(block)}, whose branches run in parallel.",
            "Let this part end, and leave the loop from the `on` of the block.",
        )
        return None
    if reserved is not None:
        return reserved
    return _goto_step(name, node, names)


def _name_of(step: Declared | None) -> str:
    return step.step_id if step is not None else "another list"


def _left_concurrently(scope: Scope) -> str | None:
    """The step between a list and the loop around it whose parts run concurrently."""
    for around in scope.outwards():
        if around.is_loop:
            return None
        if around.owner is not None and (around.kind == "branches" or around.needs is not None):
            return around.owner.step_id
    return None


def _runs_concurrently(scope: Scope) -> bool:
    return scope.kind == "branches" or scope.concurrently or scope.needs is not None


def _report_graph(name: str, node: Scalar, names: Names) -> None:
    names.problems.error(
        Code.FLOW_AND_GRAPH,
        node,
        f"one cannot go to {quoted(name)}: the steps of this list follow from `depends_on`.",
        "Use only `end: true` or `error:` here, and add the step to `depends_on` of the one that follows.",
    )


def _goto_step(name: str, node: Scalar, names: Names) -> Target | None:
    """A step of this list, or of one around it that can be left."""
    left: list[Scope] = []
    for scope in names.scope.outwards():
        found = scope.steps.get(name)
        if found is not None and found.scope is scope:
            if any(around.kind == "finally" for around in left):
                names.problems.error(
                    Code.TARGET_OUT_OF_REACH,
                    node,
                    f"{quoted(name)} has ended when `finally` runs.",
                    "Go only to steps of `finally` from here.",
                )
                return None
            blocking = next((around for around in left if _runs_concurrently(around)), None)
            if blocking is not None and blocking.owner is not None:
                names.problems.error(
                    Code.TARGET_OUT_OF_REACH,
                    node,
                    f"{quoted(name)} is outside of {quoted(blocking.owner.step_id)}, whose branches run in parallel.",
                    f"Let this part end, and go there from the `on` of {quoted(blocking.owner.step_id)}.",
                )
                return None
            if scope.needs is not None:
                _report_graph(name, node, names)
                return None
            if scope.kind == "branches":
                names.problems.error(
                    Code.TARGET_OUT_OF_REACH,
                    node,
                    f"{quoted(name)} is another branch.",
                    "Put steps that follow each other into one branch with `steps:`; branches run at the same time.",
                )
                return None
            if not is_meant(found, names.scope):
                names.problems.error(
                    Code.TARGET_OUT_OF_REACH,
                    node,
                    f"{quoted(name)} has the id {quoted(found.step_id)}, which means another step here.",
                    "Give one of the two another `id`.",
                )
                return None
            return Goto(found.step_id)
        if found is not None and found.branch_of is not None:
            break
        left.append(scope)
    inside = find_step(name, names.scope, None)
    if inside is not None:
        step = inside.step if isinstance(inside, NotVisible) else inside
        owner = outermost = step.scope.owner
        around = list(names.scope.outwards())
        while outermost is not None and outermost.scope not in around:
            outermost = outermost.scope.owner
        names.problems.error(
            Code.TARGET_OUT_OF_REACH,
            node,
            f"{quoted(name)} is inside {quoted(_name_of(owner))}; one cannot go into it.",
            f"Go to {quoted(_name_of(outermost))} instead.",
        )
        return None
    if names.problems.is_enough():
        return None
    in_loop = names.scope.innermost_loop() is not None
    known = [step.step_id for scope in names.scope.outwards() for step in scope.listed]
    if names.workflow.may_declare("steps", name, known):
        return None
    names.problems.error(
        Code.UNKNOWN_TARGET,
        node,
        f"step {quoted(name)} does not exist.",
        suggestion(name, [*known, *(_RESERVED if in_loop else _WITHOUT_LOOP)], "targets"),
    )
    return None
