"""How a run ended, and what its steps gave, for programs."""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from podium.log.events import EventRecord, EventType
from podium.log.ids import RunId
from podium.log.runs import Run
from podium.log.times import moment
from podium.log.transitions import RunStatus
from podium.operations.blocking import blocking
from podium.operations.parts import Parts
from podium.ports.store import Store
from podium.runtime.ends import last_end
from podium.runtime.reading import records_of
from podium.runtime.spilling import whole

_TIMED_OUT: Final = 3
# The exit code of a process that leaves an open run.
_LEFT: Final = 5
_STATUS_OF: Final[Mapping[str, str]] = {
    EventType.STEP_COMPLETED: "completed",
    EventType.STEP_FAILED: "failed",
    EventType.STEP_SKIPPED: "skipped",
    EventType.STEP_INTERRUPTED: "interrupted",
}


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a run's log, as `podium events --json` prints it."""

    seq: int
    type: str
    at: datetime
    # The path of the step; None for events about the run.
    step: str | None
    attempt: int
    payload: Mapping[str, Any]

    @classmethod
    def of(cls, record: EventRecord) -> "Event":
        return cls(
            record.run_seq,
            record.event_type,
            moment(record.emitted_at),
            record.step_id,
            record.logical_attempt_id,
            msgspec.json.decode(record.payload),
        )


ReadLog: TypeAlias = Callable[[], Coroutine[Any, Any, list[Event]]]


@dataclass(frozen=True, slots=True)
class StepResult:
    """The newest end of a step: what `${steps.NAME...}` gives in the workflow."""

    path: str
    # completed, failed, skipped or interrupted
    status: str
    attempts: int = 1
    output: str = ""
    exit_code: int | None = None
    # What the step captured as JSON, or a Python function returned.
    json: Any = None
    lines: tuple[str, ...] = ()
    outputs: Mapping[str, Any] = field(default_factory=dict)
    # Why it failed.
    error: str = ""
    # Everything that is recorded of the end.
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Result:
    """How a run ended, or where it was left."""

    run_id: str
    # completed, failed, cancelled, timeout or error; of an open run running, paused or waiting
    status: str
    exit_code: int
    outputs: Mapping[str, Any]
    # By name; of a step inside a loop or block the path of the instance, like `Each[0]/Build`.
    steps: Mapping[str, StepResult]
    # state.json, logs and artifacts.
    directory: Path
    _read_log: ReadLog = field(repr=False, compare=False)
    # Why it ended so.
    reason: str = ""
    error: str = ""

    @property
    def ok(self) -> bool:
        return self.status == "completed"

    def events(self) -> list[Event]:
        """The whole log of the run. Reads the store, and blocks meanwhile."""
        return blocking(self._read_log)


async def read_result(parts: Parts, run_id: RunId, read_log: ReadLog, *, left: str | None = None) -> Result:
    """As the log has it. `left`: why this process has left an open run."""
    run, directory = await parts.store.get_run(run_id), parts.directory(run_id).path
    steps = {step.path: step async for step in _step_results(parts, run)}
    end = await last_end(parts.store, run)
    if end is None:
        status = "paused" if run.status is RunStatus.PAUSED else "running" if left is None else "waiting"
        return Result(run_id, status, _LEFT, {}, steps, directory, read_log, left or "")
    payload = msgspec.json.decode((await whole(end, parts.values(run_id))).payload)
    error = payload.get("error") or {}
    code = payload.get("exitCode")
    return Result(
        run_id,
        _end_status(end, code, error),
        code if isinstance(code, int) else 1,
        payload.get("outputs") or {},
        steps,
        directory,
        read_log,
        str(payload.get("reason") or ""),
        str(error.get("message") or ""),
    )


def _end_status(end: EventRecord, code: Any, error: Mapping[str, Any]) -> str:
    """As `state.json` has it."""
    status = end.event_type.removeprefix("Run").lower()
    if status == "failed" and code == _TIMED_OUT:
        return "timeout"
    return "error" if status == "failed" and error.get("code") == "INTERNAL_ERROR" else status


async def _step_results(parts: Parts, run: Run) -> AsyncIterator[StepResult]:
    """Every end of a step, in the order of the log: the last of a path is its newest."""
    run_id = run.identity.run_id
    async for record in records_of(parts.store, run_id, values=parts.values(run_id)):
        if record.event_type in _STATUS_OF:
            yield _step_result(record)


def _step_result(record: EventRecord) -> StepResult:
    facts = msgspec.json.decode(record.payload)
    error = facts.get("error") or {}
    return StepResult(
        record.step_id or "",
        _STATUS_OF[record.event_type],
        record.logical_attempt_id,
        # As `${steps.NAME.output}`: without the newlines at its end.
        str(facts.get("output") or "").rstrip("\n"),
        facts.get("exitCode"),
        facts.get("json"),
        tuple(facts.get("lines") or ()),
        facts.get("outputs") or {},
        str(error.get("message") or error.get("code") or ""),
        facts,
    )


async def events_from(store: Store, run_id: RunId, after: int = 0) -> AsyncIterator[Event]:
    """The log as it is now."""
    async for record in records_of(store, run_id, after=after):
        yield Event.of(record)
