"""Random plans under the follower, in a host whose workers append their own events.

The log is simulated, with the rules of the stores. Records reach the host late, out of order and repeatedly; what the
host writes is appended later; people append signals that it does not know of. Workers die, are taken for dead and
continue, or are left over from an earlier host. Hosts are replaced: at random moments, for every fourth seed after each
event. Then the log is asked whether everything happened once and in the right order, and plans in which the order of
answers does not matter have to end as without a follower.

    python -m tests.torture.following --seeds 10000
"""

import argparse
import sys
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from random import Random
from typing import Any, Final
from unittest.mock import patch

import msgspec

from podium.log.drafts import EventDraft, logged
from podium.log.events import EventRecord, EventType, encode_payload
from podium.log.fold import project
from podium.log.times import later
from podium.machine import Machine
from podium.machine.commands import CancelTask, Command, Probe, Record, RunTask, SetTimer
from podium.machine.following import Abandoned, Follower, Work, signal_wake_up
from podium.plan.plan import Block, Call, Plan, Step, Workflow
from podium.ports.store import AppendedEvent
from podium.runtime.writing import new_event
from tests.torture.driving import Torture
from tests.torture.generator import replace_workflow
from tests.torture.simulated_log import Key, RefusedAtEnd, RefusedWhilePaused, SimulatedLog
from tests.torture.views import views_agree
from tests.unit.machine.hosting import IDENTITY

_MAX_ACTIONS: Final = 400
_SHA: Final = "h"
_STOPS: Final = frozenset({"CANCELLED", "JOIN_DECIDED", "INTERRUPTED"})
# What a host takes that will end an attempt.
_ANSWERS: Final = ("abandoned", EventType.STEP_FAILED, EventType.STEP_INTERRUPTED)
_DRAWN_BY_LOT: Final = frozenset(
    {
        EventType.BUDGET_CHARGED,
        EventType.STEP_STARTED,
        EventType.SIGNAL_ACCEPTED,
        EventType.SIGNAL_IGNORED,
        EventType.ALERT_RAISED,
    }
)
# Without these a run of many seeds proves little.
_EXPECTED: Final = (
    "carried",
    "compared",
    "from a checkpoint",
    "refused",
    "refused, late",
    "restarts",
    "taken over",
)
# Every so many-th seed.
_RESTARTS_ALWAYS: Final = 4
_HAS_GAPS: Final = 10
NewFollower = Callable[[Machine], Follower]


def follower_of(machine: Machine) -> Follower:
    return Follower(machine, IDENTITY)


@dataclass(eq=False)
class Host:
    """What one host knows; the next one starts with nothing but the log."""

    follower: Follower
    # Taken and not appended, in order.
    outbox: deque[Work] = field(default_factory=deque)
    timers: dict[str, SetTimer] = field(default_factory=dict)
    probes: dict[str, Probe] = field(default_factory=dict)
    abandoned: list[Abandoned] = field(default_factory=list)
    # Whatever was handed out, each once.
    handed: set[Any] = field(default_factory=set)
    stops: Counter[CancelTask] = field(default_factory=Counter)
    # Given to a worker to be recorded: these may come again.
    carried: set[Any] = field(default_factory=set)
    under_way: set[Key] = field(default_factory=set)
    # Started by an earlier host, and not to be repeated.
    in_doubt: set[Key] = field(default_factory=set)
    # It has folded what follows this record; the rest is in the checkpoint that it started from.
    first: int = 0


@dataclass(eq=False)
class Worker:
    """One engine attempt. Without a host: the one that sent it is gone, or takes it for dead."""

    task: RunTask
    before: list[EventDraft]
    dropped: list[str]
    host: Host | None
    is_working: bool = False
    is_stopped: bool = False
    # Its end is in the log, and the host was not told.
    is_done: bool = False
    # Another worker has the attempt.
    is_fenced: bool = False

    @property
    def key(self) -> Key:
        return (self.task.path, self.task.attempt)


