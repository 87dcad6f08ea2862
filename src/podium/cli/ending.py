"""What the end of a run names beside its outcome: steps that failed though the run completed, and warnings."""

from collections.abc import Iterator, Sequence
from typing import Final

from podium.log.events import EventRecord, EventType
from podium.log.payloads import StepEnd, payload_of
from podium.text import visible

_MAX_NAMED: Final = 3
_MAX_WARNINGS: Final = 5
_ENDS: Final = frozenset({EventType.STEP_COMPLETED.value, EventType.STEP_SKIPPED.value})
_FAILED: Final = EventType.STEP_FAILED.value


class EndNotes:
    """Gathered from the events that a view shows."""

    def __init__(self) -> None:
        # By path, the reason for which the newest attempt failed.
        self._failed: dict[str, str] = {}
        # Blocks that steps failed in, and those of them that ended well all the same.
        self._around: set[str] = set()
        self._ended_well: set[str] = set()
        self._warnings: list[str] = []
        self._warning_count = 0

    def observe(self, records: Sequence[EventRecord]) -> None:
        for record in records:
            if record.step_id is None:
                continue
            if record.event_type == _FAILED:
                self._note_failure(record.step_id, payload_of(record, StepEnd))
            elif record.event_type in _ENDS:
                self._failed.pop(record.step_id, None)
                if record.step_id in self._around:
                    self._ended_well.add(record.step_id)
            if b'"warnings"' in record.payload:
                self._note_warnings(record.step_id, payload_of(record, StepEnd))

    def failed_steps(self) -> str:
        """`1 step failed: A (exit code 3)`; empty if none did.

        Of a block that failed, the steps inside are named; of one that ended well, nothing.
        """
        failed = [path for path in self._failed if path not in self._around]
        failed = [path for path in failed if self._ended_well.isdisjoint(_blocks_around(path))]
        if not failed:
            return ""
        named = ", ".join(f"{visible(path)} ({visible(self._failed[path])})" for path in failed[:_MAX_NAMED])
        more = f" and {len(failed) - _MAX_NAMED} more" if len(failed) > _MAX_NAMED else ""
        return f"{len(failed)} step{'s' * (len(failed) > 1)} failed: {named}{more}"

    def warnings(self) -> list[str]:
        """The first few, each with its step, and how many there are besides."""
        more = self._warning_count - len(self._warnings)
        return [*self._warnings, *([f"{more} more warnings"] if more else [])]

    def _note_failure(self, path: str, end: StepEnd) -> None:
        if end.is_stopped:
            return
        self._failed[path] = (end.failure or "failed").splitlines()[0]
        self._around.update(_blocks_around(path))
        self._ended_well.discard(path)

    def _note_warnings(self, path: str, end: StepEnd) -> None:
        for text in end.warnings:
            self._warning_count += 1
            if len(self._warnings) < _MAX_WARNINGS:
                self._warnings.append(f"step {visible(repr(path))}: {visible(text)}")


def _blocks_around(path: str) -> Iterator[str]:
    """`L#2[0]/M/A`: `L` and `L#2[0]/M`, as they are named at their own ends."""
    parts = path.split("/")
    for count in range(1, len(parts)):
        yield "/".join([*parts[: count - 1], parts[count - 1].partition("[")[0].partition("#")[0]])
