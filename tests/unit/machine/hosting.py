"""A host for the machine that needs no clock, store or process: its world is what a test says.

It keeps the books a real host keeps: it performs nothing before the event is in the log, appends records in order, and
never loses or repeats a command on its own.
"""

from collections.abc import Callable, Iterable
from textwrap import dedent
from typing import Any

import msgspec

from podium.language.diagnostics import Severity
from podium.language.workflow import read_workflow
from podium.log.events import EventRecord, EventType, RunIdentity
from podium.log.ids import RunId
from podium.log.times import Timestamp, later
from podium.machine import Machine
from podium.machine.commands import (
    CancelTask,
    CancelTimer,
    Command,
    Probe,
    Question,
    Record,
    RunTask,
    SetTimer,
)
from podium.plan.loading import plan_bytes
from podium.plan.plan import Plan
from tests.torture.invariants import check_launch

START = "2026-01-01T12:00:00.000000Z"
IDENTITY = RunIdentity(
    run_id=RunId("r1"), tenant_id="t", project_id="p", environment_id="e", plan_id="plan", plan_version="1"
)
TERMINAL = {EventType.RUN_COMPLETED, EventType.RUN_FAILED, EventType.RUN_CANCELLED}

# What a task answers: an exit code, or the whole payload of its end; None: it goes on running.
Answer = int | dict[str, Any] | None
Outcomes = Callable[[RunTask], Answer]


def plan_of(text: str) -> Plan:
    """The plan of a workflow; its version and name need not be written."""
    text = dedent(text)
    if "version:" not in text:
        text = f'version: "2.0"\n{text}'
    if "\nname:" not in text and not text.startswith("name:"):
        text = f"name: test\n{text}"
    reading = read_workflow(text.encode(), "test.yaml")
    errors = [str(found) for found in reading.diagnostics if found.severity is Severity.ERROR]
    assert reading.plan is not None, "\n".join(errors)
    return reading.plan


def record_of(
    seq: int, event_type: str, path: str | None, attempt: int, payload: object, at: Timestamp
) -> EventRecord:
    encoded = msgspec.json.encode(payload)
    return EventRecord(IDENTITY, seq, f"e{seq}", event_type, path, attempt, 1, f"k{seq}", at, at, encoded)