class Following(Torture):
    """One run. `machine` folds every record at once: it is what people see."""

    def __init__(
        self,
        seed: int,
        *,
        plain: bool = False,
        plan: Plan | None = None,
        new_follower: NewFollower = follower_of,
    ) -> None:
        super().__init__(seed, plain=plain, plan=plan)
        self.random = Random(f"following {seed}")
        workflow = _idempotent(self.plan.workflow) if plain else self.plan.workflow
        limit = {"max_parallel": self.random.choice([1, 2, 3, 8])} if plan is None else {}
        self.plan = replace_workflow(self.plan, workflow, limit)
        self.machine = Machine(self.plan)
        self.new_follower = new_follower
        self.restarts_always = seed % _RESTARTS_ALWAYS == 0
        self.has_gaps = seed % _HAS_GAPS == 1
        self.store = SimulatedLog(self._stored, Random(f"gaps {seed}") if self.has_gaps else None)
        self.log = self.store.records
        self.host = Host(new_follower(Machine(self.plan)))
        self.workers: list[Worker] = []
        self.holders: dict[Key, Worker] = {}
        self.generations: Counter[Key] = Counter()
        self.worked: Counter[Key] = Counter()
        # Batches of earlier hosts that are still on their way.
        self.late: list[list[EventDraft]] = []
        self.stops: Counter[CancelTask] = Counter()
        self.stop_codes: dict[Key, set[str]] = {}
        self.wake_ups: set[str] = set()
        self.saved: list[tuple[int, bytes]] = []
        self.has_news = False
        self.start_facts: dict[str, Any] = {"inputs": {}}
        # What is known of an attempt that was stopped.
        self.stop_facts: dict[str, Any] = {"exitCode": 143}

    @property
    def follower(self) -> Follower:
        return self.host.follower

    # --- the log ----------------------------------------------------------------------------------

    def write(self, drafts: Sequence[EventDraft]) -> tuple[AppendedEvent, ...]:
        return self.store.append([self._event(draft) for draft in drafts])

    def _event(self, draft: EventDraft) -> Any:
        self.now = later(self.now, self.random.choice([0, 0.01, 0.3]))
        at = later(self.now, -5) if self.random.random() < 0.05 else self.now
        return new_event(
            IDENTITY,
            draft.event_type,
            max(at, draft.due),
            encode_payload(draft.payload),
            step_id=draft.path,
            attempt=draft.attempt,
            subject=draft.subject,
        )

    def _stored(self, record: EventRecord) -> None:
        self.has_news = True
        self.done[record.event_type] += 1
        commands = self.machine.advance(record)
        assert not self.machine.inconsistent, f"{record.event_type} of {record.step_id} was not decided"
        self.ran += [(one.path, one.attempt) for one in commands if isinstance(one, RunTask)]
        for one in commands:
            if isinstance(one, CancelTask):
                self.stops[one] += 1
                self.stop_codes.setdefault((one.path, one.attempt), set()).add(one.code)
        if self.random.random() < 0.1:
            self.saved.append((record.run_seq, self.machine.checkpoint(_SHA)))

    def append(
        self,
        event_type: str,
        path: str | None = None,
        attempt: int = 1,
        payload: dict[str, Any] | None = None,
    ) -> list[Command]:
        """What people do."""
        signal_id = str(payload["signalId"]) if payload and "signalId" in payload else None
        if not self.store.is_over:
            self.write([EventDraft(event_type, path, attempt, payload or {}, signal_id)])
            if signal_id is not None:
                self.wake_ups.add(signal_wake_up(signal_id))
        return []

    # --- the run ----------------------------------------------------------------------------------

    def _run(self) -> None:
        if not self.plain and self.random.random() < 0.03:
            self._signal("CANCEL")
        self._restart()
        for turn in range(_MAX_ACTIONS * 10):
            if self.follower.machine.terminal:
                break
            if turn == _MAX_ACTIONS and not self.plain:
                self._enough()
            self._act()
            self._check()
            if self.restarts_always and self.has_news:
                self._restart()
                self._check()
            self.has_news = False
        self._check_end()

    def run(self) -> None:
        with patch("podium.machine.machine._MAX_OPERATIONS", self.random.choice([2000, 2000, 9, 4])):
            self._run()

    def _act(self) -> None:
        roll = self.random.random()
        if roll < 0.04 and not self.restarts_always:
            self._restart()
            return
        if not self.quiet and roll > (0.85 if self._failed_in_graphs() else 0.93):
            self._any_signal()
            return
        choices = self._choices()
        if not choices:
            assert self.machine.hold.reasons, f"nothing to do: {self.machine.obligations()[:5]}"
            choices = [self._release]
        self.random.choice(choices)()

    def _choices(self) -> list[Callable[[], None]]:
        host, follower = self.host, self.follower
        choices: list[Callable[[], None]] = []
        if follower.machine.last_seq < self.store.head:
            choices += [self._deliver, self._deliver, self._read]
        if follower.has_work():
            choices += [self._take_work] * 3
        if host.outbox:
            choices += [self._flush] * 3
        if host.abandoned:
            choices += [self._stop_abandoned] * 2
        if host.probes:
            choices += [self._probe] * 2
        if self._due():
            choices += [self._timer] * (1 if self.workers or host.outbox else 3)
        if self.late:
            choices += [self._append_late]
        choices += [self._move_worker] * min(4, 2 * len(self.workers))
        if not self.quiet and any(worker.before and not worker.is_working for worker in self.workers):
            choices += [self._pause_at_once]
        if any(one.kind in ("approval", "doubt") for one in self.machine.obligations()):
            choices += [self._answer_person]
        return choices

    # --- the host ---------------------------------------------------------------------------------

    def _deliver(self) -> None:
        """Some of what is in the log, in any order, some of it again."""
        count = self.random.randrange(1, 6)
        unknown = [one for one in self.log if one.run_seq > self.follower.machine.last_seq]
        found = self.random.sample(unknown, min(count, len(unknown)))
        found += self.random.choices(self.log, k=self.random.randrange(3))
        self.random.shuffle(found)
        self._learn(found)

    def _read(self) -> None:
        self._learn([one for one in self.log if one.run_seq > self.follower.machine.last_seq])
        if self.follower.has_gap:
            assert self.has_gaps, "a complete log has a gap"
            self.follower.accept_gap(self.store.head)
            self._free_ended()
        assert self.follower.machine.last_seq == self.store.head, "the log was read and not folded to its end"

    def _learn(self, records: Iterable[EventRecord]) -> None:
        follower = self.follower
        before, found = follower.machine.last_seq, [logged(one) for one in records]
        follower.learn(found)
        numbers = {one.run_seq for one in found}
        missing = next(
            number for number in range(before + 1, before + len(numbers) + 2) if number not in numbers
        )
        if max(numbers, default=0) >= missing > follower.machine.last_seq:
            assert follower.has_gap, "a gap is not reported"
        self._free_ended()

    def _free_ended(self) -> None:
        folded = self.follower.machine.last_seq
        for key in list(self.host.under_way):
            if any(end.run_seq <= folded for end in self.store.ends.get(key, ())):
                self.host.under_way.discard(key)

    def _take_work(self) -> None:
        host, follower = self.host, self.follower
        with_starts = self.random.random() < 0.9
        work = follower.take(starts=with_starts)
        assert with_starts or not work.starts, "starts although none were wanted"
        self._check_work(work)
        for key in work.cancelled_timers:
            host.timers.pop(key, None)
            host.probes.pop(key, None)
        for timer in work.timers:
            assert timer.key not in work.cancelled_timers, f"{timer.key} is set after it was cancelled"
            host.timers[timer.key] = timer
        if with_starts:
            self._check_books()
        self._check_wake_ups(work)
        if len(work.starts) == 1 and not host.outbox and self.random.random() < 0.6:
            self.done["carried"] += 1
            host.carried.update(_name(draft) for draft in work.events)
            follower.carry(work.starts[0], work.events, work.dropped)
            self.workers.append(Worker(work.starts[0], work.events, work.dropped, host))
            self._begin(msgspec.structs.replace(work, starts=[], events=[], dropped=[]))
        else:
            host.outbox.append(work)

    def _pause_at_once(self) -> None:
        """While a worker is on its way: it must not start any more."""
        self._signal("PAUSE")
        self._read()
        self._take_work()
        while self.host.outbox:
            self._flush()

    def _flush(self) -> None:
        work = self.host.outbox.popleft()
        try:
            written = self.write(work.events)
        except RefusedAtEnd:
            return
        self.wake_ups.difference_update(work.dropped)
        if self.random.random() < 0.7:
            self._learn([one.record for one in written])
        self._begin(work)

    def _begin(self, work: Work) -> None:
        """Its events are in the log, or with a worker: the rest may begin."""
        host = self.host
        self.workers += [Worker(task, [], [], host) for task in work.starts]
        host.probes.update({probe.key: probe for probe in work.probes})
        host.abandoned += work.abandoned
        for command in work.stops:
            for worker in self.workers:
                if worker.host is host and worker.key == (command.path, command.attempt):
                    worker.is_stopped = True

    def _stop_abandoned(self) -> None:
        one = self.host.abandoned.pop(self.random.randrange(len(self.host.abandoned)))
        key = (one.path, one.attempt)
        holder = self.holders.pop(key, None)
        if holder is not None:
            self.workers.remove(holder)
        if key not in self.store.ends and not self.store.is_over:
            self.generations[key] += 1
            self._learn([one.record for one in self.write([one.end])])

    def _probe(self) -> None:
        probe = self.host.probes.pop(self.random.choice(list(self.host.probes)))
        self.follower.answered(probe, [self.knows(question.name) for question in probe.questions])

    def _timer(self) -> None:
        timers = self.host.timers
        timer = timers.pop(min(self._due(), key=lambda one: (timers[one].due, one)))
        self.now = max(self.now, timer.due)
        self.follower.fired(timer)

    def _due(self) -> list[str]:
        return [key for key in self.host.timers if not (self.plain and "|limit|" in key)]

    # --- workers ----------------------------------------------------------------------------------

    def _move_worker(self) -> None:
        self._move(self.random.choice(self.workers))

    def _move(self, worker: Worker) -> None:
        if self.random.random() < (0.4 if worker.is_done else 0.12):
            self._die(worker)
        elif worker.is_done:
            self._report(worker)
        elif worker.is_working:
            self._end(worker)
        elif worker.is_stopped and self.random.random() < 0.5:
            self._remove(worker)
            self._tell(worker, self.follower.lost if self.random.random() < 0.5 else self._never_began)
        else:
            self._start(worker)

    def _never_began(self, task: RunTask) -> None:
        self.follower.performed(task, {})

    def _start(self, worker: Worker) -> None:
        """One transaction: what comes first, StepStarted, and the attempt's lease."""
        holder, key = self.holders.get(worker.key), worker.key
        if key not in self.store.ends and holder is not None:
            if not (worker.is_stopped or (holder.host is None and self.random.random() < 0.3)):
                return  # it waits for the end, or until the other's lease lapses
            holder.is_fenced = True
            self.done["taken over"] += 1
        try:
            writes = [self._event(draft) for draft in worker.before]
            begun = self.store.append(writes)
        except RefusedWhilePaused:
            self._remove(worker)
            self.done["refused"] += 1
            self._tell(worker, self.follower.refused)
            return
        except RefusedAtEnd:
            self._remove(worker)
            return
        self.wake_ups.difference_update(worker.dropped)
        self._hear(worker, begun)
        if key in self.store.ends:
            worker.is_done = True
            return
        self.holders[key] = worker
        self.generations[key] += 1
        ours = [
            one for one in begun if (one.record.event_type, one.record.step_id) == ("StepStarted", key[0])
        ]
        first = not ours[0].duplicate if ours else self.generations[key] == 1
        if worker.task.step.idempotent or first:
            worker.is_working = True
            self._works(key, worker.task)
        else:
            self._record_end(worker, EventDraft(EventType.STEP_INTERRUPTED, *key))

    def _works(self, key: Key, task: RunTask) -> None:
        assert key not in self.store.ends, f"{key} starts after its end"
        self.worked[key] += 1
        assert task.step.idempotent or self.worked[key] == 1, f"{key} is repeated and must not be"

    def _end(self, worker: Worker) -> None:
        if worker.is_fenced:
            self._remove(worker)
        elif worker.is_stopped and self.random.random() < 0.7:
            self._remove(worker)
            self._tell(worker, lambda task: self.follower.performed(task, self.stop_facts))
        elif (end := self.end_of(worker.task)) is not None:
            self._record_end(worker, end)

    def end_of(self, task: RunTask) -> EventDraft | None:
        """None: it does not end by itself."""
        event, code = self.outcome(task.path, task.attempt)
        facts = {"usage": {"costUsd": code / 10, "tokens": 5}}
        if event == "success":
            payload: dict[str, Any] = {"exitCode": 0, "output": "x\n", **facts}
            return EventDraft(EventType.STEP_COMPLETED, task.path, task.attempt, payload)
        category = "TIMEOUT" if event == "timeout" else "USER"
        error = {"category": category, "code": "EXIT", "message": "", "retryable": True}
        payload = {"exitCode": code, "error": error, **facts}
        return EventDraft(EventType.STEP_FAILED, task.path, task.attempt, payload)

    def _record_end(self, worker: Worker, end: EventDraft) -> None:
        try:
            written = self.write([end])
        except RefusedAtEnd:
            self._remove(worker)
            return
        worker.is_done = True
        self._hear(worker, written)
        if self.random.random() < 0.5:
            self._report(worker)

    def _hear(self, worker: Worker, written: Sequence[AppendedEvent]) -> None:
        if worker.host is self.host and self.random.random() < 0.5:
            self._learn([one.record for one in written])

    def _report(self, worker: Worker) -> None:
        self._remove(worker)
        self._tell(worker, self.follower.performed)

    def _tell(self, worker: Worker, what: Callable[[RunTask], None]) -> None:
        """The host that sent it hears of it."""
        if worker.host is self.host:
            self.host.under_way.discard(worker.key)
            self.host.handed.discard(("start", *worker.key))
            what(worker.task)

    def _die(self, worker: Worker) -> None:
        self.done["a worker died"] += 1
        match self.random.randrange(3):
            case 0:  # the engine sends it to another worker
                self._remove(worker)
                again = Worker(worker.task, worker.before, worker.dropped, worker.host)
                again.is_stopped = worker.is_stopped
                self.workers.append(again)
            case 1:
                self._remove(worker)
                self._tell(worker, self.follower.lost)
            case _:  # it is taken for dead
                self._tell(worker, self.follower.lost)
                worker.host = None

    def _remove(self, worker: Worker) -> None:
        self.workers.remove(worker)
        if self.holders.get(worker.key) is worker:
            del self.holders[worker.key]

    # --- another host -----------------------------------------------------------------------------

    def _restart(self) -> None:
        self.done["restarts"] += 1
        if self.host.outbox and self.random.random() < 0.5:
            self.late.append(self.host.outbox[0].events)
        for worker in list(self.workers):
            worker.host = None
            if self.random.random() < 0.3:
                self._remove(worker)
        machine = self._machine_from_the_log()
        self.host = Host(self.new_follower(machine), first=machine.last_seq)
        self._read()
        for one in machine.outstanding():
            if (
                isinstance(one, RunTask)
                and not one.step.idempotent
                and machine.has_started(one.path, one.attempt)
            ):
                self.host.in_doubt.add((one.path, one.attempt))
        if self.machine.root is None and not self.machine.ends_before_start:
            self.follower.submit(EventDraft(EventType.RUN_STARTED, payload=self.start_facts))
        self.follower.restart()

    def _machine_from_the_log(self) -> Machine:
        if not self.saved or self.random.random() < 0.3:
            return Machine(self.plan, self.machine.program)
        self.done["from a checkpoint"] += 1
        _, saved = self.random.choice(self.saved)
        return Machine.restore(self.plan, saved, _SHA)

    def _append_late(self) -> None:
        events = self.late.pop()
        try:
            self.write(events)
        except (RefusedWhilePaused, RefusedAtEnd):
            self.done["refused, late"] += 1

    # --- what must hold ---------------------------------------------------------------------------

    def _check(self) -> None:
        follower = self.follower
        assert not follower.machine.inconsistent, "the follower's machine does not know its own decisions"
        assert not self._has_too_many(), "more attempts than slots"
        assert follower.machine.last_seq <= self.store.head
        if follower.machine.last_seq == self.store.head:
            assert not follower.has_gap, "a gap behind the end of the log"
            if self.random.random() < 0.1 or follower.machine.terminal:
                assert _state(follower.machine) == _state(self.machine), "folded in another order"

    def _has_too_many(self) -> bool:
        return max(self.follower.running, len(self.host.under_way)) > self.plan.workflow.max_parallel

    def _check_work(self, work: Work) -> None:
        machine, host = self.follower.machine, self.host
        for draft in work.events:
            name = _name(draft)
            assert name not in host.handed or name in host.carried or draft.path is not None, f"{name} twice"
            host.handed.add(name)
        for task in work.starts:
            attempt = (task.path, task.attempt)
            assert not machine.hold.reasons, f"{attempt} starts while the run is held"
            assert machine.may_start(*attempt), f"{attempt} starts and is not waited for"
            assert attempt not in host.in_doubt, f"{attempt} starts again and is in doubt"
            self._hand_out("start", *attempt)
            host.under_way.add(attempt)
        for key in [one.key for one in work.timers] + [one.key for one in work.probes]:
            self._hand_out(key)
        for stop in work.stops:
            self._hand_out_stop(stop)
        for left in work.abandoned:
            self._hand_out("abandoned", left.path, left.attempt)
            host.handed.discard(("start", left.path, left.attempt))

    def _hand_out_stop(self, stop: CancelTask) -> None:
        """As often as it was decided: each further emergency stop is another one."""
        self.host.handed.add(("stop", stop.path, stop.attempt))
        self.host.stops[stop] += 1
        assert self.host.stops[stop] <= self.stops[stop], f"handed out twice: {stop}"

    def _hand_out(self, *name: Any) -> None:
        assert name not in self.host.handed, f"handed out twice: {name}"
        self.host.handed.add(name)

    def _check_books(self) -> None:
        """Whatever the follower's machine owes was handed out, or waits for a slot."""
        follower, handed = self.follower, self.host.handed
        for one in follower.machine.outstanding():
            match one:
                case RunTask():
                    key = (one.path, one.attempt)
                    waits = (
                        follower.machine.hold.reasons or follower.running >= self.plan.workflow.max_parallel
                    )
                    known = waits or key in self.host.under_way or key in self.store.ends
                    ended = any(other[1:3] == key and other[0] in _ANSWERS for other in handed)
                    assert known or ended, f"{key} was not started"
                case CancelTask():
                    self._check_stop(one)
                case SetTimer() | Probe():
                    assert (one.key,) in handed, f"{one.key} was not handed out"
                case Record():
                    name = (one.event_type, one.path, one.attempt)
                    assert any(other[:3] == name for other in handed), f"{name} is not recorded"
                case _:
                    pass

    def _check_stop(self, one: CancelTask) -> None:
        key = (one.path, one.attempt)
        ended = any(other[1:3] == key and other[0] in (*_ANSWERS, "stop") for other in self.host.handed)
        assert ended or key in self.store.ends, f"{key} was not stopped"

    def _check_wake_ups(self, work: Work) -> None:
        """A signal that was folded need not be delivered again: whatever drops its wake-up is on its way."""
        dropped = {key for one in (work, *self.host.outbox) for key in one.dropped}
        dropped |= {key for one in self.workers if one.host is self.host for key in one.dropped}
        folded = range(self.host.first + 1, self.follower.machine.last_seq + 1)
        for record in self.log:
            if record.event_type == EventType.SIGNAL_ACCEPTED and record.run_seq in folded:
                key = signal_wake_up(msgspec.json.decode(record.payload)["signalId"])
                assert key not in self.wake_ups or key in dropped, f"{key} is folded and would be repeated"

    def _check_end(self) -> None:
        if not self.follower.machine.terminal:
            assert self.plain, f"not at its end: {self.machine.obligations()[:5]}"
            self.done["too long"] += 1
            return
        for key, ends in self.store.ends.items():
            assert len(ends) == 1, f"{key} has two ends"
            self._check_code(key, ends[0])
        if not self.has_gaps:
            views_agree(self.plan, self.log)
        snapshot = project(self.log)
        assert not snapshot.summary.inconsistent, f"the projector differs: {snapshot.alerts}"
        if self.plain:
            _check_order(self.log)
            self._compare()
            self._compare_histories()

    def _check_code(self, key: Key, end: EventRecord) -> None:
        code = _code_of(end)
        if code in _STOPS and key in self.stop_codes:
            assert code in self.stop_codes[key], f"{key} was stopped with {code}, not {self.stop_codes[key]}"

    def _compare_histories(self) -> None:
        """With that of a host that appends everything itself, and is never interrupted."""
        other = Torture(self.seed, plain=True, plan=self.plan)
        other.run()
        if other.done["compared"]:
            assert _stories(self.log) == _stories(other.log), "another history than without a follower"


