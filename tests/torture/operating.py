"""Random plans under the real driver, with people at work: pause, cancel, reopen, kill, skip, several at once.

Tasks are simulated and time is virtual; the driver, the machine and the store are real, for every eighth seed SQLite.
Afterwards the log is asked: was anything done again that was recorded as done, was anything that must not be repeated
repeated without a recorded decision, did anything start while the run was paused, did a driver that had lost the run
start anything, and do all views agree?

    python -m tests.torture.operating --seeds 10000
"""

import argparse
import asyncio
import contextlib
import re
import sys
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest.mock import patch

import msgspec

from podium.errors import PodiumError, StaleFence
from podium.log.events import EventRecord, EventType, RunIdentity
from podium.log.fold import project
from podium.log.ids import RunId
from podium.log.leases import Lease
from podium.log.runs import NewRun
from podium.log.times import timestamp
from podium.log.transitions import TERMINAL, RunStatus
from podium.machine import RULES_VERSION, Machine
from podium.machine.commands import Question, RunTask
from podium.machine.stop_codes import is_stop
from podium.plan.loading import FINALLY
from podium.plan.plan import Agent, Block, Call, Goto, Handlers, Plan, Step, Workflow
from podium.ports.store import Store
from podium.runtime.checkpoints import CheckpointWriter, machine_of, newest_for
from podium.runtime.drive import Driver
from podium.runtime.inbox import PendingEvent
from podium.runtime.signalling import append_while_open
from podium.runtime.takeover import Original, Takeovers
from podium.runtime.tasks.order import TaskResult, completed, failed, stopped
from podium.runtime.world import World
from podium.runtime.writing import new_event
from podium.stores.memory import MemoryStore
from podium.testing.virtual_time import run_virtually
from tests.torture.generator import Generator, replace_workflow
from tests.torture.on_sqlite import run_on_sqlite
from tests.torture.views import views_agree

_ENDS: Final = frozenset(
    {EventType.STEP_COMPLETED, EventType.STEP_FAILED, EventType.STEP_SKIPPED, EventType.STEP_INTERRUPTED}
)
_TTL: Final = timedelta(seconds=20)
_MAX_SECONDS: Final = 150.0
# Every so many-th seed.
_ON_SQLITE: Final = 8
_START: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)


class LoopClock:
    """The wall clock of a virtual loop."""

    def now(self) -> datetime:
        return _START + timedelta(seconds=self.elapsed())

    def elapsed(self) -> float:
        return asyncio.get_running_loop().time()


@dataclass
class Performed:
    """The work of an attempt, at the moment it starts."""

    run_id: RunId
    path: str
    attempt: int
    idempotent: bool
    # The newest record then.
    head: int
    # By a process that has lost the run.
    is_stale: bool


class FakeTasks:
    """The tasks of one process. A process that was killed performs nothing more, and answers nothing."""

    def __init__(self, world: "Operated", run_id: RunId, generation: int) -> None:
        self._world = world
        self._run_id = run_id
        self._generation = generation
        self._under_way: dict[tuple[str, int], asyncio.TimerHandle] = {}
        self._done: dict[tuple[str, int], Any] = {}
        self.is_alive = True

    def start(self, task: RunTask, engine_attempt: int, done: Any) -> None:
        key = (task.path, task.attempt)
        self._world.performs(self._run_id, task, self._generation)
        self._done[key] = done
        loop = asyncio.get_running_loop()
        delay = self._world.random.choice([0, 0, 0.05, 0.5, 2, 6])
        self._under_way[key] = loop.call_later(delay, self._end, key, self._world.result_of(task))

    def stop(self, path: str, attempt: int, code: str, *, force: bool) -> bool:
        key = (path, attempt)
        if key not in self._under_way:
            return False
        if self._world.random.random() < 0.7:
            # Else it ends by itself, although it was asked to stop.
            self._under_way[key].cancel()
            loop = asyncio.get_running_loop()
            delay = self._world.random.choice([0, 0.3])
            self._under_way[key] = loop.call_later(delay, self._end, key, stopped(code))
        return True

    async def stop_orphans(self) -> None:
        pass

    def kill(self) -> None:
        self.is_alive = False
        for timer in self._under_way.values():
            timer.cancel()
        self._under_way.clear()

    def _end(self, key: tuple[str, int], result: TaskResult) -> None:
        if self._under_way.pop(key, None) is not None:
            self._done.pop(key)(result)


