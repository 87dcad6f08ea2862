"""A host that does everything a host may do, in any order, and keeps books of its own.

After every event it asks: does a machine that folded the log from its beginning say the same; do its own books agree
with what the machine says it owes; is everything true that `invariants.py` counts again?
"""

from collections import Counter, deque
from random import Random
from typing import Any, Final
from unittest.mock import patch

import msgspec

from podium.log.events import EventRecord, EventType
from podium.log.times import Timestamp, later
from podium.machine import Machine
from podium.machine.commands import CancelTask, CancelTimer, Command, Probe, Record, RunTask, SetTimer
from podium.machine.graphs import BAD
from podium.machine.tree import Phase
from podium.plan.loading import plan_path
from podium.plan.plan import Agent, Plan
from podium.plan.plan import Command as CommandBody
from tests.torture.generator import Generator
from tests.torture.interpreter import Interpreter
from tests.torture.invariants import check, check_launch, visits_of
from tests.torture.views import views_agree
from tests.unit.machine.hosting import START, TERMINAL, record_of

_MAX_ACTIONS: Final = 250
_SHA: Final = "h"
# What may come of an event while the run is held: facts are taken in, delays are set, people are answered.
_NOT_WHILE_HELD: Final = (RunTask, CancelTask, Probe)
_NOT_RECORDED_WHILE_HELD: Final = frozenset({EventType.STEP_STARTED, *TERMINAL})
_NEVER_REPEATED: Final = frozenset(
    {
        EventType.SIGNAL_ACCEPTED, EventType.STEP_SKIPPED, EventType.STEP_RETRY_SCHEDULED, EventType.RUN_PAUSED,
        EventType.RUN_RESUMED, EventType.RUN_REOPENED, EventType.SIGNAL_IGNORED, *TERMINAL,
    }
)  # fmt: skip


