"""The logs in a run's directory: one line per event, for people (`workflow.jsonl`) and for programs (`events.jsonl`).

They are a view of the log and not durable themselves; what a crash lost is written again when the run goes on.
"""

from collections.abc import Sequence
from typing import Any, Final, TextIO

import msgspec

from podium.core.envelope import encode_envelope
from podium.model.events import EventRecord, EventType
from podium.runtime.rundir import RunDirectory

_LEVELS: Final[dict[str, str]] = {
    EventType.STEP_FAILED: "error",
    EventType.RUN_FAILED: "error",
    EventType.STEP_RETRY_SCHEDULED: "warning",
    EventType.STEP_INTERRUPTED: "warning",
    EventType.ALERT_RAISED: "warning",
}


class Journal:
    def __init__(self, directory: RunDirectory) -> None:
        self._for_people = (directory.logs / "workflow.jsonl").open("a", encoding="utf-8")
        self._path = directory.logs / "events.jsonl"
        self._seen = _last_seq(self._path)
        self._for_programs = self._path.open("ab")

    def __call__(self, records: Sequence[EventRecord]) -> None:
        for record in records:
            if record.run_seq <= self._seen:
                continue
            self._seen = record.run_seq
            self._for_programs.write(encode_envelope(record) + b"\n")
            _write_line(self._for_people, record)
        self._for_programs.flush()
        self._for_people.flush()

    def close(self) -> None:
        self._for_people.close()
        self._for_programs.close()


def _write_line(file: TextIO, record: EventRecord) -> None:
    line: dict[str, Any] = {
        "timestamp": record.emitted_at,
        "run_id": record.run.run_id,
        "level": _LEVELS.get(record.event_type, "info"),
        "message": told(record),
    }
    if record.step_id is not None:
        line["step"] = record.step_id
    file.write(msgspec.json.encode(line).decode() + "\n")


def told(record: EventRecord) -> str:
    """An event in a sentence."""
    payload: dict[str, Any] = msgspec.json.decode(record.payload)
    error = payload.get("error") or {}
    attempt = f" (attempt {record.logical_attempt_id})" if record.logical_attempt_id > 1 else ""
    match record.event_type:
        case EventType.STEP_STARTED:
            return f"started{attempt}"
        case EventType.STEP_COMPLETED:
            return f"completed{attempt}"
        case EventType.STEP_FAILED:
            return f"failed{attempt}: {error.get('message') or error.get('code') or 'no reason given'}"
        case EventType.STEP_SKIPPED:
            return f"skipped: {payload.get('reason', '')}"
        case EventType.STEP_RETRY_SCHEDULED:
            return f"will be tried again at {payload.get('due')}"
        case EventType.STEP_INTERRUPTED:
            return "was interrupted; whether it happened is not known"
        case EventType.RUN_COMPLETED:
            return "run completed"
        case EventType.RUN_FAILED:
            return f"run failed: {error.get('message') or payload.get('reason') or ''}"
        case EventType.RUN_CANCELLED:
            return "run cancelled"
        case EventType.SIGNAL_ACCEPTED:
            return f"signal {payload.get('signalType')}"
        case _:
            return record.event_type


def _last_seq(path: Any) -> int:
    """Where the file of an earlier process ends."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 1_000_000))
            lines = file.read().splitlines()
    except OSError:
        return 0
    for line in reversed(lines):
        try:
            return int(msgspec.json.decode(line)["runSeq"])
        except (msgspec.DecodeError, KeyError, TypeError):
            continue
    return 0
