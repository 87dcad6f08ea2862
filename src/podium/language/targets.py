"""`on`: where it goes on, and whether one can get there from here."""

from typing import Final

from podium.language.codes import Code
from podium.language.diagnostics import quoted
from podium.language.problems import suggestion
from podium.language.references import Names, Place
from podium.language.scopes import NotVisible, Scope, find_step
from podium.language.tree import Mapping, Node, Scalar
from podium.language.values import text_of
from podium.model.plan import Break, Continue, End, Error, ErrorStep, Goto, Handlers, Target

_RESERVED: Final[dict[str, Target]] = {
    "_end": End(),
    "_error": ErrorStep(),
    "_loop_break": Break(),
    "_loop_continue": Continue(),
}


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
    reserved = _RESERVED.get(name)
    if names.scope.needs is not None and not isinstance(reserved, End | ErrorStep):
        names.problems.error(
            Code.FLOW_AND_GRAPH,
            node,
            "in a list with `depends_on` nothing is gone to.",
            "Use only `end: true` and `error:` here; the dependencies say what follows.",
        )
        return None
    if isinstance(reserved, Break | Continue) and names.scope.innermost_loop() is None:
        names.problems.error(
            Code.OUTSIDE_LOOP,
            node,
            f"{quoted(name)} stands outside of any loop.",
            "Use `end: true`, or name a step.",
        )
        return None
    if reserved is not None:
        return reserved
    return _goto_step(name, node, names)


def _goto_step(name: str, node: Scalar, names: Names) -> Target | None:
    """A step of this list, or of one around it that can be left."""
    left: list[Scope] = []
    for scope in names.scope.outwards():
        found = scope.steps.get(name)
        if found is not None and found.scope is scope:
            blocking = next((around for around in left if around.kind == "branches" or around.at_once), None)
            if blocking is not None and blocking.owner is not None:
                names.problems.error(
                    Code.TARGET_OUT_OF_REACH,
                    node,
                    f"{quoted(name)} stands outside of {quoted(blocking.owner.step_id)}, whose parts run at once.",
                    "Let this part end, and go there from the `on` of the block.",
                )
                return None
            if scope.kind == "branches":
                names.problems.error(
                    Code.TARGET_OUT_OF_REACH,
                    node,
                    f"{quoted(name)} is another branch.",
                    "Branches run at the same time; put steps that follow each other into one branch with `steps:`.",
                )
                return None
            return Goto(found.step_id)
        if found is not None and found.branch_of is not None:
            break
        left.append(scope)
    inside = find_step(name, names.scope, None)
    if inside is not None:
        step = inside.step if isinstance(inside, NotVisible) else inside
        owner = quoted(step.scope.owner.step_id if step.scope.owner is not None else "")
        names.problems.error(
            Code.TARGET_OUT_OF_REACH,
            node,
            f"{quoted(name)} stands inside {owner}; one cannot go into it.",
            f"Go to {owner} instead.",
        )
        return None
    known = [step.step_id for scope in names.scope.outwards() for step in scope.listed]
    names.problems.error(
        Code.UNKNOWN_TARGET,
        node,
        f"there is no step {quoted(name)} to go to.",
        suggestion(name, [*known, *_RESERVED], "targets"),
    )
    return None
