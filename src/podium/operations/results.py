"""How a run ended, and the results of its steps, for programs."""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.log.payloads import RunEnd, StepEnd, fields_of, payload_of
from podium.log.runs import Run
from podium.log.times import moment
from podium.log.transitions import STEP_ENDS, RunStatus
from podium.operations.blocking import blocking
from podium.operations.parts import Parts
from podium.ports.store import Store
from podium.runtime.ends import end_status, last_end
from podium.runtime.reading import records_of
from podium.runtime.spilling import whole

# The exit code of a process that leaves an open run.
_LEFT: Final = 5


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
            fields_of(record),
        )


ReadLog: TypeAlias = Callable[[], Coroutine[Any, Any, list[Event]]]


@dataclass(frozen=True, slots=True)
class StepResult:
    """The newest end of a step: the values of `${steps.NAME...}` in the workflow."""

    path: str
    # completed, failed, skipped or interrupted
    status: str
    attempts: int = 1
    output: str = ""
    exit_code: int | None = None
    # Output captured as JSON, or the return value of a Python function.
    json: Any = None
    lines: tuple[str, ...] = ()
    outputs: Mapping[str, Any] = field(default_factory=dict)
    # Why it failed.
    error: str = ""
    # Everything that was recorded about the end.
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Result:
    """How a run ended, or the state in which this process left it."""

    run_id: str
    # completed, failed, cancelled, timeout or error; of an open run running, paused or waiting
    status: str
    exit_code: int
    outputs: Mapping[str, Any]
    # By name; for a step inside a loop or block the path of the instance, like `Each[0]/Build`.
    steps: Mapping[str, StepResult]
    # Contains state.json, logs and artifacts.
    directory: Path
    _read_log: ReadLog = field(repr=False, compare=False)
    # Why it ended like this.
    reason: str = ""
    error: str = ""

    @property
    def ok(self) -> bool:
        return self.status == "completed"

    def events(self) -> list[Event]:
        """The whole log of the run. Reads the store, and blocks until done."""
        return blocking(self._read_log)


async def read_result(parts: Parts, run_id: RunId, read_log: ReadLog, *, left: str | None = None) -> Result:
    """From the log. `left`: why this process has left an open run."""
    run, directory = await parts.store.get_run(run_id), parts.directory(run_id).path
    steps = {step.path: step async for step in _step_results(parts, run)}
    end = await last_end(parts.store, run)
    if end is None:
        status = "paused" if run.status is RunStatus.PAUSED else "running" if left is None else "waiting"
        return Result(run_id, status, _LEFT, {}, steps, directory, read_log, left or "")
    said = payload_of(await whole(end, parts.values(run_id)), RunEnd)
    return Result(
        run_id,
        end_status(end.event_type, said),
        said.code,
        said.outputs or {},
        steps,
        directory,
        read_log,
        said.reason or "",
        said.message or "",
    )


async def _step_results(parts: Parts, run: Run) -> AsyncIterator[StepResult]:
    """Every end of a step, in the order of the log: the last one of a path is the newest."""
    run_id = run.identity.run_id
    async for record in records_of(parts.store, run_id, values=parts.values(run_id)):
        if record.event_type in STEP_ENDS:
            yield _step_result(record)


def _step_result(record: EventRecord) -> StepResult:
    facts, end = fields_of(record), payload_of(record, StepEnd)
    return StepResult(
        record.step_id or "",
        record.event_type.removeprefix("Step").lower(),
        record.logical_attempt_id,
        # As in `${steps.NAME.output}`: without trailing newlines.
        str(end.output or "").rstrip("\n"),
        end.exit_code,
        facts.get("json"),
        tuple(facts.get("lines") or ()),
        end.outputs or {},
        end.failure,
        facts,
    )


async def events_from(store: Store, run_id: RunId, after: int = 0) -> AsyncIterator[Event]:
    """The current content of the log."""
    async for record in records_of(store, run_id, after=after):
        yield Event.of(record)
