"""What the driver owes the machine, the log and whoever looks on (machine.md 1.9)."""

import asyncio
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from podium.errors import StaleFence, StoreUnavailable
from podium.log.events import EventRecord, EventType
from podium.log.leases import Fence, Lease
from podium.machine import Machine
from podium.machine.commands import CancelTask, Report, RunTask, ScopeReport
from podium.runtime.acting import Actions
from podium.runtime.drive_clock import DriveClock
from podium.runtime.inbox import Inbox
from podium.runtime.run_log import LogDoesNotFit
from podium.runtime.task_slots import TaskSlots
from podium.runtime.tasks.order import TaskResult, completed
from podium.runtime.timers import Timers
from podium.runtime.view_feed import ViewFeed
from podium.runtime.world import World
from podium.wiring.stores import open_store
from tests.unit.driving.scripted import TTL, Scripted, ScriptedTasks, WallClock, memory, signal
from tests.unit.machine.hosting import plan_of

THREE = """
steps:
  - {name: A, command: [exit, 0]}
  - {name: B, command: [exit, 0]}
  - {name: C, command: [exit, 0]}
"""
MANY = """
max_parallel: 3
steps:
  - name: P
    for_each:
      items: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
      parallel: true
      max_workers: 10
      steps: [{name: A, command: [exit, 0]}]
"""


def types(log: Sequence[EventRecord]) -> list[str]:
    return [record.event_type for record in log]


# --- the log moves --------------------------------------------------------------------------------


class LogWithGuests:
    """Somebody else appends a signal right before our appends, as often as the dice say."""

    def __init__(self, run: Scripted, dice: random.Random, signals: list[str], chance: float) -> None:
        self._run = run
        self._dice = dice
        self._signals = signals
        self._chance = chance
        self.sent = 0
        self.most_at_once = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run.store, name)

    async def append(self, run_id: Any, writes: Any, **options: Any) -> Any:
        self.most_at_once = max(self.most_at_once, len(writes))
        if self._dice.random() < self._chance:
            self.sent += 1
            kind = self._dice.choice(self._signals)
            payload = (
                {"stepId": self._dice.choice(["A", "L", "L[3]/A", "P/B"])} if kind.endswith("_STEP") else {}
            )
            await self._run.store.append(run_id, [signal(self._run.identity, kind, **payload)])
        return await self._run.store.append(run_id, writes, **options)


GUESTS = """
max_parallel: 3
steps:
  - {name: A, command: [exit, 1, 0], retry: {attempts: 2, delay: 0.001}}
  - name: L
    for_each:
      items: [0, 1, 0, 0, 1, 0, 0, 0]
      parallel: true
      max_workers: 4
      steps: [{name: A, command: [exit, "${item}"]}, {name: B, command: [exit, 0]}]
    on: {failure: {goto: P}, success: {goto: P}}
  - name: P
    parallel:
      - {name: B, command: [exit, 0]}
      - {name: C, command: [hang]}
      - {name: D, command: [exit, 1, 0], retry: {attempts: 2, delay: 0.001}}
    join: {wait_for: majority}
  - name: W
    while: {condition: {not: {file_exists: x}}, max_iterations: 4, steps: [{name: T, command: [exit, 0]}]}
    on: {timeout: {end: true}}
"""


