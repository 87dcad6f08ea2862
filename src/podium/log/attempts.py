"""What travels between the process that decides about a run and the worker that carries out an attempt of it."""

from typing import Any

import msgspec

from podium.log.drafts import EventDraft, LoggedEvent
from podium.log.times import Timestamp


class AttemptOrder(msgspec.Struct, frozen=True, omit_defaults=True):
    """Carry out one attempt of a step. The step itself is in the plan, which the worker has."""

    run_id: str
    path: str
    attempt: int
    # What the references in the step's texts mean: pairs of a path and its value.
    values: list[tuple[list[str | int], Any]] = []
    # To be in the log before the work starts: decisions, and StepStarted itself.
    before: list[EventDraft] = []
    # Wake-ups to drop in the same transaction.
    dropped: list[str] = []
    # What signals have changed in the step (a `StepChange` of the plan).
    change: dict[str, Any] | None = None


class Written(msgspec.Struct, frozen=True, array_like=True):
    """Where drafts are in the log."""

    # One for each draft; 0 if the log has another event in its place, which has to be read.
    run_seqs: list[int] = []
    # When each was emitted; only one if it is the same for all.
    at: list[Timestamp] = []

    def events(self, drafts: list[EventDraft]) -> list[LoggedEvent]:
        """Those drafts that are in the log as they are here."""
        times = self.at * len(drafts) if len(self.at) == 1 else self.at
        return [
            LoggedEvent(run_seq, at, draft.event_type, draft.path, draft.attempt, 1, draft.payload)
            for draft, run_seq, at in zip(drafts, self.run_seqs, times, strict=True)
            if run_seq
        ]


class AttemptEnd(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of an attempt: its end, which is in the log, or what is known of an attempt that was stopped."""

    before: Written
    end: LoggedEvent | None = None
    # The payload for the end of an attempt that was stopped. Only the process that decided to stop it knows why, and
    # records it.
    stopped: dict[str, Any] | None = None
    # The run was paused before the attempt started: nothing was recorded, and it has to be ordered again.
    is_refused: bool = False