def _name(draft: EventDraft) -> tuple[str, str | None, int, str | None]:
    return (draft.event_type, draft.path, draft.attempt, draft.subject)


def _state(machine: Machine) -> Any:
    return msgspec.json.decode(machine.checkpoint(_SHA))


def _stories(log: list[EventRecord]) -> dict[str, list[Any]]:
    """Each step's own, without what the other host draws by lot: costs, pauses for breath, whether StepStarted came.

    Which of several failures a composite names depends on the order in which they came. The other host records a
    decision whenever it likes, so only what is recorded is compared; its order is checked by itself.
    """
    stories: dict[str, list[Any]] = {}
    for record in log:
        payload = msgspec.json.decode(record.payload)
        subject = record.step_id or str(payload.get("key", ""))
        if record.event_type in _DRAWN_BY_LOT or "|breath|" in subject:
            continue
        for name in ("usage", "signalId", "durationMs", "due"):
            payload.pop(name, None)
        payload.get("error", {}).pop("message", None)
        stories.setdefault(subject, []).append((record.logical_attempt_id, record.event_type, payload))
    return {subject: sorted(story, key=lambda one: one[:2]) for subject, story in stories.items()}


def _code_of(record: EventRecord) -> Any:
    return (msgspec.json.decode(record.payload).get("error") or {}).get("code")


