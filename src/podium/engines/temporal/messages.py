"""What travels between a workflow and its activities. The run is the workflow's: its id says which one."""

from collections.abc import Sequence
from typing import Any

import msgspec

from podium.log.attempts import AttemptOrder
from podium.log.drafts import EventDraft, LoggedEvent
from podium.log.events import EventType, RunIdentity
from podium.log.ids import RunId


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
    # What the run has come to; None if it has only started.
    machine: bytes | None = None
    # Of a run that has not started: what RunStarted says.
    start: dict[str, Any] | None = None
    # The run has ended already, or was refused: nothing is left to do.
    is_over: bool = False
    # Nothing of it may start: open it again when it is nudged.
    waits_for_approval: bool = False


class WriteOrder(msgspec.Struct, frozen=True, omit_defaults=True):
    generation: int
    events: list[EventDraft]
    dropped: list[str] = []


class ReadOrder(msgspec.Struct, frozen=True):
    after: int


class ReadEvents(msgspec.Struct, frozen=True, omit_defaults=True):
    events: list[LoggedEvent]
    # Not at the end of the log yet.
    has_more: bool = False


class ProbeOrder(msgspec.Struct, frozen=True):
    # Kind and name of each question.
    questions: Sequence[tuple[str, str]]


class AttemptArgs(msgspec.Struct, frozen=True, omit_defaults=True):
    """An `AttemptOrder`, as short as it can be: every step has one in the history."""

    path: str
    # Of the run's lease.
    generation: int
    attempt: int = 1
    values: list[tuple[list[str | int], Any]] = []
    # Without StepStarted of the attempt itself, which follows them.
    before: list[EventDraft] = []
    dropped: list[str] = []
    # StepStarted is in the log already, or among those before.
    is_started: bool = False
    # What signals have changed in the step.
    change: dict[str, Any] | None = None

    @classmethod
    def of(cls, order: AttemptOrder, generation: int) -> "AttemptArgs":
        start, before = _start_of(order.path, order.attempt), order.before
        is_started = not before or before[-1] != start
        return cls(
            order.path,
            generation,
            order.attempt,
            order.values,
            before if is_started else before[:-1],
            order.dropped,
            is_started,
            order.change,
        )

    def order(self, run_id: RunId) -> AttemptOrder:
        before = self.before if self.is_started else [*self.before, _start_of(self.path, self.attempt)]
        return AttemptOrder(run_id, self.path, self.attempt, self.values, before, self.dropped, self.change)


def _start_of(path: str, attempt: int) -> EventDraft:
    return EventDraft(EventType.STEP_STARTED, path, attempt)


class KillOrder(msgspec.Struct, frozen=True, omit_defaults=True):
    path: str
    attempt: int = 1
