"""Which steps can be named from where.

A list of steps is a scope, and a loop, a branch or a group is a scope inside it. A step can refer to the
steps of its own list and of the lists around it, never to those inside another step. Where steps run
concurrently (branches, graphs) it can only refer to those that have certainly ended before: otherwise the
value would depend on the order of events.
"""

from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from podium.language.tree import Mapping, Scalar

ScopeKind: TypeAlias = Literal["workflow", "finally", "branches", "items", "pass", "group"]

# The kind of a step, by what it does; `language/grammar.py` maps keys to kinds.
Action: TypeAlias = str


class Declared(msgspec.Struct, eq=False):
    """A step that a file declares."""

    step_id: str
    name: Scalar
    node: Mapping
    action: Action
    index: int
    scope: "Scope"
    # The parallel step whose branch this is, if it was also declared in the list around that step.
    branch_of: "Declared | None" = None
    body: "Scope | None" = None


class Scope(msgspec.Struct, eq=False):
    """One list of steps."""

    kind: ScopeKind
    outer: "Scope | None" = None
    owner: Declared | None = None
    # The variable of the item; None for a loop with passes.
    variable: str | None = None
    # The keys of the item, if they are known.
    item_keys: frozenset[str] | None = None
    # Whether items run concurrently.
    concurrently: bool = False
    steps: dict[str, Declared] = msgspec.field(default_factory=dict)
    listed: list[Declared] = msgspec.field(default_factory=list)
    # For a graph: the dependencies of each step, by index; None for a flow.
    needs: list[list[int]] | None = None
    # Outermost list only: the steps in the lists inside, by name; computed on demand.
    _hidden: dict[str, Declared] | None = None

    @property
    def is_loop(self) -> bool:
        return self.kind in ("items", "pass")

    def outwards(self) -> Iterator["Scope"]:
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def innermost_loop(self) -> "Scope | None":
        return next((scope for scope in self.outwards() if scope.is_loop), None)

    def hidden(self) -> dict[str, Declared]:
        """The steps further inside, by name, for messages. Only valid once all of them are declared."""
        if self._hidden is None:
            self._hidden = dict(steps_inside(self))
        return self._hidden

    def depth(self) -> int:
        return sum(1 for _ in self.outwards())


class NotVisible(msgspec.Struct, frozen=True):
    """A step that exists but cannot be named from here, and why."""

    step: Declared
    reason: Literal["inside", "same time", "shadowed"]


def find_step(name: str, scope: Scope, asking: Declared | None) -> Declared | NotVisible | None:
    """The step that `name` refers to in `scope`, seen from the step `asking` (None: from after all of them)."""
    inner = asking
    for around in scope.outwards():
        found = around.steps.get(name)
        if found is not None:
            if inner is not None and not _has_ended_before(found, inner, around):
                return NotVisible(found, "same time")
            return found if is_meant(found, scope) else NotVisible(found, "shadowed")
        inner = around.owner
    outermost = list(scope.outwards())[-1]
    hidden = outermost.hidden().get(name)
    return NotVisible(hidden, "inside") if hidden is not None else None


def is_meant(found: Declared, scope: Scope) -> bool:
    """Whether the step's id, which is what a plan contains, refers to that step and not to one further
    inside.
    """
    nearest = next(
        (around.steps[found.step_id] for around in scope.outwards() if found.step_id in around.steps), found
    )
    return nearest is found


def _has_ended_before(found: Declared, asking: Declared, scope: Scope) -> bool:
    """Whether what `asking` can read of `found` is independent of the order of events."""
    if found.branch_of is not None and scope is not found.scope:
        # Declared here on behalf of a parallel step: visible to the steps after that, but not to its other
        # branches.
        if found.branch_of is asking:
            return False
        found = found.branch_of
    if scope.kind == "branches":
        return False
    if scope.needs is None:
        return True
    return waits_for(scope.needs, asking.index, found.index)


def waits_for(needs: list[list[int]], step: int, wanted: int) -> bool:
    """Whether `step` starts only after `wanted` has ended, directly or indirectly."""
    if wanted in needs[step]:
        return True
    seen, pending = {step}, list(needs[step])
    while pending:
        at = pending.pop()
        if at == wanted:
            return True
        if at not in seen:
            seen.add(at)
            pending.extend(needs[at])
    return False


def steps_inside(scope: Scope) -> Iterator[tuple[str, Declared]]:
    """The steps of the lists inside a list, by name; of two with the same name, the first one comes last."""
    for step in reversed(scope.listed):
        if step.body is not None:
            yield from steps_inside(step.body)
            yield from step.body.steps.items()