def _check_order(log: list[EventRecord]) -> None:
    """An attempt starts, ends, and announces the next; then that one starts."""
    moments: dict[str, tuple[int, int]] = {}
    stopped: set[tuple[str, int]] = set()
    for record in log:
        if record.step_id is not None:
            place = {EventType.STEP_STARTED: 0, EventType.STEP_RETRY_SCHEDULED: 2}.get(
                EventType(record.event_type), 1
            )
            moment = (record.logical_attempt_id, place)
            before = moments.get(record.step_id, (0, 0))
            if place == 0 and (record.step_id, moment[0]) in stopped:
                continue  # it was stopped on its way to a worker
            if _code_of(record) in _STOPS:
                stopped.add((record.step_id, moment[0]))
            assert before < moment, f"{record.event_type} of {record.step_id} comes late"
            moments[record.step_id] = moment


def _idempotent(workflow: Workflow) -> Workflow:
    """Where nothing is in doubt, workers may die without changing what comes of the run."""
    cleanup = _idempotent_block(workflow.cleanup) if workflow.cleanup is not None else None
    changed: Workflow = _changed(workflow, block=_idempotent_block(workflow.block), cleanup=cleanup)
    return changed


def _idempotent_block(block: Block) -> Block:
    return Block(block.discipline, tuple(_idempotent_step(step) for step in block.steps))