@pytest.mark.rule("G40")
@pytest.mark.parametrize("kept_every", [5000, 1])
@pytest.mark.parametrize("seed", range(25))
def test_signals_in_between_never_make_log_and_decisions_differ(
    seed: int, kept_every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PAUSE and RESUME come in before a third of all appends; each task of the log is performed exactly once."""
    monkeypatch.setattr("podium.runtime.machine_cache.CHECKPOINT_EVERY", kept_every)
    monkeypatch.setattr("podium.runtime.machine_cache._BYTES_PER_EVENT", 10**9)

    async def scenario() -> None:
        run = await Scripted(plan_of(GUESTS), memory()).create()
        guests = LogWithGuests(run, random.Random(seed), ["PAUSE", "RESUME", "RETRY_STEP", "SKIP_STEP"], 0.3)
        driving = asyncio.create_task(run.drive(log=guests))
        # A pause without its resume would wait for ever.
        while not driving.done():
            await asyncio.sleep(0.03)
            if not driving.done():
                await run.store.append(run.run_id, [signal(run.identity, "RESUME")])
        await driving
        check_books(run, await run.log())

    asyncio.run(scenario())


def check_books(run: Scripted, log: list[EventRecord]) -> None:
    """Replay of the log gives the machine that wrote it, and what it ordered was performed, once each."""
    machine = Machine(run.plan)
    ordered: set[tuple[str, int]] = set()
    for record in log:
        for command in machine.advance(record):
            if isinstance(command, RunTask):
                ordered.add((command.path, command.attempt))
    assert machine.terminal
    assert not machine.inconsistent
    begun = [(path, attempt) for path, attempt, _ in run.tasks.begun]
    assert len(begun) == len(set(begun)), "a task was performed twice"
    started = {
        (str(record.step_id), record.logical_attempt_id)
        for record in log
        if record.event_type == EventType.STEP_STARTED
        and (str(record.step_id), record.logical_attempt_id) in ordered
    }
    assert set(begun) == started
    ends = [
        (record.step_id, record.logical_attempt_id)
        for record in log
        if record.event_type in (EventType.STEP_COMPLETED, EventType.STEP_FAILED, EventType.STEP_SKIPPED)
    ]
    assert len(ends) == len(set(ends)), "an attempt has two ends"
    assert run.driver is not None
    assert run.driver.running == 0


class LogThatCounts:
    """How many records were read."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self.read_records = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def read(self, *arguments: Any, **options: Any) -> Any:
        records = await self._log.read(*arguments, **options)
        self.read_records += len(records)
        return records


def test_a_signal_costs_the_same_in_a_long_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was folded since the machine was last kept is folded again, and not the run from its beginning."""
    monkeypatch.setattr("podium.runtime.machine_cache.CHECKPOINT_EVERY", 50)

    async def scenario() -> None:
        loop = f"for_each: {{items: {list(range(400))}, steps: [{{name: A, command: [exit, 0]}}]}}"
        run = await Scripted(plan_of(f"steps: [{{name: L, {loop}}}]"), memory()).create()
        guests = LogWithGuests(run, random.Random(1), ["RETRY_STEP"], 0.05)
        counting = LogThatCounts(guests)
        await run.drive(log=counting)
        log = await run.log()
        check_books(run, log)
        assert len(log) > 800
        assert guests.sent > 10
        assert counting.read_records < guests.sent * 80

    asyncio.run(scenario())


_SENDER = """
import asyncio, random, sys
from podium.log.ids import RunId
from podium.wiring.stores import open_store
from tests.unit.driving.scripted import Scripted, signal
from tests.unit.machine.hosting import plan_of

async def main(path, number, seed):
    store = await open_store(path)
    dice = random.Random(seed)
    run = Scripted(plan_of("steps: [{name: A, command: [exit, 0]}]"), store)
    print("ready", flush=True)
    for sent in range(number):
        kind = "RESUME" if sent % 2 else "PAUSE"
        if dice.random() < 0.2:
            kind = "RETRY_STEP"
        await store.append(RunId("r1"), [signal(run.identity, kind, stepId="L[5]/A")])
        await asyncio.sleep(dice.random() * 0.008)
    await store.append(RunId("r1"), [signal(run.identity, "RESUME")])
    await store.close()

asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""


class SlowTasks(ScriptedTasks):
    """Each takes a moment, so that there is something to signal at."""

    def start(self, task: RunTask, engine_attempt: int, done: Any) -> None:
        loop = asyncio.get_running_loop()

        def done_later(result: TaskResult) -> None:
            loop.call_later(0.004, done, result)

        super().start(task, engine_attempt, done_later)


@pytest.mark.rule("G40")
def test_two_hundred_signals_of_another_process_are_folded_in_their_place(tmp_path: Path) -> None:
    path = str(tmp_path / "podium.db")
    text = """
    max_parallel: 4
    steps:
      - name: L
        for_each: {items: ITEMS, parallel: true, max_workers: 4, steps: [{name: A, command: [exit, 0]}]}
    """.replace("ITEMS", str(list(range(800))))

    async def scenario() -> list[EventRecord]:
        store = await open_store(path, create=True)
        run = await Scripted(plan_of(text), store, tasks=SlowTasks()).create()
        sender = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _SENDER, path, "200", "7", stdout=asyncio.subprocess.PIPE
        )
        assert sender.stdout is not None
        assert await asyncio.wait_for(sender.stdout.readline(), 30) == b"ready\n"
        seen: list[int] = []
        run.views.append(lambda records: seen.extend(record.run_seq for record in records))
        last = await run.drive(seconds=60)
        assert last.event_type == EventType.RUN_COMPLETED
        assert await asyncio.wait_for(sender.wait(), 30) == 0
        log = await run.log()
        upto = last.run_seq
        check_books(run, [record for record in log if record.run_seq <= upto])
        assert seen == list(range(1, upto + 1)), "whoever looks on is told of everything once and in order"
        await store.close()
        return log

    log = asyncio.run(scenario())
    assert types(log).count("SignalAccepted") == 201
    assert types(log).count("RunPaused") > 5


