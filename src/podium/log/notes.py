"""What a terminal view has to know about everything that happened before it: a small fold of the log.

At the end of a run, failed steps and warnings are named and its usage is shown; open approvals and running
steps decide what a person is asked. It is part of a checkpoint, so that a resumed run need not be read from
its first event.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from podium.log.events import EventRecord, EventType
from podium.log.payloads import StepEnd, StepStarted, fields_of, payload_of
from podium.log.transitions import RUN_ENDS, STEP_ENDS

_MAX_WARNINGS: Final = 5
_STARTED: Final = EventType.STEP_STARTED.value
_FAILED: Final = EventType.STEP_FAILED.value
_ENDED_WELL: Final = frozenset({EventType.STEP_COMPLETED.value, EventType.STEP_SKIPPED.value})


class Warned(msgspec.Struct, frozen=True, array_like=True):
    path: str
    text: str


class RunNotes(msgspec.Struct):
    # The newest record that was folded.
    run_seq: int = 0
    # By path, why the newest attempt failed.
    failed: dict[str, str] = {}
    # Blocks in which steps failed, and those of them that succeeded nevertheless.
    around: set[str] = set()
    ended_well: set[str] = set()
    # The first few, and the total number.
    warnings: list[Warned] = []
    warning_count: int = 0
    # Usage of the run so far.
    usage: dict[str, float] = {}
    # Running steps; for approvals, the question.
    running: set[str] = set()
    questions: dict[str, str] = {}

    def __call__(self, records: Sequence[EventRecord]) -> None:
        for record in records:
            if record.run_seq > self.run_seq:
                self._fold(record)
                self.run_seq = record.run_seq

    def saved(self) -> bytes:
        return msgspec.json.encode(self)

    def failed_steps(self) -> list[str]:
        """For a block that failed, the failed steps inside; for one that succeeded, none."""
        failed = [path for path in self.failed if path not in self.around]
        return [path for path in failed if self.ended_well.isdisjoint(_blocks_around(path))]

    def _fold(self, record: EventRecord) -> None:
        path, event_type = record.step_id, record.event_type
        if path is None:
            self._fold_run(record)
        elif event_type == _STARTED:
            self._start(path, record)
        elif event_type in STEP_ENDS:
            self._end(path, record)

    def _fold_run(self, record: EventRecord) -> None:
        if record.event_type == EventType.BUDGET_CHARGED:
            self.usage = fields_of(record)["total"]
        elif record.event_type in RUN_ENDS:
            self.running.clear()
            self.questions.clear()

    def _start(self, path: str, record: EventRecord) -> None:
        asked = payload_of(record, StepStarted).approval if b'"approval"' in record.payload else None
        if asked is None:
            self.running.add(path)
        else:
            self.questions[path] = asked.message

    def _end(self, path: str, record: EventRecord) -> None:
        self.running.discard(path)
        self.questions.pop(path, None)
        if record.event_type == _FAILED:
            self._note_failure(path, payload_of(record, StepEnd))
        elif record.event_type in _ENDED_WELL:
            self.failed.pop(path, None)
            if path in self.around:
                self.ended_well.add(path)
        if b'"warnings"' in record.payload:
            self._note_warnings(path, payload_of(record, StepEnd))

    def _note_failure(self, path: str, end: StepEnd) -> None:
        if end.is_stopped:
            return
        lines = end.failure.splitlines()
        self.failed[path] = lines[0] if lines else "failed"
        self.around.update(_blocks_around(path))
        self.ended_well.discard(path)

    def _note_warnings(self, path: str, end: StepEnd) -> None:
        for text in end.warnings:
            self.warning_count += 1
            if len(self.warnings) < _MAX_WARNINGS:
                self.warnings.append(Warned(path, text))


def _blocks_around(path: str) -> Iterator[str]:
    """`L#2[0]/M/A`: `L` and `L#2[0]/M`, named as in their own ends."""
    parts = path.split("/")
    for count in range(1, len(parts)):
        yield "/".join([*parts[: count - 1], parts[count - 1].partition("[")[0].partition("#")[0]])