class Host:
    """One run."""

    def __init__(
        self, plan: Plan | str, outcomes: Outcomes | dict[str, Any] | None = None, **facts: Any
    ) -> None:
        self.plan = plan if isinstance(plan, Plan) else plan_of(plan)
        self.machine = Machine(self.plan)
        self.log: list[EventRecord] = []
        self.now: Timestamp = START
        self.tasks: dict[tuple[str, int], RunTask] = {}
        self.started: set[tuple[str, int]] = set()
        self.cancels: dict[tuple[str, int], CancelTask] = {}
        self.timers: dict[str, Timestamp] = {}
        self.probes: dict[str, Probe] = {}
        self.files: set[str] = set()
        self.env: set[str] = set()
        self.facts = facts
        # Every command ever handed out.
        self.commands: list[Command] = []
        self._outcomes = outcomes
        self._told: dict[str, int] = {}

    # --- the log ----------------------------------------------------------------------------------

    def append(self, event_type: str, path: str | None = None, attempt: int = 1, **payload: Any) -> None:
        self._append(event_type, path, attempt, payload)

    def _append(self, event_type: str, path: str | None, attempt: int, payload: dict[str, Any]) -> None:
        pending: list[tuple[str, str | None, int, dict[str, Any]]] = [(event_type, path, attempt, payload)]
        while pending:
            one = pending.pop(0)
            record = record_of(len(self.log) + 1, *one, self.now)
            self.log.append(record)
            commands = self.machine.advance(record)
            self.check()
            pending += self.take(commands)

    def take(self, commands: Iterable[Command]) -> list[tuple[str, str | None, int, dict[str, Any]]]:
        """Write down what is owed; returns the records to append."""
        records: list[tuple[str, str | None, int, dict[str, Any]]] = []
        for command in commands:
            self.commands.append(command)
            match command:
                case Record():
                    records.append((command.event_type, command.path, command.attempt, command.payload))
                case RunTask():
                    self.tasks[command.path, command.attempt] = command
                    check_launch(self.machine, command.path)
                case CancelTask():
                    assert (command.path, command.attempt) in self.tasks
                    self.cancels[command.path, command.attempt] = command
                case SetTimer():
                    self.timers[command.key] = command.due
                case CancelTimer():
                    # A probe that nobody waits for any more is told in the same way.
                    self.timers.pop(command.key, None)
                    self.probes.pop(command.key, None)
                case Probe():
                    self.probes[command.key] = command
        return records

    def check(self) -> None:
        """What holds after every event."""
        if not self.machine.terminal:
            assert self.machine.obligations(), "an open run that waits for nothing"
        assert not self.machine.inconsistent

    # --- the world --------------------------------------------------------------------------------

    def start(self, **inputs: Any) -> "Host":
        self.append(EventType.RUN_STARTED, None, 1, inputs=inputs, **self.facts)
        return self

    def begin(self, path: str, attempt: int = 1) -> None:
        self.started.add((path, attempt))
        self.append(EventType.STEP_STARTED, path, attempt)

    def end(self, path: str, answer: Answer = 0, attempt: int | None = None, **payload: Any) -> None:
        """A task ends: an exit code, and what else is to stand in the payload."""
        if attempt is None:
            attempt = max(number for other, number in self.tasks if other == path)
        del self.tasks[path, attempt]
        cancelled = self.cancels.pop((path, attempt), None)
        if isinstance(answer, dict):
            payload = {**answer, **payload}
        elif answer:
            error = {"category": "USER", "code": "EXIT", "message": f"exit code {answer}", "retryable": True}
            payload = {"exitCode": answer, "error": error, **payload}
        elif cancelled is None:
            payload = {"exitCode": 0, **payload}
        failed = "error" in payload
        if cancelled is not None and not failed and not payload:
            payload = {
                "error": {"category": "USER", "code": cancelled.code, "message": "", "retryable": False}
            }
            failed = True
        self.append(EventType.STEP_FAILED if failed else EventType.STEP_COMPLETED, path, attempt, **payload)

    def time_out(self, path: str) -> None:
        error = {"category": "TIMEOUT", "code": "TIMEOUT", "message": "too long", "retryable": True}
        self.end(path, {"exitCode": 124, "error": error})

    def fire(self, key: str | None = None) -> str:
        """The timer that is due first, or this one."""
        if key is None:
            key = min(self.timers, key=lambda one: (self.timers[one], one))
        due = self.timers.pop(key)
        self.now = max(self.now, due)
        self.append(EventType.TIMER_FIRED, None, 1, key=key)
        return key

    def wait(self, seconds: float) -> None:
        """Let time pass, and fire what becomes due."""
        until = later(self.now, seconds)
        while self.timers and min(self.timers.values()) <= until:
            self.fire()
        self.now = max(self.now, until)

    def answer_probes(self) -> None:
        while self.probes:
            key, probe = self.probes.popitem()
            self.append(
                EventType.PROBE_ANSWERED, None, 1, key=key, answers=[self.knows(q) for q in probe.questions]
            )

    def knows(self, question: Question) -> bool:
        return question.name in (self.files if question.kind == "file" else self.env)

    def signal(self, signal_type: str, **payload: Any) -> None:
        number = self._told[signal_type] = self._told.get(signal_type, 0) + 1
        told = {"signalId": f"{signal_type}-{number}", "signalType": signal_type, "payload": payload}
        self.append(EventType.SIGNAL_ACCEPTED, None, 1, **told)

    # --- running ----------------------------------------------------------------------------------

    def run(self, most: int = 100_000, **inputs: Any) -> "Host":
        """To the end: tasks answer in the order in which they were begun, then probes, then timers."""
        if not self.log:
            self.start(**inputs)
        for _ in range(most):
            if self.machine.terminal or not self.step():
                return self
        raise AssertionError(f"not at its end after {most} events")

    def step(self) -> bool:
        """Do one thing; False if nothing is left to do."""
        if self.probes:
            self.answer_probes()
            return True
        for key, task in self.tasks.items():
            if key in self.cancels:
                self.end(*key[:1], attempt=key[1])
                return True
            answer = self._answer(task)
            if answer is not None:
                if key not in self.started:
                    self.begin(*key)
                else:
                    self.end(key[0], answer, attempt=key[1])
                return True
        if self.timers:
            self.fire()
            return True
        return False

    def _answer(self, task: RunTask) -> Answer:
        if self._outcomes is None:
            return 0
        if callable(self._outcomes):
            return self._outcomes(task)
        answer = self._outcomes.get(task.path, self._outcomes.get(task.step.step_id, 0))
        if isinstance(answer, list):
            return answer[min(task.attempt, len(answer)) - 1]  # type: ignore[no-any-return]
        return answer  # type: ignore[no-any-return]

    # --- what came of it --------------------------------------------------------------------------

    @property
    def ended(self) -> str:
        """The event the run ended with, without `Run`: Completed, Failed, Cancelled; empty while it is open."""
        last = self.log[-1].event_type
        return last.removeprefix("Run") if last in TERMINAL else ""

    @property
    def exit_code(self) -> int:
        return int(self.payload(-1)["exitCode"])

    @property
    def reason(self) -> str:
        return str(self.payload(-1).get("reason", ""))

    def payload(self, index: int) -> dict[str, Any]:
        decoded: dict[str, Any] = msgspec.json.decode(self.log[index].payload)
        return decoded

    def events(self, *types: str) -> list[str]:
        """`path#attempt Type` of the events of steps, in order."""
        return [
            f"{record.step_id}#{record.logical_attempt_id} {record.event_type.removeprefix('Step')}"
            for record in self.log
            if record.step_id is not None and (not types or record.event_type.removeprefix("Step") in types)
        ]

    def ran(self) -> list[str]:
        """The tasks that were begun, in order."""
        return [command.path for command in self.commands if isinstance(command, RunTask)]

    def last(self, path: str, event_type: str) -> dict[str, Any]:
        """The payload of the newest event of that type about a step."""
        for record in reversed(self.log):
            if record.step_id == path and record.event_type == event_type:
                decoded: dict[str, Any] = msgspec.json.decode(record.payload)
                return decoded
        raise AssertionError(f"no {event_type} of {path}")


def replayed(host: Host, upto: int | None = None) -> Machine:
    """A new machine that has folded the host's log."""
    machine = Machine(host.plan)
    for record in host.log[:upto]:
        machine.advance(record)
    return machine


def restored(host: Host) -> Machine:
    return Machine.restore(host.plan, host.machine.checkpoint(plan_hash(host.plan)), plan_hash(host.plan))


def plan_hash(plan: Plan) -> str:
    from hashlib import sha256

    return sha256(plan_bytes(plan)).hexdigest()