@pytest.mark.rule("G40")
def test_a_task_that_has_ended_is_not_ended_a_second_time_by_a_stop() -> None:
    """B ends at the moment in which the join is decided: one end stands in the log, whichever came first."""

    async def scenario() -> None:
        text = """
        steps:
          - name: P
            parallel: [{name: A, command: [exit, 0]}, {name: B, command: [exit, 0]}]
            join: {wait_for: any}
        """
        run = await Scripted(plan_of(text), memory()).create()
        await run.drive()
        log = await run.log()
        ends = [r for r in log if r.step_id == "P/B" and r.event_type != EventType.STEP_STARTED]
        assert len(ends) == 1
        check_books(run, log)

    asyncio.run(scenario())


def test_every_cancel_of_a_task_is_answered_also_of_one_nobody_knows() -> None:
    async def scenario() -> None:
        run = await Scripted(plan_of(THREE), memory()).create()
        inbox, slots = Inbox(), TaskSlots(1)
        world = World(run.store, WallClock(), run.tasks, run.ask)
        timers = Timers(DriveClock(world.clock), inbox.submit)
        actions = Actions(world, inbox, slots, timers, ViewFeed("r1", world))
        actions.stop(CancelTask("A", 1, code="JOIN_DECIDED"))
        actions.stop(CancelTask("A", 1, code="JOIN_DECIDED"))
        answer = inbox.take()
        assert not inbox, "once"
        assert (answer.event_type, answer.path, answer.attempt) == ("StepFailed", "A", 1)
        assert answer.payload["error"]["code"] == "JOIN_DECIDED"
        assert answer.payload["error"]["category"] == "SYSTEM"

    asyncio.run(scenario())


# --- durability -----------------------------------------------------------------------------------


class LogThatIsAway:
    """Answers nothing but that it is away, once so many appends were made."""

    def __init__(self, store: Any, appends: int) -> None:
        self._store = store
        self._left = appends

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, *arguments: Any, **options: Any) -> Any:
        if self._left == 0:
            raise StoreUnavailable("the disk is full")
        self._left -= 1
        return await self._store.append(*arguments, **options)


@pytest.mark.rule("G17")
def test_an_outcome_that_cannot_be_stored_is_no_failure_of_the_step() -> None:
    async def scenario() -> None:
        run = await Scripted(plan_of(THREE), memory()).create()
        with pytest.raises(StoreUnavailable, match="StepCompleted"):
            await run.drive(log=LogThatIsAway(run.store, 1))
        assert types(await run.log()) == ["RunQueued", "RunStarted", "StepStarted"]
        # Whoever goes on has the whole run, and what was not recorded happens again.
        last = await run.drive()
        assert last.event_type == EventType.RUN_COMPLETED
        assert run.tasks.begun[:2] == [("A", 1, 1), ("A", 1, 2)]

    asyncio.run(scenario())


