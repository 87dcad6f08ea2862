"""The logs in a run's directory: one line per event, for people (`workflow.jsonl`) and for programs
(`events.jsonl`).

They are a view of the log, written a moment later; what is lost in a crash is written again when the run
continues. Only the start of a step that must not be repeated blindly is on disk before the step starts, so
that a rebuilt store contains it.
"""

import contextlib
import io
import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from podium.log.envelope import encode_envelope
from podium.log.events import EventRecord, EventType
from podium.log.payloads import RetryScheduled, RunEnd, Signal, StepEnd, payload_of
from podium.runtime.own_files import open_to_append, remove_links
from podium.runtime.rundir import RunDirectory
from podium.runtime.view_trouble import ViewTrouble

_BUFFERED: Final = 64 * 1024
# Maximum that is buffered for a file that cannot be written.
_MAX_WAITING: Final = 32 * 1024 * 1024
# The most frequent events.
_USUAL: Final[dict[str, str]] = {EventType.STEP_STARTED: "started", EventType.STEP_COMPLETED: "completed"}
_LEVELS: Final[dict[str, str]] = {
    EventType.STEP_FAILED: "error",
    EventType.RUN_FAILED: "error",
    EventType.STEP_RETRY_SCHEDULED: "warning",
    EventType.STEP_INTERRUPTED: "warning",
    EventType.ALERT_RAISED: "warning",
}


class JournalMark(msgspec.Struct, frozen=True):
    """Where the lines of a record end in both files."""

    run_seq: int = 0
    for_people: int = 0
    for_programs: int = 0


class Journal:
    """An observer. Both files have one line for each record, so that they can be truncated to the same
    length.

    It receives the records from the first one on, or from `mark` on: those that are in both files already are
    skipped.
    """

    def __init__(
        self,
        directory: RunDirectory,
        trouble: ViewTrouble | None = None,
        mark: JournalMark = JournalMark(),  # noqa: B008  frozen
    ) -> None:
        """Raises `ValueError` if the mark does not belong to the files."""
        for_people, for_programs = directory.logs / "workflow.jsonl", directory.logs / "events.jsonl"
        for file in (for_people, for_programs):
            remove_links(file)
        _check_mark(mark, for_people, for_programs)
        whole = min(_lines_in(for_people, mark.for_people), _lines_in(for_programs, mark.for_programs))
        self._seen = _seq_of_line(for_programs, mark.for_programs, whole)
        if not self._seen:
            # What is no longer readable is written again.
            whole, self._seen = 0, mark.run_seq
        _cut(for_people, mark.for_people, whole)
        _cut(for_programs, mark.for_programs, whole)
        trouble = trouble or ViewTrouble()
        self._for_people = _LogFile(for_people, trouble)
        self._for_programs = _LogFile(for_programs, trouble)

    def __call__(self, records: Sequence[EventRecord]) -> None:
        new = [record for record in records if record.run_seq > self._seen]
        if new:
            self._seen = new[-1].run_seq
            self._for_programs.add([encode_envelope(record) for record in new])
            self._for_people.add([_line(record) for record in new])

    def keep_up(self) -> None:
        """Make the lines visible to readers; called periodically and not for every event."""
        self._for_programs.flush()
        self._for_people.flush()

    def saved(self) -> bytes | None:
        """The mark of what both files contain; None if a full disk has not taken all of it."""
        self.keep_up()
        for_people, for_programs = self._for_people.size(), self._for_programs.size()
        if for_people is None or for_programs is None:
            return None
        return msgspec.json.encode(JournalMark(self._seen, for_people, for_programs))

    def sync(self) -> None:
        """Everything so far survives a crash of this process and of the machine."""
        self.keep_up()
        self._for_programs.sync()

    def close(self, *, flush: bool = True) -> None:
        for file in (self._for_people, self._for_programs):
            if flush:
                file.flush()
            file.close()