class Torture:
    """One run."""

    def __init__(self, seed: int, *, plain: bool = False, plan: Plan | None = None) -> None:
        self.seed = seed
        self.plain = plain
        generator = Generator(Random(f"plan {seed}"), plain=plain)
        self.plan = plan if plan is not None else generator.plan()
        self.features = generator.features
        self.random = Random(f"run {seed}")
        # How likely a task is to succeed.
        self.likely = self.random.choice([0.5, 0.75, 0.9, 1.0])
        self.machine = Machine(self.plan)
        # Folds the log from its beginning, and is never restored.
        self.replica = Machine(self.plan, self.machine.program)
        self.log: list[EventRecord] = []
        self.now: Timestamp = START
        self.tasks: dict[tuple[str, int], RunTask] = {}
        self.started: set[tuple[str, int]] = set()
        self.cancels: dict[tuple[str, int], CancelTask] = {}
        self.timers: dict[str, Timestamp] = {}
        self.probes: dict[str, Probe] = {}
        self.records: deque[Record] = deque()
        self.used: set[Any] = set()
        self.ran: list[tuple[str, int]] = []
        self.paused = False
        self.cycle = 0
        self.signals = 0
        self.reopened = 0
        self.quiet = plain
        # The newest override of a variable, by the path that it was sent for.
        self.overridden: dict[str, str] = {}
        self.done: Counter[str] = Counter()

    # --- the log ----------------------------------------------------------------------------------

    def append(
        self,
        event_type: str,
        path: str | None = None,
        attempt: int = 1,
        payload: dict[str, Any] | None = None,
    ) -> list[Command]:
        self.done[event_type] += 1
        self.now = later(self.now, self.random.choice([0, 0.01, 0.3]))
        # Now and then a clock is behind.
        at = later(self.now, -5) if self.random.random() < 0.05 else self.now
        record = record_of(len(self.log) + 1, event_type, path, attempt, payload or {}, at)
        self.log.append(record)
        held = self.machine.pause_cycle if self.machine.hold.reasons else 0
        before, was_over = self.machine.now, self.machine.terminal
        commands = self.machine.advance(record)
        assert self.replica.advance(record) == commands, "replay decides differently"
        assert self.machine.now >= before, "time runs back"
        if held == self.machine.pause_cycle and self.machine.hold.reasons:
            self._check_held(commands)
        if was_over and event_type != EventType.RUN_REOPENED:
            assert commands == [], "a finished run moves"
        self._follow_log(record, payload or {})
        self._note_override(payload or {}, commands)
        self._take(commands)
        check(self.machine)
        self._check_books()
        return commands

    def _note_override(self, signal: dict[str, Any], commands: list[Command]) -> None:
        if signal.get("signalType") != "INJECT_OVERRIDE" or self.machine.terminal:
            return
        ignored = any(
            isinstance(one, Record) and one.event_type == EventType.SIGNAL_IGNORED for one in commands
        )
        env = signal["payload"]["override"].get("env")
        if env is not None and not ignored and signal["payload"]["stepId"] in self.machine.changes:
            self.overridden[signal["payload"]["stepId"]] = env["N"]
            self.done["a variable is overridden"] += 1

    def _check_override(self, task: RunTask) -> None:
        """An attempt gets what was sent for exactly its path, else for the step wherever it runs."""
        if isinstance(task.step.body, CommandBody | Agent):
            expected = self.overridden.get(task.path, self.overridden.get(plan_path(task.path)))
            assert task.step.body.work.env.get("N") == expected, f"{task.path} has got something else"
            self.done["an overridden attempt"] += expected is not None

    def _check_held(self, commands: list[Command]) -> None:
        for command in commands:
            assert not isinstance(command, _NOT_WHILE_HELD), f"moves while held: {command}"
            if isinstance(command, Record):
                assert command.event_type not in _NOT_RECORDED_WHILE_HELD, f"moves while held: {command}"

    def _follow_log(self, record: EventRecord, payload: dict[str, Any]) -> None:
        match record.event_type:
            case EventType.RUN_PAUSED:
                assert not self.paused
                assert record.logical_attempt_id == self.cycle + 1
                self.paused = True
                self.cycle += 1
            case EventType.RUN_RESUMED:
                assert self.paused
                assert record.logical_attempt_id == self.cycle
                self.paused = False
            case EventType.RUN_COMPLETED | EventType.RUN_FAILED | EventType.RUN_CANCELLED:
                assert not self.paused, "ended while paused"
                assert not self.tasks, f"ended and still running: {list(self.tasks)}"
                assert not self.records, "something stands behind the end"
                assert unended(self.log) == [], "begun and never ended"
                assert not self.timers or all("breath" in key for key in self.timers)
                self.probes.clear()
                self.timers.clear()

    def _take(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case RunTask():
                    key = (command.path, command.attempt)
                    self._use(("task", *key))
                    assert all(path != command.path for path, _ in self.tasks), "two attempts at once"
                    self.tasks[key] = command
                    self.ran.append(key)
                    check_launch(self.machine, command.path)
                    self._check_override(command)
                case CancelTask():
                    assert (command.path, command.attempt) in self.tasks, "stops what does not run"
                    assert command.code in ("CANCELLED", "JOIN_DECIDED", "INTERRUPTED")
                    self.cancels[command.path, command.attempt] = command
                case SetTimer():
                    self._use(("timer", command.key))
                    self.timers[command.key] = command.due
                case CancelTimer():
                    self.timers.pop(command.key, None)
                    self.probes.pop(command.key, None)
                case Probe():
                    self._use(("probe", command.key))
                    self.probes[command.key] = command
                case Record():
                    subject = (
                        command.path or command.payload.get("signalId") or command.payload.get("stepId", "")
                    )
                    if command.event_type in (EventType.RUN_PAUSED, EventType.RUN_RESUMED):
                        subject = ""
                    self._use((command.event_type, subject, command.attempt))
                    self.records.append(command)

    def _use(self, key: Any) -> None:
        assert key not in self.used, f"used twice: {key}"
        self.used.add(key)

    def _check_books(self) -> None:
        """What the machine says it owes is what it has handed out and was not answered."""
        running: set[tuple[str, int]] = set()
        stopping: dict[tuple[str, int], CancelTask] = {}
        timers: dict[str, Timestamp] = {}
        probes: set[str] = set()
        records: list[Record] = []
        owed = self.machine.outstanding()
        assert _sorted(self.replica.outstanding()) == _sorted(owed)
        for command in owed:
            match command:
                case RunTask():
                    running.add((command.path, command.attempt))
                case CancelTask():
                    stopping[command.path, command.attempt] = command
                case SetTimer():
                    timers[command.key] = command.due
                case Probe():
                    probes.add(command.key)
                case Record():
                    records.append(command)
        assert running == self.tasks.keys() - self.cancels.keys()
        assert stopping == self.cancels
        assert timers.keys() == self.timers.keys()
        assert all("breath" in key or due == self.timers[key] for key, due in timers.items())
        assert probes == self.probes.keys()
        assert records == list(self.records)

    # --- what the world does ----------------------------------------------------------------------

    def run(self) -> None:
        # Often so few operations at a time that the breather is met everywhere.
        most = self.random.choice([2000, 2000, 9, 4, 1])
        with patch("podium.machine.machine._MAX_OPERATIONS", most):
            self._run()
            views_agree(self.plan, self.log, noisy=True)

    def _run(self) -> None:
        if not self.plain and self.random.random() < 0.03:
            self._signal("CANCEL")
        self.append(EventType.RUN_STARTED, None, 1, {"inputs": {}})
        for turn in range(_MAX_ACTIONS * 4):
            if self.machine.terminal and not self._after_the_end():
                break
            if turn == _MAX_ACTIONS and not self.plain:
                self._enough()
            self._act()
        if self.plain:
            self._compare()
        else:
            assert self.machine.terminal, f"not at its end: {self.machine.obligations()[:5]}"

    def _act(self) -> None:
        roll = self.random.random()
        if not self.plain and roll < 0.05:
            self._noise()
        if roll < 0.12:
            self._crash()
        if not self.quiet and roll > (0.75 if self._failed_in_graphs() else 0.88):
            self._any_signal()
            return
        choices: list[Any] = []
        if self.records:
            choices += [self._record] * 6
        if self.tasks:
            choices += [self._task] * 4
        if self.probes:
            choices += [self._probe] * 3
        if self._due():
            choices += [self._timer] * (1 if self.tasks or self.records or self.probes else 2)
        people = [one for one in self.machine.obligations() if one.kind in ("approval", "doubt")]
        if people:
            choices += [self._answer_person]
        if not choices:
            assert not self.machine.terminal
            assert self.machine.hold.reasons, f"nothing to do: {self.machine.obligations()}"
            choices = [self._release]
        self.random.choice(choices)()

    def _record(self) -> None:
        record = self.records.popleft()
        self.append(record.event_type, record.path, record.attempt, record.payload)

    def _task(self) -> None:
        key = self.random.choice(list(self.tasks))
        if key not in self.started and self.random.random() < 0.6:
            self.started.add(key)
            self.append(EventType.STEP_STARTED, *key)
            return
        stopped = self.cancels.pop(key, None)
        del self.tasks[key]
        event, code = self.outcome(*key)
        usage = {"costUsd": self.random.choice([0, 0.1, 0.7]), "tokens": 5}
        if stopped is not None and self.random.random() < 0.7:
            error = {"category": "USER", "code": stopped.code, "message": "", "retryable": False}
            self.append(EventType.STEP_FAILED, *key, {"error": error})
        elif event == "success":
            self.append(EventType.STEP_COMPLETED, *key, {"exitCode": 0, "output": "x\n", "usage": usage})
        else:
            category = "TIMEOUT" if event == "timeout" else "USER"
            error = {"category": category, "code": "EXIT", "message": "", "retryable": True}
            self.append(EventType.STEP_FAILED, *key, {"exitCode": code, "error": error, "usage": usage})

    def outcome(self, path: str, attempt: int) -> tuple[str, int]:
        """The same whenever it is asked: the interpreter asks, too."""
        random = Random(f"{self.seed} {path} {attempt}")
        if random.random() < self.likely:
            return "success", 0
        return random.choice([("timeout", 124), ("failure", 1), ("failure", 1), ("failure", 3)])

    def knows(self, name: str) -> bool:
        return Random(f"{self.seed} {name}").random() < 0.6

    def _probe(self) -> None:
        key = self.random.choice(list(self.probes))
        answers = [self.knows(question.name) for question in self.probes.pop(key).questions]
        self.append(EventType.PROBE_ANSWERED, None, 1, {"key": key, "answers": answers})

    def _timer(self) -> None:
        key = min(self._due(), key=lambda one: (self.timers[one], one))
        due = self.timers.pop(key)
        if self.random.random() < 0.8:
            self.now = max(self.now, due)
        self.append(EventType.TIMER_FIRED, None, 1, {"key": key})
        assert self.machine.now >= due or "breath" in key, "a timer fired and time stood still"

    def _due(self) -> list[str]:
        """In a plain run no limit is ever reached."""
        return [key for key in self.timers if not (self.plain and "|limit|" in key)]

    def _answer_person(self) -> None:
        asked = self.random.choice([o for o in self.machine.obligations() if o.kind in ("approval", "doubt")])
        yes = self.outcome(asked.subject, asked.attempt)[0] == "success"
        if self.plain or self.random.random() < 0.6:
            self._signal("APPROVE" if yes else "REJECT", stepId=asked.subject)
            return
        found = self.machine.find_scope(asked.subject)
        assert found is not None
        names = [node.step_id for node in found[0].block.nodes]
        match self.random.randrange(4):
            case 0:
                self._signal("APPROVE")  # for the only one that asks, if there is only one
            case 1:
                self._signal("SKIP_STEP", stepId=asked.subject)
            case _:
                self._signal("REJECT", stepId=asked.subject, to=self.random.choice(names), reason="no")

    def _release(self) -> None:
        # What is inside something sets aside less than that has.
        budgets = {
            path: {"usd": 10 ** (8 - path.count("/")), "tokens": 10 ** (12 - path.count("/"))}
            for path in self.machine.spending.accounts
            if path
        }
        self._signal("UPDATE_PARAMS", params={"budget": {"usd": 10**9, "tokens": 10**13}, "budgets": budgets})
        self._signal("RESUME")

    def _signal(self, signal_type: str, **payload: Any) -> None:
        self.signals += 1
        told = {"signalId": f"signal{self.signals}", "signalType": signal_type, "payload": payload}
        self.done[signal_type] += 1
        self.append(EventType.SIGNAL_ACCEPTED, None, 1, told)

    def _any_signal(self) -> None:
        kinds = (
            ["PAUSE"] * 4
            + ["RESUME"] * 4
            + ["RETRY_STEP"] * 6
            + ["SKIP_STEP"] * 3
            + ["REJECT", "UPDATE_PARAMS", "UPDATE_TARGET"]
            + ["INJECT_OVERRIDE"] * 3
        )
        if self.machine.hold.reasons:
            kinds += ["RESUME"] * 4
        kind = self.random.choice([*kinds, "CANCEL"] if self.random.random() < 0.5 else kinds)
        if self.random.random() < 0.01:
            kind = "EMERGENCY_STOP"
        match kind:
            case "RETRY_STEP":
                self._signal(kind, stepId=self._aim(), force=self.random.random() < 0.3)
            case "SKIP_STEP":
                self._signal(kind, stepId=self._aim())
            case "INJECT_OVERRIDE":
                self._signal(kind, stepId=self._aim_at_all(), override=self._any_override(), reason="r")
            case "UPDATE_TARGET":
                self._signal(kind, stepId=self._aim_at_all(), newTarget="somewhere", reason="r")
            case "EMERGENCY_STOP":
                self._signal(kind, reason="r", forceKill=self.random.random() < 0.5)
            case "REJECT":
                names = [step.step_id for step in self.plan.workflow.block.steps]
                self._signal(kind, stepId=self._aim(), to=self.random.choice(names))
            case "UPDATE_PARAMS":
                self._signal(
                    kind, params={"context": {"n": self.random.randrange(3)}, "budget": {"usd": 2, "soft": 1}}
                )
            case _:
                self._signal(kind)

    def _aim_at_all(self) -> str:
        """Often at every instance of a step."""
        path = self._aim()
        return plan_path(path) if self.random.random() < 0.4 else path

    def _any_override(self) -> dict[str, Any]:
        env = {"env": {"N": str(self.signals)}}
        retry = {"retry": {"attempts": self.random.randrange(1, 4), "delay": 1}}
        return self.random.choice([env, env, retry, {"timeout": 9, **env}, {"message": "m"}])

    def _aim(self) -> str:
        """At something worth it: a failed step of an open graph, what is live, what is in the log."""
        failed, live = self._failed_in_graphs(), []
        for visit in visits_of(self.machine.root) if self.machine.root is not None else ():
            if visit.phase in (Phase.BACKOFF, Phase.HELD, Phase.DOUBT, Phase.SETTLED, Phase.READY):
                live += [visit.path] * 3
            live.append(visit.path)
            for scope in visit.scopes.values():
                live += [scope.prefix + node.step_id for node in scope.block.nodes]
        told = [record.step_id for record in self.log if record.step_id is not None]
        if failed and self.random.random() < 0.7:
            self.done["aimed at a failure in an open graph"] += 1
            return self.random.choice(failed)
        pool = live if live and self.random.random() < 0.8 else told
        return self.random.choice(pool) if pool else "s1"

    def _failed_in_graphs(self) -> list[str]:
        return [
            scope.prefix + node.step_id
            for visit in (visits_of(self.machine.root) if self.machine.root is not None else ())
            for scope in visit.scopes.values()
            if scope.graph is not None
            for node in scope.block.nodes
            if scope.graph.states[node.index] == BAD
        ]

    # --- accidents --------------------------------------------------------------------------------

    def _noise(self) -> None:
        """Late and repeated events change nothing."""
        old = self.random.choice(self.log)
        before = self.machine.outstanding()
        assert self.machine.advance(old) == []
        if old.event_type in _NEVER_REPEATED or (old.step_id, old.logical_attempt_id) in self.tasks:
            return
        if any((r.event_type, r.path) == (old.event_type, old.step_id) for r in self.records):
            return
        payload = msgspec.json.decode(old.payload)
        if payload.get("key") in self.timers or payload.get("key") in self.probes:
            return
        seq = len(self.log) + 1
        again = record_of(seq, old.event_type, old.step_id, old.logical_attempt_id, payload, old.emitted_at)
        self.log.append(again)
        assert self.machine.advance(again) == self.replica.advance(again) == []
        assert self.machine.outstanding() == before

    def _crash(self) -> None:
        """The process dies; another one takes over, from a checkpoint or from the log."""
        if self.random.random() < 0.7:
            saved = self.machine.checkpoint(_SHA)
            machine = Machine.restore(self.plan, saved, _SHA)
            assert machine.checkpoint(_SHA) == saved, "restored to something else"
        else:
            machine = Machine(self.plan)
            for record in self.log:
                machine.advance(record)
        assert _state(machine) == _state(self.replica), "a checkpoint is not what replay gives"
        self.machine = machine
        check(machine)
        if self.plain:
            return
        for key in list(self.tasks):
            step = self.tasks[key].step
            if key in self.started and not step.idempotent and self.random.random() < 0.7:
                del self.tasks[key]
                self.cancels.pop(key, None)
                self.append(EventType.STEP_INTERRUPTED, *key)

    def _enough(self) -> None:
        """It has gone on for long: end it."""
        self.quiet = True
        for kind in ("RESUME", "CANCEL", "CANCEL"):
            self._signal(kind)

    def _after_the_end(self) -> bool:
        """Whether it goes on all the same."""
        ended = self.log[-1].event_type
        if self.plain:
            return False
        for event_type in (EventType.TIMER_FIRED, EventType.RUN_STARTED, EventType.STEP_COMPLETED):
            self.append(event_type, "s1" if event_type.startswith("Step") else None)
        if self.reopened >= 2 or self.random.random() < 0.6:
            return False
        self.append(EventType.RUN_REOPENED, None, self.reopened + 2)
        if ended == EventType.RUN_COMPLETED:
            assert self.machine.terminal, "a completed run was reopened"
            return False
        self.reopened += 1
        if self.machine.root is None:
            self.append(EventType.RUN_STARTED, None, 1, {"inputs": {}})
        return True

    # --- the interpreter --------------------------------------------------------------------------

    def _compare(self) -> None:
        if not self.machine.terminal:
            self.done["too long"] += 1  # loops in loops in loops, all of them tried again
            return
        interpreter = Interpreter(self.plan, self.outcome, self.knows)
        ending = interpreter.run()
        if interpreter.order_matters:
            self.done["order matters"] += 1
            return
        self.done["compared"] += 1
        assert sorted(self.ran) == sorted(interpreter.ran), "other attempts than the interpreter's"
        payload = msgspec.json.decode(self.log[-1].payload)
        statuses = {EventType.RUN_COMPLETED: "completed", EventType.RUN_FAILED: "failed"}
        found = (
            statuses.get(EventType(self.log[-1].event_type)),
            payload["exitCode"],
            payload.get("reason", ""),
        )
        assert found == ending, "another end than the interpreter's"


def _sorted(commands: list[Command]) -> list[Command]:
    """A restored machine owes the same, in the order of its tree."""
    return sorted(
        commands,
        key=lambda one: [str(getattr(one, name, "")) for name in ("key", "path", "attempt", "event_type")],
    )


def _state(machine: Machine) -> Any:
    return msgspec.json.decode(machine.checkpoint(_SHA))


def unended(log: list[EventRecord]) -> list[tuple[str, int]]:
    """Attempts that were begun or announced and have no end in the log."""
    begun: dict[tuple[str, int], None] = {}
    ended: set[tuple[str, int]] = set()
    for record in log:
        if record.step_id is None:
            continue
        key = (record.step_id, record.logical_attempt_id)
        if record.event_type == EventType.STEP_RETRY_SCHEDULED:
            begun[record.step_id, msgspec.json.decode(record.payload)["nextAttempt"]] = None
        elif record.event_type == EventType.STEP_STARTED:
            begun[key] = None
        else:
            ended.add(key)
    return [key for key in begun if key not in ended]
