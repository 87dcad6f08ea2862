"""Encodes the state of a machine as bytes and decodes it: for long runs, for other hosts, and for reopening.

The tree is encoded as it is. References to the plan, and `waits`, are restored when it is decoded. A
checkpoint can only be used with the plan and the rules it was made with, and names both.
"""

from collections.abc import Iterator
from typing import Any, Final, NoReturn

import msgspec

from podium.errors import PodiumError
from podium.log.times import Timestamp
from podium.machine.agenda import Agenda, AtVerdict, Hold, Operation
from podium.machine.commands import Record
from podium.machine.program import BlockProgram, Kind
from podium.machine.recalled import RecalledTime
from podium.machine.spending import Spending
from podium.machine.tree import Phase, Scope, Visit, place_root
from podium.machine.values import items_of
from podium.plan.changes import StepChange


class CheckpointMismatch(PodiumError):
    """A checkpoint of another plan or other rules: replay the log instead."""

    code = "CHECKPOINT_MISMATCH"


class Checkpoint(msgspec.Struct):
    """The complete state of a machine, except its plan. Visits outside of the tree are named by their paths."""

    rules: int
    plan: str
    now: Timestamp
    env: dict[str, str]
    run: dict[str, Any]
    recalled: RecalledTime
    tree: Visit | None
    agenda: list[tuple[Operation, str]]
    aside: list[str]
    queue: list[str]
    records: list[Record]
    # The remaining fields have the same names as in the agenda.
    hold: Hold
    spending: Spending
    changes: dict[str, StepChange]
    last_seq: int
    taken_over_to: int
    visits: int
    pause_cycle: int
    opening: int
    cancels: int
    terminal: bool
    inconsistent: bool
    ends_before_start: bool
    at_verdict: AtVerdict | None
    breath: int
    breathing: str | None


_SAME_NAMES: Final = Checkpoint.__struct_fields__[Checkpoint.__struct_fields__.index("hold") :]


def encode(m: Agenda, plan_sha256: str, rules: int) -> bytes:
    around = m.surroundings
    saved = Checkpoint(
        rules,
        plan_sha256,
        around.now,
        around.env,
        around.run,
        around.recalled,
        m.root,
        [(operation, visit.path) for operation, visit in m.agenda if visit.phase is not Phase.DONE],
        [visit.path for visit in m.hold.aside],
        list(m.spending.queue),
        list(m.records),
        *(getattr(m, name) for name in _SAME_NAMES),
    )
    return msgspec.json.encode(saved)


def decode(m: Agenda, encoded: bytes, plan_sha256: str, rules: int) -> None:
    """Restore an encoded state into a new machine."""
    try:
        saved = msgspec.json.decode(encoded, type=Checkpoint)
    except msgspec.MsgspecError as error:
        raise CheckpointMismatch(
            f"the checkpoint cannot be read ({error}); replay the log instead"
        ) from error
    if saved.plan != plan_sha256 or saved.rules != rules:
        raise CheckpointMismatch(
            "the checkpoint is of another plan or of other rules; replay the log instead"
        )
    around = m.surroundings
    around.now, around.env, around.run, around.recalled = saved.now, saved.env, saved.run, saved.recalled
    m.records.extend(saved.records)
    for name in _SAME_NAMES:
        setattr(m, name, getattr(saved, name))
    m.root = saved.tree
    if m.root is not None:
        place(m, m.root)
        found = {visit.path: visit for visit in live_visits(m.root)}
        _wait_again(m, found)
        m.agenda.extend((operation, found[path]) for operation, path in saved.agenda)
        m.hold.aside.extend(found[path] for path in saved.aside)
        m.spending.queue.update((path, found[path]) for path in saved.queue)


def _wait_again(m: Agenda, found: dict[str, Visit]) -> None:
    for visit in found.values():
        for key in (visit.wait, visit.limit):
            if key is not None:
                m.waits[key] = visit


def live_visits(visit: Visit) -> Iterator[Visit]:
    """A visit and all live visits inside it."""
    yield visit
    for scope in visit.scopes.values():
        for inner in scope.live.values():
            yield from live_visits(inner)


# --- parts of the tree ----------------------------------------------------------------------------


def pack(part: Visit | Scope) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(part))


def unpack_root(m: Agenda, packed: msgspec.Raw) -> Visit:
    root = msgspec.json.decode(packed, type=Visit)
    place(m, root)
    return root


def unpack_list(m: Agenda, packed: msgspec.Raw, owner: Visit) -> Scope:
    scope = msgspec.json.decode(packed, type=Scope)
    _place_scope(m, scope, owner)
    return scope


def replace(m: Agenda, old: Visit, new: Visit) -> Visit:
    """Put a copy of a visit of one tree in place of its older state in another tree."""
    copy = msgspec.json.decode(msgspec.json.encode(new), type=Visit)
    copy.scope, copy.node = old.scope, old.node
    old.scope.live[old.node.index] = copy
    _place_inside(m, copy)
    return copy


# --- places in the plan ---------------------------------------------------------------------------


def place(m: Agenda, root: Visit) -> None:
    """Connect a decoded tree with its plan, and its inner parts with their parents."""
    place_root(root, m.program)
    _place_inside(m, root)


def _place_inside(m: Agenda, visit: Visit) -> None:
    node = visit.node
    if visit.call is not None:
        visit.call.program = node.program or _mismatch(visit)
    loop = visit.loop
    if loop is not None:
        is_evaluated = node.items_again and loop.total > 0
        loop.items = items_of(m.view(visit.scope), node) if is_evaluated else loop.own_items or []
    for scope in visit.scopes.values():
        _place_scope(m, scope, visit)
    if visit.unfinished is not None:
        for scope in visit.unfinished.scopes.values():
            _place_scope(m, scope, visit)


def _place_scope(m: Agenda, scope: Scope, owner: Visit) -> None:
    scope.owner = owner
    scope.block = _block_of(owner, scope.index)
    is_item = owner.node.kind is Kind.FOR_EACH and owner.loop is not None
    scope.item = owner.loop.items[scope.index] if is_item and owner.loop is not None else None
    for visits in (scope.live, scope.left or {}):
        for index, visit in visits.items():
            visit.scope = scope
            visit.node = scope.block.nodes[index]
            _place_inside(m, visit)


def _block_of(owner: Visit, index: int) -> BlockProgram:
    if owner.call is not None:
        program = owner.call.program
        block = (program.block, program.error, program.cleanup)[index]
    else:
        block = owner.node.branches[index] if owner.node.branches else owner.node.block
    return block or _mismatch(owner)


def _mismatch(visit: Visit) -> NoReturn:
    raise CheckpointMismatch(f"{visit.path!r} is not what it is in the plan; replay the log instead")