@dataclass
class Process:
    """One driver of the run, and what it performs."""

    driver: Driver
    tasks: FakeTasks
    driving: "asyncio.Task[EventRecord]"
    lease: Lease


@dataclass
class Operated:
    """One seed: a plan, its run, perhaps a rerun of it, and what was done to them."""

    seed: int
    store: Store | None = None
    performed: list[Performed] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    logs: dict[RunId, list[EventRecord]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = Random(f"operating {self.seed}")
        made = Generator(Random(f"operated plan {self.seed}")).plan()
        facts = {"max_parallel": self.random.choice([1, 2, 4])}
        self.plan = replace_workflow(made, _forward_only(made.workflow), facts)
        self.likely = self.random.choice([0.6, 0.85, 0.95])
        self.signals = 0
        self.heads: dict[RunId, int] = {}
        # The newest claim of each run.
        self.generations: dict[RunId, int] = {}

    def identity(self, run_id: RunId) -> RunIdentity:
        return RunIdentity(
            run_id=run_id, tenant_id="t", project_id="p", environment_id="e", plan_id="plan", plan_version="1"
        )

    # --- what tasks do ----------------------------------------------------------------------------

    def performs(self, run_id: RunId, task: RunTask, generation: int) -> None:
        head, is_stale = self.heads.get(run_id, 0), generation < self.generations[run_id]
        one = Performed(run_id, task.path, task.attempt, task.step.idempotent, head, is_stale)
        self.performed.append(one)
        if one.is_stale:
            self.problems.append(
                f"{run_id}: {one.path}#{one.attempt} is started by a driver that has lost the run"
            )

    def result_of(self, task: RunTask) -> TaskResult:
        random = Random(f"{self.seed} {task.path} {task.attempt}")
        usage = (
            {"costUsd": random.choice([0, 0.1, 0.4]), "tokens": 2}
            if isinstance(task.step.body, Agent)
            else None
        )
        facts: dict[str, Any] = {"usage": usage} if usage is not None else {}
        if random.random() < self.likely:
            return completed(output="x", **facts)
        return failed(random.choice([1, 3]), "EXIT_CODE", "it failed", **facts)

    def _knows(self, question: Question) -> bool:
        return Random(f"{self.seed} {question.name}").random() < 0.6

    # --- processes --------------------------------------------------------------------------------

    async def start_process(self, run_id: RunId) -> Process | None:
        store = self.the_store
        lease: Lease | None = None
        while lease is None:
            lease = await store.claim(run_id, owner=f"process-{self.random.random()}", ttl=_TTL)
            if lease is None:
                await asyncio.sleep(1)
        run = await store.get_run(run_id)
        self.generations[run_id] = lease.fence.generation
        tasks = FakeTasks(self, run_id, lease.fence.generation)
        clock = LoopClock()
        world = World(store, clock, tasks, self._knows, observers=[self._observe(run_id)])
        world.checkpoints = CheckpointWriter(store, run_id, self.plan, {})
        driver = Driver(self.plan, self.identity(run_id), lease.fence, world)
        await self._start_from_checkpoint(driver, run_id)
        if run.status is RunStatus.PENDING:
            driver.submit(
                PendingEvent(EventType.RUN_STARTED, payload={"rulesVersion": RULES_VERSION, "inputs": {}})
            )
        self.heads[run_id] = max(self.heads.get(run_id, 0), run.head)
        return Process(driver, tasks, asyncio.create_task(driver.drive()), lease)

    async def _start_from_checkpoint(self, driver: Driver, run_id: RunId) -> None:
        """Most processes read the newest checkpoint and the tail; some replay the whole log."""
        saved = await newest_for(self.the_store, run_id, self.plan)
        if saved is None or self.random.random() < 0.3:
            return
        machine = machine_of(self.plan, saved)
        assert machine is not None
        self.done["from a checkpoint"] += 1
        driver.start_from(machine, saved)

    def _observe(self, run_id: RunId) -> Any:
        def observe(records: Any) -> None:
            self.heads[run_id] = max(self.heads.get(run_id, 0), records[-1].run_seq)

        return observe

    @property
    def the_store(self) -> Store:
        assert self.store is not None
        return self.store

    # --- the run ----------------------------------------------------------------------------------

    async def run(self) -> None:
        if self.store is None:
            self.store = MemoryStore(LoopClock())
        first = RunId("one")
        await self._create(first)
        await self._operate(first)
        if self.random.random() < 0.35:
            await self._rerun(first)
        for run_id, log in self.logs.items():
            self.problems += check_log(run_id, log, [one for one in self.performed if one.run_id == run_id])
            check_views(self.plan, log)
        assert not self.problems, "; ".join(self.problems[:3])

    async def _create(self, run_id: RunId) -> None:
        identity = self.identity(run_id)
        queued = new_event(identity, EventType.RUN_QUEUED, timestamp(LoopClock().now()))
        await self.the_store.create_run(NewRun(identity=identity), [queued])

    async def _operate(self, run_id: RunId) -> None:
        """To the end of the run, with people at work; it is reopened now and then."""
        openings = 1
        actions = self.random.randrange(12)
        while True:
            await self._to_the_end(run_id, actions)
            run = await self.the_store.get_run(run_id)
            if run.status is RunStatus.COMPLETED or openings > 3 or self.random.random() < 0.25:
                break
            openings += 1
            await self._reopen(run_id, openings)
            actions = self.random.randrange(6)
        self.logs[run_id] = await self.the_store.read(run_id, limit=100_000)

    async def _reopen(self, run_id: RunId, opening: int) -> None:
        self.done["reopen"] += 1
        lease = await self._claimed(run_id)
        write = new_event(
            self.identity(run_id), EventType.RUN_REOPENED, timestamp(LoopClock().now()), attempt=opening
        )
        await self.the_store.append(run_id, [write], fence=lease.fence)
        await self.the_store.release(lease)

    async def _claimed(self, run_id: RunId) -> Lease:
        while True:
            lease = await self.the_store.claim(run_id, owner="operator", ttl=_TTL)
            if lease is not None:
                return lease
            await asyncio.sleep(1)

    async def _to_the_end(self, run_id: RunId, actions: int) -> None:
        processes = [await self.start_process(run_id)]
        deadline = asyncio.get_running_loop().time() + _MAX_SECONDS
        try:
            while not await self._is_over(run_id):
                await asyncio.sleep(self.random.choice([0, 0.01, 0.2, 1, 5] if actions else [1, 5]))
                if actions > 0:
                    actions -= 1
                    for _ in range(self.random.choice([1, 1, 1, 2, 3])):
                        await self._act(run_id, processes)
                else:
                    await self._help(run_id, processes, patient=asyncio.get_running_loop().time() < deadline)
                await self._keep_alive(run_id, processes)
                assert asyncio.get_running_loop().time() < 3 * deadline, "not at its end"
        finally:
            for process in processes:
                if process is not None:
                    await self._kill(process)

    async def _is_over(self, run_id: RunId) -> bool:
        return (await self.the_store.get_run(run_id)).status in TERMINAL

    async def _keep_alive(self, run_id: RunId, processes: list[Process | None]) -> None:
        """A lease is renewed, and whatever stopped driving is replaced."""
        for process in list(processes):
            if process is None:
                continue
            if process.driving.done():
                processes.remove(process)
                error = process.driving.exception()
                assert error is None or isinstance(error, StaleFence), error
                process.tasks.kill()
                await self._release(process)
            else:
                with contextlib.suppress(PodiumError):
                    renewed = await self.the_store.renew(process.lease, ttl=_TTL)
                    process.lease = renewed or process.lease
        if not processes and not await self._is_over(run_id):
            processes.append(await self.start_process(run_id))

    async def _release(self, process: Process) -> None:
        with contextlib.suppress(PodiumError):
            await self.the_store.release(process.lease)

    async def _kill(self, process: Process) -> None:
        """As by `kill -9`: nothing is written any more, and nothing it performed goes on."""
        process.tasks.kill()
        process.driving.cancel()
        await asyncio.gather(process.driving, return_exceptions=True)
        await self._release(process)

    # --- people -----------------------------------------------------------------------------------

    async def _act(self, run_id: RunId, processes: list[Process | None]) -> None:
        kinds = [
            "PAUSE",
            "RESUME",
            "PAUSE",
            "RESUME",
            "CANCEL",
            "SKIP_STEP",
            "RETRY_STEP",
            "APPROVE",
            "REJECT",
            "INJECT_OVERRIDE",
            "UPDATE_TARGET",
            "UPDATE_PARAMS",
        ]
        kind = self.random.choice([*kinds, "kill", "kill", "take over"])
        self.done[kind] += 1
        match kind:
            case "kill":
                while processes:
                    process = processes.pop()
                    if process is not None:
                        await self._kill(process)
            case "take over":
                # A process that was thought dead goes on beside the one that took over.
                for process in processes:
                    if process is not None:
                        await self._release(process)
                processes.append(await self.start_process(run_id))
            case "SKIP_STEP" | "RETRY_STEP" | "REJECT":
                await self._signal(run_id, kind, stepId=await self._aim(run_id))
            case "INJECT_OVERRIDE":
                override = {"env": {"N": str(self.random.randrange(9))}, "timeout": 30}
                await self._signal(run_id, kind, stepId=await self._aim(run_id), override=override)
            case "UPDATE_TARGET":
                await self._signal(run_id, kind, stepId=await self._aim(run_id), newTarget="somewhere")
            case "UPDATE_PARAMS":
                await self._signal(run_id, kind, params={"context": {"n": self.random.randrange(3)}})
            case _:
                await self._signal(run_id, kind)

    async def _aim(self, run_id: RunId) -> str:
        log = await self.the_store.read(run_id, limit=100_000)
        paths = [record.step_id for record in log if record.step_id is not None]
        return str(self.random.choice(paths)) if paths else "s1"

    async def _help(self, run_id: RunId, processes: list[Process | None], *, patient: bool) -> None:
        """What it waits for is given, in the end by force."""
        budget = {"usd": 10**6, "tokens": 10**9}
        process = processes[-1] if processes else None
        if process is None:
            return
        machine = process.driver.machine
        if not patient:
            await self._signal(run_id, "CANCEL")
        elif machine.hold.reasons:
            budgets = {path: budget for path in machine.spending.accounts if path}
            await self._signal(run_id, "UPDATE_PARAMS", params={"budget": {"usd": 10**7}, "budgets": budgets})
            await self._signal(run_id, "RESUME")
        else:
            for one in machine.obligations():
                if one.kind in ("approval", "doubt", "operator"):
                    kind = "RETRY_STEP" if one.kind == "operator" else "APPROVE"
                    await self._signal(run_id, kind, stepId=one.subject)
                    return

    async def _signal(self, run_id: RunId, kind: str, **payload: Any) -> None:
        if (await self.the_store.get_run(run_id)).status in TERMINAL | {RunStatus.PENDING}:
            return
        self.signals += 1
        signal_id = f"signal-{self.signals}"
        told = {"signalId": signal_id, "signalType": kind, "payload": payload}
        write = new_event(
            self.identity(run_id),
            EventType.SIGNAL_ACCEPTED,
            timestamp(LoopClock().now()),
            msgspec.json.encode(told),
            subject=signal_id,
        )
        await append_while_open(self.the_store, run_id, write)

    # --- rerunning --------------------------------------------------------------------------------

    async def _rerun(self, original: RunId) -> None:
        steps = [record.step_id for record in self.logs[original] if record.step_id is not None]
        if not steps:
            return
        self.done["rerun"] += 1
        run_id = RunId("two")
        await self._create(run_id)
        lease = await self._claimed(run_id)
        takeovers = Takeovers(self.the_store, self.plan, "", self.identity(run_id), None)
        started = {"rulesVersion": RULES_VERSION, "inputs": {}}
        wanted = Original(original, "", str(self.random.choice(steps)))
        takeover = await takeovers.of(wanted, started, timestamp(LoopClock().now()))
        self.done["taken over"] += len(takeover.writes) - 1
        await self.the_store.append(run_id, takeover.writes, fence=lease.fence)
        await self.the_store.release(lease)
        await self._operate(run_id)


def _forward_only(workflow: Workflow) -> Workflow:
    """Without a way back a path is visited once, unless it is tried again: what runs twice is seen immediately."""
    cleanup = _forward_block(workflow.cleanup) if workflow.cleanup is not None else None
    forward: Workflow = _changed(workflow, block=_forward_block(workflow.block), cleanup=cleanup)
    return forward


def _forward_block(block: Block, outside: frozenset[str] = frozenset()) -> Block:
    later, steps = outside, []
    for step in reversed(block.steps):
        steps.append(_forward_step(step, later))
        later |= {step.step_id}
    return Block(block.discipline, tuple(reversed(steps)))


def _forward_step(step: Step, later: frozenset[str]) -> Step:
    body: Any = step.body
    if isinstance(body, Call):
        body = _changed(body, workflow=_forward_only(body.workflow))
    elif hasattr(body, "block"):
        body = _changed(body, block=_forward_block(body.block, later))
    forward: Step = _changed(step, on=_forward_handlers(step.on, later), body=body)
    return forward


def _forward_handlers(handlers: Handlers | None, later: frozenset[str]) -> Handlers | None:
    named = {name: getattr(handlers, name, None) for name in Handlers.__struct_fields__}
    kept = {
        name: target
        for name, target in named.items()
        if target is not None and (not isinstance(target, Goto) or target.step in later)
    }
    return Handlers(**kept) if kept else None


def _changed(part: Any, **facts: Any) -> Any:
    return type(part)(**{name: getattr(part, name) for name in part.__struct_fields__} | facts)


# --- what must hold -------------------------------------------------------------------------------


def check_log(run_id: RunId, log: list[EventRecord], performed: list[Performed]) -> list[str]:
    problems: list[str] = []
    ends: dict[tuple[str, int], EventRecord] = {}
    for record in log:
        if record.event_type in _ENDS:
            key = (str(record.step_id), record.logical_attempt_id)
            if key in ends:
                problems.append(f"{run_id}: {key} has two ends")
            ends[key] = record
    problems += _starts_while_paused(run_id, log)
    before: dict[str, Performed] = {}
    for one in performed:
        end = ends.get((one.path, one.attempt))
        if end is not None and end.run_seq <= one.head:
            problems.append(f"{run_id}: {one.path}#{one.attempt} starts after its end, event {end.run_seq}")
        earlier = before.get(plain(one.path))
        if earlier is not None:
            problems += _repetition(run_id, log, ends, earlier, one)
        before[plain(one.path)] = one
    return problems


def plain(path: str) -> str:
    """The path without the numbers of visits: what runs again below `Group#2` is the same work as below `Group`."""
    return re.sub(r"#\d+", "", path)


def _starts_while_paused(run_id: RunId, log: list[EventRecord]) -> list[str]:
    paused, problems = False, []
    for record in log:
        if record.event_type in (EventType.RUN_PAUSED, EventType.RUN_RESUMED):
            paused = record.event_type == EventType.RUN_PAUSED
        elif paused and record.event_type == EventType.STEP_STARTED:
            problems.append(
                f"{run_id}: {record.step_id} starts while the run is paused, event {record.run_seq}"
            )
    return problems


def _repetition(
    run_id: RunId,
    log: list[EventRecord],
    ends: dict[tuple[str, int], EventRecord],
    earlier: Performed,
    now: Performed,
) -> list[str]:
    between = [record for record in log if earlier.head < record.run_seq <= now.head]
    reopened = any(record.event_type == EventType.RUN_REOPENED for record in between)
    if reopened and {FINALLY, "_error"} & set(now.path.split("/")):
        return []  # another opening has a cleanup of its own
    if any(_orders_a_retry_around(record, plain(now.path)) for record in between):
        return []
    end = ends.get((earlier.path, earlier.attempt))
    if end is not None and end.event_type == EventType.STEP_COMPLETED and end.run_seq <= now.head:
        return [
            f"{run_id}: {now.path} is done again as #{now.attempt} after #{earlier.attempt} had completed"
        ]
    if now.idempotent:
        return []
    decided = any(
        plain(record.step_id or "") == plain(now.path)
        and (record.event_type == EventType.STEP_INTERRUPTED or _is_failure(record))
        for record in between
    )
    return [] if decided else [f"{run_id}: {now.path} must not be repeated, and #{now.attempt} repeats it"]


def _orders_a_retry_around(record: EventRecord, path: str) -> bool:
    """The plan or a person wants a composite around this step to be tried again as a whole."""
    around: Any = None
    if record.event_type == EventType.STEP_RETRY_SCHEDULED:
        around = record.step_id
    elif record.event_type == EventType.SIGNAL_ACCEPTED:
        signal = msgspec.json.decode(record.payload)
        around = signal["payload"].get("stepId") if signal["signalType"] == "RETRY_STEP" else None
    return isinstance(around, str) and path.startswith((f"{plain(around)}/", f"{plain(around)}["))


def _is_failure(record: EventRecord) -> bool:
    if record.event_type != EventType.STEP_FAILED:
        return False
    return not is_stop(msgspec.json.decode(record.payload).get("error") or {})


_STATUS: Final = {
    EventType.RUN_COMPLETED: RunStatus.COMPLETED,
    EventType.RUN_FAILED: RunStatus.FAILED,
    EventType.RUN_CANCELLED: RunStatus.CANCELLED,
}


def check_views(plan: Plan, log: list[EventRecord]) -> None:
    machine = Machine(plan)
    for record in log:
        machine.advance(record)
    snapshot = project(log)
    last = next(record for record in reversed(log) if record.event_type in _STATUS)
    assert machine.terminal, "the machine does not know the end"
    assert not machine.inconsistent, "the log and the machine differ"
    assert not snapshot.summary.inconsistent, f"the projector differs: {snapshot.alerts}"
    assert snapshot.summary.status is _STATUS[EventType(last.event_type)]
    views_agree(plan, log)


# --- many of them ---------------------------------------------------------------------------------


def run_one(seed: int) -> tuple[str, Counter[str]]:
    """What went wrong, or nothing; and what was done."""
    operated = Operated(seed)
    try:
        with (
            patch("podium.runtime.machine_cache.CHECKPOINT_EVERY", 1 + seed % 7),
            patch("podium.runtime.machine_cache._BYTES_PER_EVENT", 1_000_000),
        ):
            if seed % _ON_SQLITE == 0:
                _run_on_sqlite(operated)
            else:
                run_virtually(operated.run())
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} in {last.name}: {error}", operated.done
    return "", operated.done