def _idempotent_step(step: Step) -> Step:
    body: Any = step.body
    if isinstance(body, Call):
        body = _changed(body, workflow=_idempotent(body.workflow))
    elif hasattr(body, "block"):
        body = _changed(body, block=_idempotent_block(body.block))
    changed: Step = _changed(step, idempotent=True, body=body)
    return changed


def _changed(part: Any, **facts: Any) -> Any:
    return type(part)(**{name: getattr(part, name) for name in part.__struct_fields__} | facts)


# --- many of them ---------------------------------------------------------------------------------


def run_one(seed: int, *, plain: bool, new_follower: NewFollower = follower_of) -> tuple[str, Following]:
    """What went wrong, or nothing."""
    return outcome_of(Following(seed, plain=plain, new_follower=new_follower))


def outcome_of(following: Following) -> tuple[str, Following]:
    try:
        following.run()
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} in {last.name}: {error}", following
    return "", following


def run_batch(
    seeds: Iterable[int], run_one: Callable[..., tuple[str, Following]] = run_one
) -> tuple[list[tuple[int, bool, str]], Counter[str]]:
    """Each seed twice: with people at work, and as a plain plan whose end is known."""
    failures, done = [], Counter[str]()
    for seed in seeds:
        for plain in (False, True):
            problem, following = run_one(seed, plain=plain)
            done += following.done
            if problem:
                failures.append((seed, plain, problem))
    return failures, done


def main(
    name: str = "following",
    run_one: Callable[..., tuple[str, Following]] = run_one,
    expected: Sequence[str] = _EXPECTED,
    description: str | None = __doc__,
) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m tests.torture.{name}", description=description)
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    started = time.monotonic()
    seeds = range(given.first, given.first + given.seeds)
    failures: list[tuple[int, bool, str]] = []
    done = Counter[str]()
    parts = [seeds[at : at + 50] for at in range(0, len(seeds), 50)]
    with get_context("spawn").Pool(given.workers) as pool:
        for found, counted in pool.imap_unordered(partial(run_batch, run_one=run_one), parts):
            failures += found
            done += counted
    print(f"{2 * given.seeds:,} runs, {time.monotonic() - started:.0f} s, {len(failures)} failed")
    print("done:", ", ".join(f"{name} {count:,}" for name, count in sorted(done.items())))
    missing = [one for one in expected if not done[one]] if given.seeds >= 1000 else []
    if missing:
        print("never done:", ", ".join(missing))
    for seed, plain, problem in sorted(failures)[:10]:
        print(f"seed {seed}{' plain' if plain else ''}: {problem[:600]}")
    return 1 if failures or missing else 0


if __name__ == "__main__":
    sys.exit(main())
