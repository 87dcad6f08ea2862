"""Executions that an earlier build opened: their history contains the machine as that build encoded it.

Only the machine of a run that had not started can be read, since it contains nothing but its position in the
log. An execution that was resumed or continued as a new one has to be finished by workers of the build that
opened it.
"""

from typing import Any

import msgspec

from podium.log.times import Timestamp
from podium.machine.checkpoint import CheckpointMismatch
from podium.machine.machine import Machine
from podium.plan.plan import Plan


class _NotStarted(msgspec.Struct):
    seq: int
    now: Timestamp
    tree: None
    early: bool
    hold: tuple[list[str], Any, Any, Any, Any]
    records: list[Any]
    changes: list[Any] = []


def machine_of(plan: Plan, encoded: bytes) -> Machine:
    try:
        return Machine.restore(plan, encoded)
    except CheckpointMismatch as mismatch:
        machine = _not_started(plan, encoded)
        if machine is None:
            raise mismatch
        return machine


def _not_started(plan: Plan, encoded: bytes) -> Machine | None:
    try:
        saved = msgspec.json.decode(encoded, type=_NotStarted)
    except msgspec.MsgspecError:
        return None
    if saved.early or saved.hold[0] or saved.records or saved.changes:
        return None
    machine = Machine(plan)
    machine.last_seq = saved.seq
    machine.surroundings.now = saved.now
    return machine