def _run_on_sqlite(operated: Operated) -> None:
    operated.done["on SQLite"] += 1

    async def work(store: Store) -> None:
        operated.store = store
        await operated.run()

    with TemporaryDirectory(prefix="operating-", dir=_memory_folder()) as folder:
        run_on_sqlite(Path(folder), work)


def _memory_folder() -> str | None:
    """What is lost with the power is not asked here, so the disk need not be waited for."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _run_batch(seeds: range) -> tuple[list[tuple[int, str]], Counter[str]]:
    failures, done = [], Counter[str]()
    for seed in seeds:
        told, found = run_one(seed)
        done += found
        if told:
            failures.append((seed, told))
    return failures, done


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.operating", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    started = time.monotonic()
    seeds = range(given.first, given.first + given.seeds)
    failures: list[tuple[int, str]] = []
    done = Counter[str]()
    with get_context("spawn").Pool(given.workers) as pool:
        for found, counted in pool.imap_unordered(
            _run_batch, [seeds[at : at + 50] for at in range(0, len(seeds), 50)]
        ):
            failures += found
            done += counted
    print(f"{given.seeds:,} seeds, {time.monotonic() - started:.0f} s, {len(failures)} failed")
    print("done:", ", ".join(f"{name} {count:,}" for name, count in sorted(done.items())))
    for seed, told in sorted(failures)[:10]:
        print(f"seed {seed}: {told[:600]}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