class LogThatTells:
    """Writes down what is durable."""

    def __init__(self, store: Any, stored: list[str]) -> None:
        self._store = store
        self._stored = stored

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, run_id: Any, writes: Any, **options: Any) -> Any:
        answer = await self._store.append(run_id, writes, **options)
        self._stored += [write.event_type for write in writes]
        return answer


class LogThatFalters:
    """Every append is stored, and every second one is answered with silence first."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.appends = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, *arguments: Any, **options: Any) -> Any:
        self.appends += 1
        answer = await self._store.append(*arguments, **options)
        if self.appends % 2:
            raise StoreUnavailable("no answer")
        return answer


@pytest.mark.rule("G17", "G43")
def test_what_was_stored_without_an_answer_is_repeated_by_its_key_and_stands_once() -> None:
    async def scenario() -> None:
        run = await Scripted(plan_of(THREE), memory()).create()
        await run.drive(log=LogThatFalters(run.store))
        log = await run.log()
        assert types(log).count("StepCompleted") == 3
        check_books(run, log)

    asyncio.run(scenario())


@pytest.mark.rule("G43", "G13")
def test_the_start_of_a_step_is_in_the_log_before_it_begins() -> None:
    async def scenario() -> None:
        text = "steps: [{name: A, command: [exit, 0], idempotent: false}, {name: B, command: [exit, 0]}]"
        run = await Scripted(plan_of(text), memory()).create()
        stored: list[str] = []
        log = LogThatTells(run.store, stored)
        at_start: list[list[str]] = []
        run.tasks.on_start = lambda _task: at_start.append(list(stored))
        await run.drive(log=log)
        assert at_start[0][-1] == "StepStarted"
        assert at_start[1][-2:] == ["StepCompleted", "StepStarted"]

    asyncio.run(scenario())


@pytest.mark.rule("G13")
@pytest.mark.parametrize(
    ("doubt", "ended", "begun"),
    [
        ("retry", "RunCompleted", [("A", 2, 1)]),
        ("fail", "RunFailed", []),
    ],
)
def test_a_step_that_may_not_run_twice_is_in_doubt_after_a_crash(
    doubt: str, ended: str, begun: list[tuple[str, int, int]]
) -> None:
    async def scenario() -> None:
        text = f"steps: [{{name: A, command: [exit, 0], idempotent: false, on_doubt: {doubt}}}]"
        run = await Scripted(plan_of(text), memory()).create()
        with pytest.raises(StoreUnavailable):
            await run.drive(log=LogThatIsAway(run.store, 1))
        run.tasks = ScriptedTasks()
        last = await run.drive()
        assert last.event_type == ended
        assert run.tasks.begun == begun
        assert "StepInterrupted" in types(await run.log())

    asyncio.run(scenario())


@pytest.mark.rule("G13", "G40")
def test_a_signal_right_after_a_crash_does_not_make_a_step_in_doubt_run() -> None:
    """The log moves on before StepInterrupted is recorded: the step is owed once more, and is not begun for that."""

    async def scenario() -> None:
        text = "steps: [{name: A, command: [exit, 0], idempotent: false, on_doubt: fail}]"
        run = await Scripted(plan_of(text), memory()).create()
        with pytest.raises(StoreUnavailable):
            await run.drive(log=LogThatIsAway(run.store, 1))
        run.tasks = ScriptedTasks()
        last = await run.drive(log=LogWithGuests(run, random.Random(1), ["RESUME"], 0.7))
        assert last.event_type == EventType.RUN_FAILED
        assert run.tasks.begun == []

    asyncio.run(scenario())


def test_a_driver_without_its_lease_writes_nothing_more() -> None:
    async def scenario() -> None:
        run = await Scripted(plan_of(THREE), memory()).create()
        run.tasks.on_start = lambda _task: run.driver.revoke(StaleFence("taken over"))  # type: ignore[union-attr]
        with pytest.raises(StaleFence):
            await run.drive()
        assert types(await run.log()) == ["RunQueued", "RunStarted", "StepStarted"]

    asyncio.run(scenario())


@pytest.mark.rule("G45")
def test_a_driver_that_reads_what_another_one_decided_does_nothing_for_it() -> None:
    """It was thought dead; the other one goes on. What it reads then is not its own to carry out, nor to report."""

    async def scenario() -> None:
        text = (
            "steps: [{name: A, command: [hang]}, {name: B, command: [hang]}, {name: C, command: [exit, 0]}]"
        )
        old = await Scripted(plan_of(text), memory()).create()
        old_driving = asyncio.create_task(old.drive())
        while not old.tasks.begun:
            await asyncio.sleep(0.01)
        lost = await old.store.claim(old.run_id, owner="x", ttl=TTL)
        assert lost is None, "it holds the lease"
        await old.store.release(Lease(run_id=old.run_id, owner="", fence=Fence(1), expires_at=""))
        new = Scripted(plan_of(text.replace("[hang]}, {name: B", "[exit, 0]}, {name: B")), old.store)
        new_driving = asyncio.create_task(new.drive())
        with pytest.raises(StaleFence, match="taken over"):
            await old_driving
        assert old.tasks.begun == [("A", 1, 1)]
        assert [path for path, _, _ in new.tasks.begun] == ["A", "B"]
        await new.store.append(new.run_id, [signal(new.identity, "CANCEL")])
        assert (await new_driving).event_type == EventType.RUN_CANCELLED

    asyncio.run(scenario())


# --- timers, slots, batches -----------------------------------------------------------------------


@pytest.mark.rule("D47")
def test_no_more_tasks_run_at_once_than_there_are_slots_and_they_begin_in_order() -> None:
    async def scenario() -> None:
        run = await Scripted(plan_of(MANY), memory()).create()
        await run.drive()
        assert run.tasks.most_at_once == 3
        assert [path for path, _, _ in run.tasks.begun] == [f"P[{index}]/A" for index in range(10)]

    asyncio.run(scenario())


def test_a_task_that_waits_for_a_slot_is_stopped_without_having_begun() -> None:
    async def scenario() -> None:
        text = """
        max_parallel: 1
        steps:
          - name: P
            parallel: [{name: A, command: [exit, 0]}, {name: B, command: [exit, 0]}]
            join: {wait_for: any}
        """
        run = await Scripted(plan_of(text), memory()).create()
        last = await run.drive()
        assert last.event_type == EventType.RUN_COMPLETED
        assert run.tasks.begun == [("P/A", 1, 1)]
        check_books(run, await run.log())

    asyncio.run(scenario())


def test_one_commit_does_not_grow_without_end() -> None:
    async def scenario() -> None:
        items = list(range(3000))
        text = f"""
        max_parallel: 3000
        steps:
          - name: P
            for_each: {{items: {items}, parallel: true, max_workers: 3000, steps: [{{name: A, command: [exit, 0]}}]}}
        """
        run = await Scripted(plan_of(text), memory()).create()
        log = LogWithGuests(run, random.Random(1), ["RESUME"], 0)
        last = await run.drive(log=log, seconds=60)
        assert last.event_type == EventType.RUN_COMPLETED
        assert types(await run.log()).count("StepCompleted") == 3001
        # 500 ends, and what begins because of the last of them; the first commit begins all that has a slot.
        assert log.most_at_once <= 3010

    asyncio.run(scenario())


# --- looking on -----------------------------------------------------------------------------------


def test_whoever_looks_on_and_fails_does_not_stop_the_run(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        run = await Scripted(plan_of(THREE), memory()).create()
        seen: list[str] = []

        def fails(_records: Sequence[EventRecord]) -> None:
            raise OSError("no space left on device")

        run.observers += [fails, lambda records: seen.extend(types(records))]
        last = await run.drive()
        assert last.event_type == EventType.RUN_COMPLETED
        assert seen == types(await run.log())[1:]

    asyncio.run(scenario())
    assert caplog.text.count("has failed and is left out") == 1


def test_a_view_is_told_of_everything_from_the_first_event_on_an_observer_from_now_on() -> None:
    async def scenario() -> None:
        run = await Scripted(plan_of(THREE), memory()).create()
        with pytest.raises(StoreUnavailable):
            await run.drive(log=LogThatIsAway(run.store, 2))
        viewed: list[int] = []
        observed: list[int] = []
        run.views.append(lambda records: viewed.extend(record.run_seq for record in records))
        run.observers.append(lambda records: observed.extend(record.run_seq for record in records))
        before = len(await run.log())
        await run.drive()
        every = [record.run_seq for record in await run.log()]
        assert viewed == every
        assert observed == every[before:]

    asyncio.run(scenario())


def test_views_are_told_of_many_events_at_a_time_and_know_the_items_of_iterations_that_have_ended() -> None:
    text = """
    inputs: {names: {type: list}}
    steps:
      - {name: A, command: [exit, 0]}
      - {name: B, command: [exit, 0]}
      - {name: L, for_each: {items: "${inputs.names}", steps: [{name: I, command: [exit, 0]}]}}
      - {name: C, command: [exit, 0]}
      - {name: D, command: [exit, 0]}
    """

    async def scenario() -> None:
        run = await Scripted(plan_of(text), memory()).create()
        told: list[list[str]] = []
        items: dict[str, Any] = {}

        def view(records: Sequence[EventRecord], reports: Sequence[Report]) -> None:
            told.append(types(records))
            items.update({one.path: one.item for one in reports if isinstance(one, ScopeReport)})

        run.state_views.append(view)
        await run.drive(names=["one", "two"])
        assert [name for names in told for name in names] == types(await run.log())
        assert items == {"L[0]": "one", "L[1]": "two"}
        assert len(told) < 4, "when the log was read, and at the end"

    asyncio.run(scenario())


class BlockingTasks(ScriptedTasks):
    """Functions of this process that see what was told before they began."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []
        self.seen: list[list[str]] = []

    def result_of(self, task: RunTask) -> Any:
        self.seen.append(list(self.told))
        return completed()


