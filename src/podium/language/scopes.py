"""Which steps can be named from where.

A list of steps is a scope, and what is inside a loop, a branch or a group is a scope inside it. From a step one can
name the steps of its own list and of the lists around it, never those inside another. Where steps run at the same
time (branches, graphs) only what has certainly ended before can be named: else the answer would depend on the order
in which things happen.
"""

from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from podium.language.tree import Mapping, Scalar

ScopeKind: TypeAlias = Literal["workflow", "finally", "branches", "items", "pass", "group"]
LoopKind: TypeAlias = Literal["items", "pass"]

# The kinds of a step, by what it does; `language/grammar.py` says which key makes which.
Action: TypeAlias = str


class Declared(msgspec.Struct, eq=False):
    """A step that a file declares."""

    step_id: str
    name: Scalar
    node: Mapping
    action: Action
    index: int
    scope: "Scope"
    # The parallel step whose branch this is, if it was declared one list further out as well.
    branch_of: "Declared | None" = None
    body: "Scope | None" = None


class Scope(msgspec.Struct, eq=False):
    """One list of steps."""

    kind: ScopeKind
    outer: "Scope | None" = None
    owner: Declared | None = None
    # The variable of the item; of a loop with passes None.
    variable: str | None = None
    # Items that are taken at the same time.
    concurrently: bool = False
    steps: dict[str, Declared] = msgspec.field(default_factory=dict)
    listed: list[Declared] = msgspec.field(default_factory=list)
    # Of a graph: what each step depends on, by index. Of a flow None.
    needs: list[list[int]] | None = None
    # Of the outermost list: what is in the lists inside, by name; made when it is asked for.
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
        """The steps further in, by name, for messages. To be asked only when all of them are declared."""
        if self._hidden is None:
            self._hidden = dict(steps_inside(self))
        return self._hidden

    def depth(self) -> int:
        return sum(1 for _ in self.outwards())


class NotVisible(msgspec.Struct, frozen=True):
    """A step that exists and cannot be named from here, and why."""

    step: Declared
    reason: Literal["inside", "same time", "shadowed"]


def find_step(name: str, scope: Scope, asking: Declared | None) -> Declared | NotVisible | None:
    """The step that `name` means in `scope`, for the step that asks (None: whoever comes after all of them)."""
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
    """Whether the step's id, which is what a plan carries, means that step and no other further in."""
    nearest = next(
        (around.steps[found.step_id] for around in scope.outwards() if found.step_id in around.steps), found
    )
    return nearest is found


def _has_ended_before(found: Declared, asking: Declared, scope: Scope) -> bool:
    """Whether what `asking` learns about `found` cannot depend on the order of events."""
    if found.branch_of is not None and scope is not found.scope:
        # Declared here on behalf of a parallel step: seen by those after it, not by its other branches.
        if found.branch_of is asking:
            return False
        found = found.branch_of
    if scope.kind == "branches":
        return False
    if scope.needs is None:
        return True
    return waits_for(scope.needs, asking.index, found.index)


def waits_for(needs: list[list[int]], step: int, wanted: int) -> bool:
    """Whether `step` starts only after `wanted` has ended, directly or not."""
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
    """The steps of the lists inside a list, by name; of two with the same name the first comes last."""
    for step in reversed(scope.listed):
        if step.body is not None:
            yield from steps_inside(step.body)
            yield from step.body.steps.items()
