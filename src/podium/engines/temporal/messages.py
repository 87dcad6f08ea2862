"""Messages between a workflow and its activities. The workflow id says which run they belong to."""

from collections.abc import Sequence
from typing import Any

import msgspec

from podium.log.attempts import AttemptOrder
from podium.log.drafts import EventDraft, LoggedEvent
from podium.log.events import EventType, RunIdentity
from podium.log.ids import RunId


class RunArgs(msgspec.Struct, frozen=True, omit_defaults=True):
    """Arguments of a workflow execution: everything else is in the store."""

    run_id: str
    # Where its attempts and probes are executed.
    queue: str
    # How many executions there were before this one.
    rotation: int = 0


class OpenedRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """A run as its execution receives it. Always stored outside of the history, because it contains the plan."""

    identity: RunIdentity
    # Generation of the run's lease, which belongs to the execution.
    generation: int
    plan: bytes
    # The state of the run; None if it has only started.
    machine: bytes | None = None
    # Only for a run that has not started: the payload of RunStarted.
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
    # The end of the log has not been reached.
    has_more: bool = False


class ProbeOrder(msgspec.Struct, frozen=True):
    # Kind and name of each question.
    questions: Sequence[tuple[str, str]]


class AttemptArgs(msgspec.Struct, frozen=True, omit_defaults=True):
    """An `AttemptOrder` in a compact form, because every step has one in the history."""

    path: str
    # Generation of the run's lease.
    generation: int
    attempt: int = 1
    values: list[tuple[list[str | int], Any]] = []
    # Excludes StepStarted of the attempt itself, which follows them.
    before: list[EventDraft] = []
    dropped: list[str] = []
    # StepStarted is in the log already, or among the events in `before`.
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