def test_views_that_have_waited_long_are_told_of_a_step_before_it_can_block_this_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("podium.runtime.view_feed._MAX_VIEW_DELAY", 0.0)

    async def scenario() -> None:
        tasks = BlockingTasks()
        run = await Scripted(plan_of(THREE), memory(), tasks=tasks).create()
        run.views.append(lambda records: tasks.told.extend(f"{r.event_type} {r.step_id}" for r in records))
        await run.drive()
        assert "StepStarted B" in tasks.seen[1]
        assert "StepStarted C" in tasks.seen[2]

    asyncio.run(scenario())


def test_a_log_that_its_plan_does_not_lead_to_is_refused_and_not_tried_for_ever() -> None:
    """A and B have run; by the other plan A comes after B, and would have to begin where it has ended already."""

    async def scenario() -> None:
        run = await Scripted(plan_of(THREE), memory()).create()
        with pytest.raises(StoreUnavailable):
            await run.drive(log=LogThatIsAway(run.store, 3))
        run.plan = plan_of("steps: [{name: B, command: [exit, 0]}, {name: A, command: [exit, 0]}]")
        with pytest.raises(LogDoesNotFit, match="StepStarted of 'A'"):
            await run.drive()

    asyncio.run(scenario())


# --- what no store keeps --------------------------------------------------------------------------


class LoudTasks(ScriptedTasks):
    def result_of(self, task: RunTask) -> Any:
        return completed(output="x" * 300_000, exitCode=0)


@pytest.mark.rule("G48")
def test_a_result_too_large_for_the_log_fails_the_step_and_not_the_run() -> None:
    async def scenario() -> None:
        text = "steps: [{name: A, command: [exit, 0], on: {failure: {end: true}}}]"
        run = await Scripted(plan_of(text), memory(), tasks=LoudTasks()).create()
        last = await run.drive()
        assert last.event_type == EventType.RUN_COMPLETED
        (ended,) = [r for r in await run.log() if r.event_type == EventType.STEP_FAILED]
        assert msgspec.json.decode(ended.payload)["error"]["code"] == "PAYLOAD_TOO_LARGE"

    asyncio.run(scenario())