class _LogFile:
    """Lines to be written to a file. What a full disk does not take is buffered and written when there is
    space.
    """

    def __init__(self, path: Path, trouble: ViewTrouble) -> None:
        self._path = path
        self._trouble = trouble
        self._file: io.FileIO | None = None
        self._waiting = bytearray()
        self._has_stopped = False

    def add(self, lines: list[bytes]) -> None:
        if self._has_stopped:
            return
        self._waiting += b"\n".join([*lines, b""])
        if len(self._waiting) >= _MAX_WAITING:
            # Whole lines only, because a resumed run continues after them.
            self._has_stopped = True
            self._trouble.stopped(self._path.name)
        elif len(self._waiting) >= _BUFFERED:
            self.flush()

    def flush(self) -> None:
        try:
            self._write()
        except OSError as error:
            self._trouble.failed(self._path.name, error)
        else:
            self._trouble.succeeded(self._path.name)

    def size(self) -> int | None:
        """The size of the file with all lines so far; None if some of them are not in it."""
        try:
            return self._path.stat().st_size if not self._waiting else None
        except OSError:
            return None

    def sync(self) -> None:
        """The store has all of it, so a full disk does not prevent a step from starting."""
        if self._file is not None:
            try:
                os.fsync(self._file.fileno())
            except OSError as error:
                self._trouble.failed(self._path.name, error)

    def _write(self) -> None:
        if self._file is None:
            self._file = open_to_append(self._path)
        while self._waiting:
            del self._waiting[: self._file.write(self._waiting)]

    def close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()


def _line(record: EventRecord) -> bytes:
    line: dict[str, Any] = {
        "timestamp": record.emitted_at,
        "run_id": record.run.run_id,
        "level": _LEVELS.get(record.event_type, "info"),
        "message": describe_event(record),
        "step": record.step_id,
    }
    return msgspec.json.encode(line)


def describe_event(record: EventRecord) -> str:
    """An event as a sentence."""
    attempt = f" (attempt {record.logical_attempt_id})" if record.logical_attempt_id > 1 else ""
    if record.event_type in _USUAL:
        return _USUAL[record.event_type] + attempt
    match record.event_type:
        case EventType.STEP_FAILED:
            return f"failed{attempt}: {payload_of(record, StepEnd).failure or 'no reason given'}"
        case EventType.STEP_SKIPPED:
            return f"skipped: {payload_of(record, StepEnd).reason}"
        case EventType.STEP_RETRY_SCHEDULED:
            return f"will be tried again at {payload_of(record, RetryScheduled).due}"
        case EventType.STEP_INTERRUPTED:
            return "was interrupted; whether it happened is not known"
        case EventType.RUN_COMPLETED:
            return "run completed"
        case EventType.RUN_FAILED:
            end = payload_of(record, RunEnd)
            return f"run failed: {end.message or end.reason or ''}"
        case EventType.RUN_CANCELLED:
            return "run cancelled"
        case EventType.SIGNAL_ACCEPTED:
            return f"signal {payload_of(record, Signal).signal_type}"
        case EventType.SIGNAL_REJECTED:
            signal = payload_of(record, Signal)
            return f"signal {signal.signal_type} refused: {signal.reason}"
        case _:
            return record.event_type


def _check_mark(mark: JournalMark, for_people: Path, for_programs: Path) -> None:
    """Check that the line before the mark is that of its record, and that both files are complete up to
    there.
    """
    if not mark.run_seq:
        return
    if _line_before(for_people, mark.for_people)[-1:] != b"\n":
        raise ValueError(f"{for_people} is shorter than it was")
    if _seq_of(_line_before(for_programs, mark.for_programs)) != mark.run_seq:
        raise ValueError(f"{for_programs} does not have event {mark.run_seq} where it was")


def _line_before(path: Path, end: int) -> bytes:
    """The line that ends at `end`; empty if there is none."""
    line = b""
    try:
        with path.open("rb") as file:
            while end > 0 and b"\n" not in line[:-1]:
                begin = max(0, end - _BUFFERED)
                file.seek(begin)
                line = file.read(end - begin) + line
                end = begin
    except OSError:
        return b""
    return line[line.rfind(b"\n", 0, -1) + 1 :]


def _lines_in(path: Path, start: int) -> int:
    """The number of whole lines after `start`: a process that was killed may have written part of one."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    except FileNotFoundError:
        return 0


def _seq_of_line(path: Path, start: int, number: int) -> int:
    """The `runSeq` of a line; 0 if there is no such line, or it cannot be read."""
    if not number:
        return 0
    with path.open("rb") as file:
        file.seek(start)
        return _seq_of(next(islice(file, number - 1, None), b""))


def _seq_of(line: bytes) -> int:
    try:
        return int(msgspec.json.decode(line)["runSeq"])
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        return 0


def _cut(path: Path, start: int, lines: int) -> None:
    """Keep this many lines from `start` on."""
    if not path.exists():
        return
    with path.open("rb+") as file:
        file.seek(start)
        for _ in range(lines):
            file.readline()
        file.truncate(file.tell())
