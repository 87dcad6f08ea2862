"""`state.json`: how a run stands, for people and programs that do not know us. A fold of the log, nothing more.

It is written at most four times a second, less often when it is large, and at every end. It is not what a run is
resumed from: that is the log.
"""

import time
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from podium.model.events import EventRecord, EventType
from podium.model.plan import Plan
from podium.model.times import Timestamp, seconds_between
from podium.runtime.rundir import RunDirectory, write_atomically

_SECONDS: Final = 0.25
# No more than a twentieth of the time goes into writing it.
_SHARE: Final = 20
_MOST_ITERATIONS: Final = 1000


class StateFile:
    """Folds events and writes the file now and then."""

    def __init__(self, directory: RunDirectory, plan: Plan, run_id: str) -> None:
        self._directory = directory
        self._workflow = plan.workflow
        self._next_write = 0.0
        self.state: dict[str, Any] = {
            "run_id": run_id,
            "status": "running",
            "started_at": None,
            "completed_at": None,
            "context": dict(plan.workflow.context),
            "steps": {},
            "secrets": list(plan.workflow.secrets),
            "current_step": None,
            "error": None,
            "exit_code": None,
            "reason": None,
        }
        self._started: dict[tuple[str, int], Timestamp] = {}

    def __call__(self, records: Sequence[EventRecord]) -> None:
        for record in records:
            self.fold(record)
        if self.state["exit_code"] is not None or time.monotonic() >= self._next_write:
            self.write()

    def write(self) -> None:
        began = time.monotonic()
        content = msgspec.json.format(msgspec.json.encode(self.state), indent=2)
        write_atomically(self._directory.state, content, durable=False)
        took = time.monotonic() - began
        self._next_write = time.monotonic() + max(_SECONDS, took * _SHARE)

    def fold(self, record: EventRecord) -> None:
        state = self.state
        match record.event_type:
            case EventType.RUN_STARTED:
                state["started_at"] = record.emitted_at
                state["status"] = "running"
            case EventType.RUN_PAUSED:
                state["status"] = "paused"
            case EventType.RUN_RESUMED:
                state["status"] = "running"
            case EventType.RUN_REOPENED:
                state |= {
                    "status": "running",
                    "completed_at": None,
                    "exit_code": None,
                    "error": None,
                    "reason": None,
                }
            case EventType.RUN_COMPLETED | EventType.RUN_FAILED | EventType.RUN_CANCELLED:
                self._end(record)
            case _ if record.step_id is not None:
                self._step(record)

    def _end(self, record: EventRecord) -> None:
        payload = _payload(record)
        error = payload.get("error") or {}
        status = record.event_type.removeprefix("Run").lower()
        if error.get("category") == "TIMEOUT":
            status = "timeout"
        self.state |= {
            "status": status,
            "completed_at": record.emitted_at,
            "exit_code": payload.get("exitCode"),
            "reason": payload.get("reason"),
            "error": error.get("message"),
            "current_step": None,
        }
        if payload.get("outputs"):
            self.state["outputs"] = payload["outputs"]

    def _step(self, record: EventRecord) -> None:
        assert record.step_id is not None
        path, attempt = record.step_id, record.logical_attempt_id
        if record.event_type == EventType.STEP_STARTED:
            self._started[path, attempt] = record.emitted_at
            self.state["current_step"] = path
            payload = _payload(record)
            waiting = "approval" in payload
            self._put(path, {"status": "waiting" if waiting else "running", "attempts": attempt})
            if waiting:
                self.state["status"] = "waiting"
            return
        ended = _ENDS.get(record.event_type)
        if ended is None:
            return
        payload = _payload(record)
        error = payload.get("error")
        step: dict[str, Any] = {
            "status": ended,
            "exit_code": payload.get("exitCode"),
            "output": payload.get("output", ""),
            "duration": None,
            "completed_at": record.emitted_at,
            "skipped": ended == "skipped",
            "timed_out": (error or {}).get("category") == "TIMEOUT",
            "truncated": payload.get("truncated", False),
            "output_bytes": payload.get("outputBytes", len(str(payload.get("output", "")).encode())),
            "stderr_tail": payload.get("stderrTail", ""),
            "attempts": attempt,
            "visits": attempt,
            "error": error,
        }
        began = self._started.pop((path, attempt), None)
        if began is not None:
            step["duration"] = seconds_between(began, record.emitted_at)
        for name, key in (
            ("summary", "summary"),
            ("exitReason", "exit_reason"),
            ("usage", "usage"),
            ("outputs", "outputs"),
        ):
            if name in payload:
                step[key] = payload[name]
        self._put(path, step)
        if self.state["status"] == "waiting":
            self.state["status"] = "running"

    def _put(self, path: str, step: dict[str, Any]) -> None:
        """Steps inside loops and blocks stand below them."""
        steps = self.state["steps"]
        parts = path.split("/")
        for part in parts[:-1]:
            name, index = _split(part)
            owner = steps.setdefault(name, {"status": "running"})
            if index is None:
                steps = owner.setdefault("branches", {})
                continue
            iterations = owner.setdefault("iterations", [])
            found = next((one for one in reversed(iterations) if one["index"] == index), None)
            if found is None:
                found = {"index": index, "status": "running", "steps": {}}
                iterations.append(found)
                if len(iterations) > _MOST_ITERATIONS:
                    _fold_away(iterations)
            steps = found["steps"]
        name = _split(parts[-1])[0]
        old = steps.get(name, {})
        kept = {key: old[key] for key in ("iterations", "branches") if key in old}
        steps[name] = {**kept, **step}
        if len(parts) > 1:
            _mark_iteration(self.state["steps"], parts, step)


def _mark_iteration(steps: dict[str, Any], parts: list[str], step: dict[str, Any]) -> None:
    name, index = _split(parts[0])
    if index is None or len(parts) != 2 or step["status"] == "running":
        return
    for one in reversed(steps.get(name, {}).get("iterations", ())):
        if one["index"] == index:
            one["status"] = "failed" if step["status"] == "failed" else "completed"
            return


def _fold_away(iterations: list[dict[str, Any]]) -> None:
    """The oldest that did not fail; the log has them all."""
    for place, one in enumerate(iterations):
        if one["status"] == "completed":
            del iterations[place]
            return
    del iterations[0]


def _split(part: str) -> tuple[str, int | None]:
    name, _, rest = part.partition("[")
    name = name.split("#", 1)[0]
    return name, int(rest.rstrip("]")) if rest.rstrip("]").isdigit() else None


_ENDS: Final[dict[str, str]] = {
    EventType.STEP_COMPLETED: "completed",
    EventType.STEP_FAILED: "failed",
    EventType.STEP_SKIPPED: "skipped",
    EventType.STEP_INTERRUPTED: "failed",
}


def _payload(record: EventRecord) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(record.payload)
    return decoded
