"""What a run waits for that only a person can give, with the commands to call: found while it runs."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from podium.log.events import EventRecord, EventType
from podium.log.notes import RunNotes
from podium.log.payloads import StepStarted, payload_of
from podium.machine.obligations import Obligation
from podium.text import visible

if TYPE_CHECKING:
    from podium.operations.explaining import Reason

_FOR_A_PERSON: Final = frozenset({"approval", "operator", "doubt", "plan_approval"})
# While one of these is owed, a held run moves by itself. A task need not: a killed driver may have left it, and it runs
# again only when the hold is over.
_MOVING: Final = frozenset({"probe", "record", "start"})
# While one of these is owed, nothing is asked at the terminal: its answer would be lost among what runs.
_RUNNING: Final = _MOVING | {"task", "slot"}


class PersonsTurn:
    """Looks on, and calls `show` with all that the run waits for from a person, whenever that may have changed."""

    def __init__(self, run_id: str, show: "Callable[[Sequence[Reason]], None]") -> None:
        self._run_id = run_id
        self._show = show
        # What approvals ask, by step.
        self._questions: dict[str, str] = {}
        # Called with the step in doubt that is all the run waits for, or None.
        self.on_doubt: Callable[[str | None], None] | None = None

    def recall(self, notes: RunNotes) -> None:
        """What was asked before this process drove the run."""
        self._questions = dict(notes.questions)

    def observe(self, records: Sequence[EventRecord]) -> None:
        for record in records:
            if record.event_type == EventType.STEP_STARTED and b'"approval"' in record.payload:
                asked = payload_of(record, StepStarted).approval
                if asked is not None and record.step_id is not None:
                    self._questions[record.step_id] = asked.message

    def owed(self, obligations: Sequence[Obligation]) -> None:
        moves = any(one.kind in _MOVING for one in obligations)
        wanted = [
            one for one in obligations if one.kind in _FOR_A_PERSON or (one.kind == "hold" and not moves)
        ]
        self._show([self._reason(one) for one in wanted])
        if self.on_doubt is not None:
            runs = any(one.kind in _RUNNING for one in obligations)
            only = wanted[0] if len(wanted) == 1 and not runs else None
            self.on_doubt(only.subject if only is not None and only.kind == "doubt" else None)

    def _reason(self, obligation: Obligation) -> "Reason":
        # Loaded with the first of them: most runs wait for no person.
        from dataclasses import replace

        from podium.operations.explaining import reason_for

        reason = reason_for(obligation, self._run_id)
        question = self._questions.get(obligation.subject) if obligation.kind == "approval" else None
        return replace(reason, text=f"{reason.text}: {visible(question)}") if question else reason
