"""What travels between a workflow and its activities. Whatever may be large names its run (see `converter`)."""

from collections.abc import Sequence
from typing import Any

import msgspec

from podium.log.attempts import AttemptEnd, AttemptOrder
from podium.log.drafts import EventDraft, LoggedEvent
from podium.log.events import RunIdentity


class RunArgs(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of a workflow execution: everything else is in the store."""

    run_id: str
    # Where its attempts and probes are carried out.
    queue: str
    # How many executions there were before this one.
    rotation: int = 0


class OpenedRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """A run as an execution finds it. Kept outside of the history, always: it holds the plan."""

    identity: RunIdentity
    # Of the run's lease, which belongs to the execution.
    generation: int
    plan: bytes
    # What the run has come to; None if it has only begun.
    machine: bytes | None = None
    # Of a run that has not started: what RunStarted says.
    start: dict[str, Any] | None = None
    # The run has ended already, or was refused: nothing is left to do.
    is_over: bool = False


class WriteOrder(msgspec.Struct, frozen=True, omit_defaults=True):
    run_id: str
    generation: int
    events: list[EventDraft]
    dropped: list[str] = []


class ReadOrder(msgspec.Struct, frozen=True):
    run_id: str
    after: int


class ReadEvents(msgspec.Struct, frozen=True):
    run_id: str
    events: list[LoggedEvent]
    # Not at the end of the log yet.
    has_more: bool


class ProbeOrder(msgspec.Struct, frozen=True):
    run_id: str
    # Kind and name of each question.
    questions: Sequence[tuple[str, str]]


class AttemptArgs(msgspec.Struct, frozen=True):
    order: AttemptOrder
    generation: int

    @property
    def run_id(self) -> str:
        return self.order.run_id


class AttemptDone(msgspec.Struct, frozen=True):
    run_id: str
    came_of_it: AttemptEnd


class KillOrder(msgspec.Struct, frozen=True):
    run_id: str
    path: str
    attempt: int
