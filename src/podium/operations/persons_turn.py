"""What a run waits for that only a person can provide, with the commands to call: determined while it runs."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from podium.log.events import EventRecord, EventType
from podium.log.notes import RunNotes
from podium.log.payloads import StepStarted, payload_of
from podium.machine.obligations import FOR_A_PERSON, MOVING, Obligation
from podium.machine.progress import Progress
from podium.text import visible

if TYPE_CHECKING:
    from podium.operations.explaining import Reason

# While one of these is owed, nothing is asked at the terminal: the question would be lost in the output.
_RUNNING: Final = MOVING | {"task", "slot"}


class PersonsTurn:
    """An observer that calls `show` with everything that the run needs from a person, whenever that may have
    changed.
    """

    def __init__(self, run_id: str, show: "Callable[[Sequence[Reason]], None]") -> None:
        self._run_id = run_id
        self._show = show
        # The questions of approvals, by step.
        self._questions: dict[str, str] = {}
        # Called with the doubtful step if the run waits for nothing else, otherwise with None.
        self.on_doubt: Callable[[str | None], None] | None = None

    def recall(self, notes: RunNotes) -> None:
        """Restore the questions from before this process drove the run."""
        self._questions = dict(notes.questions)

    def observe(self, records: Sequence[EventRecord]) -> None:
        for record in records:
            if record.event_type == EventType.STEP_STARTED and b'"approval"' in record.payload:
                asked = payload_of(record, StepStarted).approval
                if asked is not None and record.step_id is not None:
                    self._questions[record.step_id] = asked.message

    def owed(self, progress: Progress) -> None:
        obligations = progress.owed
        moves = any(one.kind in MOVING for one in obligations)
        wanted = [
            one for one in obligations if one.kind in FOR_A_PERSON or (one.kind == "hold" and not moves)
        ]
        self._show([self._reason(one) for one in wanted])
        if self.on_doubt is not None:
            runs = any(one.kind in _RUNNING for one in obligations)
            only = wanted[0] if len(wanted) == 1 and not runs else None
            self.on_doubt(only.subject if only is not None and only.kind == "doubt" else None)

    def _reason(self, obligation: Obligation) -> "Reason":
        # Imported with the first of them: most runs never wait for a person.
        from dataclasses import replace

        from podium.operations.explaining import reason_for

        reason = reason_for(obligation, self._run_id)
        question = self._questions.get(obligation.subject) if obligation.kind == "approval" else None
        return replace(reason, text=f"{reason.text}: {visible(question)}") if question else reason
