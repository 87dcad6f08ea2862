"""How long runs took to obey a signal: by the times at which the store recorded it and what followed."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from podium.log.events import EventRecord
from podium.testing.engine_promises.histories import payload_of


def pause_delays(log: Sequence[EventRecord]) -> list[float]:
    """For each pause that was resumed: how long after its signal the last step started; 0 if none did."""
    delays, asked, last = [], None, 0.0
    for record in log:
        if record.event_type == "SignalAccepted" and payload_of(record)["signalType"] == "PAUSE":
            asked, last = record, 0.0
        elif record.event_type == "RunResumed":
            delays.append(last)
            asked = None
        elif asked is not None and record.event_type == "StepStarted":
            last = seconds_between(asked, record)
    return delays


def recording_delays(log: Sequence[EventRecord]) -> list[float]:
    """From each pause to the record that the run is paused."""
    asked = [
        one for one in log if one.event_type == "SignalAccepted" and payload_of(one)["signalType"] == "PAUSE"
    ]
    paused = [one for one in log if one.event_type == "RunPaused"]
    return [seconds_between(*pair) for pair in zip(asked, paused, strict=True)]


def started_while_paused(log: Sequence[EventRecord]) -> list[str]:
    found, is_paused = [], False
    for record in log:
        if record.event_type in ("RunPaused", "RunResumed"):
            is_paused = record.event_type == "RunPaused"
        elif is_paused and record.event_type == "StepStarted":
            found.append(f"{record.step_id} started at record {record.run_seq}, while the run was paused")
    return found


def next_start_delays(log: Sequence[EventRecord]) -> list[float]:
    """From each answer to the next start of a step, if there is one."""
    delays, asked = [], None
    for record in log:
        if record.event_type == "SignalAccepted":
            asked = record
        elif asked is not None and record.event_type == "StepStarted":
            delays.append(seconds_between(asked, record))
            asked = None
    return delays


def answer_delays(log: Sequence[EventRecord]) -> list[float]:
    """From each answer to the end of the step that waited for it."""
    answers = {payload_of(one)["signalId"]: one for one in log if one.event_type == "SignalAccepted"}
    ends = [one for one in log if one.event_type == "StepCompleted" and "signalId" in payload_of(one)]
    return [seconds_between(answers[payload_of(end)["signalId"]], end) for end in ends]


def unanswered(log: Sequence[EventRecord]) -> list[str]:
    """What is wrong with the answers of a run: each was accepted once, and each ended one step."""
    sent = [payload_of(one)["signalId"] for one in log if one.event_type == "SignalAccepted"]
    used = [
        payload_of(one)["signalId"]
        for one in log
        if one.event_type == "StepCompleted" and "signalId" in payload_of(one)
    ]
    found = [f"signal {one} was lost" for one in sent if one not in used]
    found += [f"signal {one} was used {used.count(one)} times" for one in set(used) if used.count(one) > 1]
    return found + [f"{one.event_type}: {one.payload!r}" for one in log if one.event_type == "SignalIgnored"]


def seconds_between(one: EventRecord, other: EventRecord) -> float:
    return seconds_of(other) - seconds_of(one)


def seconds_of(record: EventRecord) -> float:
    """When the store recorded it."""
    return datetime.fromisoformat(record.persisted_at).timestamp()


def processes_of(run_directory: Path) -> list[int]:
    """Every process that a step of this run has started and that has not ended."""
    wanted = f"PODIUM_RUN_DIR={run_directory.absolute()}".encode()
    return [int(entry.name) for entry in Path("/proc").iterdir() if _is_of(entry, wanted)]


def _is_of(entry: Path, variable: bytes) -> bool:
    if not entry.name.isdigit():
        return False
    try:
        environment = (entry / "environ").read_bytes().split(b"\0")
        state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return variable in environment and state not in "ZX"
