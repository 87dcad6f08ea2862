"""Messages between the process that decides about a run and the worker that executes one of its attempts."""

from typing import Any

import msgspec

from podium.log.drafts import EventDraft, LoggedEvent
from podium.log.times import Timestamp


class AttemptOrder(msgspec.Struct, frozen=True, omit_defaults=True):
    """Execute one attempt of a step. The step itself is in the plan, which the worker has."""

    run_id: str
    path: str
    attempt: int
    # Values of the references in the step's texts: pairs of a path and its value.
    values: list[tuple[list[str | int], Any]] = []
    # Must be in the log before the work starts: decisions, and StepStarted itself.
    before: list[EventDraft] = []
    # Wake-ups to delete in the same transaction.
    dropped: list[str] = []
    # What signals have changed in this step (a `StepChange` of the plan).
    change: dict[str, Any] | None = None


class Written(msgspec.Struct, frozen=True, array_like=True):
    """Positions of drafts in the log."""

    # One per draft; 0 if the log has a different event in its place, which has to be read.
    run_seqs: list[int] = []
    # When each draft was emitted; a single entry if all have the same time.
    at: list[Timestamp] = []

    def events(self, drafts: list[EventDraft]) -> list[LoggedEvent]:
        """The drafts that are in the log unchanged."""
        times = self.at * len(drafts) if len(self.at) == 1 else self.at
        return [
            LoggedEvent(run_seq, at, draft.event_type, draft.path, draft.attempt, 1, draft.payload)
            for draft, run_seq, at in zip(drafts, self.run_seqs, times, strict=True)
            if run_seq
        ]


class AttemptEnd(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of an attempt: its end, which is in the log, or what is known about an attempt that was
    stopped.
    """

    before: Written
    end: LoggedEvent | None = None
    # The payload for the end of a stopped attempt. Only the process that decided to stop it knows why, so
    # that process records the end.
    stopped: dict[str, Any] | None = None
    # The run was paused before the attempt started: nothing was recorded, and the attempt has to be ordered
    # again.
    is_refused: bool = False
