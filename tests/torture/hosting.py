"""Run hosts under attack: two or three of them share a store, and all that can happen to runs and hosts happens.

Time is virtual; hosts, drivers, the machine and the store are real, for every eighth seed SQLite. Runs are created
(some twice by one request), paused, resumed, cancelled, stopped by force, approved, rejected, skipped and retried;
those that have failed or were cancelled, also before their start, are reopened, by two people at once;
hosts are stopped, frozen beyond their leases and killed, and their store does not answer for a while. In the end all
hosts are healthy and every question is answered: then every run must end.

    python -m tests.torture.hosting --seeds 1000
"""

import argparse
import asyncio
import contextlib
import inspect
import itertools
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final

import msgspec
from msgspec.structs import replace

from podium.engines.parts import LocalParts
from podium.engines.run_host import RunHost
from podium.errors import StoreUnavailable
from podium.log.events import EventRecord, EventType
from podium.log.ids import RunId
from podium.log.runs import Run
from podium.log.times import timestamp
from podium.log.transitions import TERMINAL, RunStatus
from podium.machine.obligations import Obligation
from podium.nodes.base import NodeEffect, operation
from podium.nodes.context import NodeContext
from podium.operations.explaining import explain_run
from podium.plan.plan import Plan
from podium.ports.engine import RunRequest
from podium.runtime.ends import last_end
from podium.runtime.holders import new_owner
from podium.runtime.lock import RunLocked
from podium.runtime.reopening import Reopening
from podium.runtime.replaying import replayed
from podium.runtime.signalling import append_while_open
from podium.runtime.spilling import values_of
from podium.runtime.writing import new_event
from podium.stores.memory import MemoryStore
from podium.testing.virtual_time import run_virtually
from podium.wiring.nodes import nodes_with
from tests.torture.on_sqlite import run_on_sqlite
from tests.torture.operating import LoopClock
from tests.unit.hosting.hosts import Given, Made, Second, contract, workflow

_LEASE: Final = 6.0
_ON_SQLITE: Final = 8
_RUNS: Final = 5
_ACTIONS: Final = 18
# Virtual seconds in which healthy hosts must have ended everything.
_MAX_SECONDS: Final = 900.0
_ENDS: Final = frozenset({EventType.STEP_COMPLETED, EventType.STEP_FAILED, EventType.STEP_SKIPPED})
_SIGNALS: Final = (
    "PAUSE",
    "RESUME",
    "RESUME",
    "CANCEL",
    "EMERGENCY_STOP",
    "APPROVE",
    "REJECT",
    "SKIP_STEP",
    "RETRY_STEP",
)
_ASKS: Final = "  - name: ask\n    approval: {message: Continue?}\n  - name: after\n    set: {done: true}\n"
_WAITS: Final = (
    "  - name: rest\n    approval: {message: Continue?, timeout: 7}\n  - name: after\n    set: {done: true}\n"
)


class Attacked(NodeEffect):
    """Takes its time, and is counted."""

    name = "work"
    world: ClassVar["World | None"] = None

    @operation
    async def do(self, data: Given, context: NodeContext) -> Made:
        assert Attacked.world is not None
        await Attacked.world.perform(context)
        return Made()


class HostStore:
    """The store as one host reaches it: not at all if it is dead, later if it is frozen."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.is_dead = False
        self.away_until = 0.0
        self.frozen_until = 0.0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return self._reached(found) if inspect.iscoroutinefunction(found) else found

    def _reached(self, call: Callable[..., Any]) -> Callable[..., Any]:
        async def reached(*arguments: Any, **options: Any) -> Any:
            loop = asyncio.get_running_loop()
            while not self.is_dead and loop.time() < self.frozen_until:
                await asyncio.sleep(self.frozen_until - loop.time())
            if self.is_dead or loop.time() < self.away_until:
                raise StoreUnavailable("the store does not answer")
            return await call(*arguments, **options)

        return reached


class Host:
    def __init__(self, world: "World") -> None:
        self.store = HostStore(world.store)
        self.host = RunHost(world.parts(self.store), pool="p", slots=world.random.choice([1, 2, 8]))
        self.stop = asyncio.Event()
        self.task = asyncio.create_task(self.host.serve(self.stop, drain=0))

    async def end(self) -> None:
        self.stop.set()
        await asyncio.wait_for(self.task, 60)
        assert self.host.free == self.host.slots, "a stopped host still has runs"

    async def kill(self) -> None:
        self.store.is_dead = True
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task


class World:
    """One seed."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed, self.folder = seed, folder
        self.random = Random(f"hosting {seed}")
        self.clock = LoopClock()
        self.store: Any = None
        self.hosts: list[Host] = []
        self.runs: dict[RunId, Plan] = {}
        self.keys: dict[RunId, str | None] = {}
        self.done: Counter[str] = Counter()
        self.problems: list[str] = []
        self.performed: list[tuple[RunId, str, int, int]] = []
        self.signals = 0
        work = contract()
        self.plans = [work, _not_idempotent(work), workflow(_ASKS), workflow(_WAITS)]

    def parts(self, store: Any) -> LocalParts:
        return LocalParts(
            store=store,
            clock=self.clock,
            runs=self.folder,
            secrets={},
            inline={},
            lease=timedelta(seconds=_LEASE),
            lock_wait=timedelta(seconds=1),
            outage=timedelta(seconds=30),
            artifacts=None,
            providers=None,
            recordings=None,
            nodes=nodes_with((Attacked, Second)),
        )

    async def perform(self, context: NodeContext) -> None:
        run_id = RunId(context.run_id)
        log = await self.store.read(run_id, limit=10_000)
        self.performed.append((run_id, context.step, context.attempt, log[-1].run_seq))
        await asyncio.sleep(self.random.choice([0, 0, 0.3, 2, 9]))

    # --- what happens -----------------------------------------------------------------------------

    async def run(self) -> None:
        self.store = self.store or MemoryStore(self.clock)
        Attacked.world = self
        self.hosts = [Host(self) for _ in range(self.random.choice([2, 3]))]
        for _ in range(_ACTIONS):
            await self.act()
            await asyncio.sleep(self.random.choice([0, 0, 0.05, 0.7, 3, 8]))
        await self.settle()
        for host in self.hosts:
            await host.end()
        for run_id in self.runs:
            await self.check(run_id)
        self.check_turns(await self.logs())
        assert not self.problems, "; ".join(self.problems[:3])

    async def act(self) -> None:
        random = self.random
        kind = random.choice(
            ["create", "create", "create", "signal", "signal", "signal", "two", "reopen", "host", "host"]
        )
        if kind == "create" and len(self.runs) < _RUNS:
            await self.create()
        elif kind == "host":
            await self.harm(random.choice(self.hosts))
        elif kind == "reopen":
            await self.reopen_any()
        elif self.runs:
            target = random.choice(list(self.runs))
            await asyncio.gather(*(self.signal_any(target) for _ in range(2 if kind == "two" else 1)))

    async def create(self) -> None:
        number = len(self.runs)
        plan, key = self.random.choice(self.plans), self.random.choice([None, "k", "k"])
        request = RunRequest(
            plan,
            run_id=f"r{number}",
            run_request_id=f"q{number}",
            concurrency_key=key,
            concurrency_limit=1 if key else None,
        )
        makers = self.random.sample(self.hosts, k=self.random.choice([1, 2]))
        requests = [replace(request, run_id=f"r{number}-{at}") for at in range(len(makers))]
        made = await asyncio.gather(
            *(maker.host.create(one) for maker, one in zip(makers, requests, strict=True)),
            return_exceptions=True,
        )
        known = [one for one in made if not isinstance(one, BaseException)]
        for one in made:
            if isinstance(one, BaseException) and not isinstance(one, StoreUnavailable):
                raise one
        for one in known:
            self.runs[one.run.identity.run_id] = plan
            self.keys[one.run.identity.run_id] = key
        self.done["create"] += 1
        if len({one.run.identity.run_id for one in known}) > 1 or sum(not one.duplicate for one in known) > 1:
            self.problems.append(f"request q{number} made two runs")

    async def harm(self, host: Host) -> None:
        kind, now = (
            self.random.choice(["stop", "kill", "freeze", "outage"]),
            asyncio.get_running_loop().time(),
        )
        self.done[kind] += 1
        if kind == "freeze":
            host.store.frozen_until = now + self.random.choice([2, 10, 25])
        elif kind == "outage":
            host.store.away_until = now + self.random.choice([1, 5, 12])
        else:
            await (host.end() if kind == "stop" else host.kill())
            self.hosts[self.hosts.index(host)] = Host(self)

    async def signal_any(self, run_id: RunId) -> None:
        kind = self.random.choice(_SIGNALS)
        about_step = kind in ("APPROVE", "REJECT", "SKIP_STEP", "RETRY_STEP")
        steps = [step.step_id for step in self.runs[run_id].workflow.block.steps]
        await self.signal(run_id, kind, **({"stepId": self.random.choice(steps)} if about_step else {}))

    async def signal(self, run_id: RunId, kind: str, **payload: Any) -> None:
        run = await self.store.get_run(run_id)
        if run.status is RunStatus.PENDING and kind not in ("CANCEL", "EMERGENCY_STOP"):
            return
        self.done[kind] += 1
        self.signals += 1
        name = f"signal-{self.signals}"
        body = {"signalId": name, "signalType": kind, "payload": payload}
        now = timestamp(self.clock.now())
        write = new_event(
            run.identity, EventType.SIGNAL_ACCEPTED, now, msgspec.json.encode(body), subject=name
        )
        await append_while_open(self.store, run_id, write)

    async def reopen_any(self) -> None:
        """What `podium resume` does with a run that has ended. Runs with a key had their turn, and are left alone."""
        rows = [await self.store.get_run(run_id) for run_id in self.runs if self.keys[run_id] is None]
        ended = [row for row in rows if row.status in (RunStatus.FAILED, RunStatus.CANCELLED)]
        if ended:
            row = self.random.choice(ended)
            people = self.random.choice([1, 2])
            done = await asyncio.gather(*(self.reopen(row) for _ in range(people)), return_exceptions=True)
            refused = [one for one in done if isinstance(one, BaseException)]
            if len(refused) == people or not all(isinstance(one, RunLocked) for one in refused):
                raise refused[0]
            self.done["reopen"] += 1

    async def reopen(self, row: Run) -> None:
        end = await last_end(self.store, row)
        assert end is not None
        reopening = Reopening(self.store, self.clock, row, end.run_seq)
        lease = await self.store.claim(row.identity.run_id, owner=new_owner(), ttl=timedelta(seconds=_LEASE))
        if lease is None:
            raise RunLocked(row.identity.run_id, None)
        try:
            await reopening.carry_out(lease)
        finally:
            await self.store.release(lease)

    # --- what must be -----------------------------------------------------------------------------

    async def settle(self) -> None:
        """All hosts are healthy and all questions are answered: every run ends."""
        for host in self.hosts:
            host.store.frozen_until = host.store.away_until = 0.0
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _MAX_SECONDS
        while open_runs := [run_id for run_id in self.runs if not await self.is_over(run_id)]:
            if loop.time() > deadline:
                words = [await self.waits_for(run_id) for run_id in open_runs]
                raise AssertionError(f"not ended: {words}")
            for run_id in open_runs:
                await self.help(run_id)
            await asyncio.sleep(5)

    async def is_over(self, run_id: RunId) -> bool:
        return (await self.store.get_run(run_id)).status in TERMINAL

    async def help(self, run_id: RunId) -> None:
        run, plan = await self.store.get_run(run_id), self.runs[run_id]
        if run.status is RunStatus.PAUSED:
            await self.signal(run_id, "RESUME")
        elif run.status is RunStatus.RUNNING:
            machine = await replayed(self.store, run_id, plan, self.values(run_id))
            for one in machine.obligations():
                await self.answer(run_id, one)
        words = await self.waits_for(run_id)
        if not words and not await self.is_over(run_id):
            self.problems.append(f"{run_id} is open, and nothing says what it waits for")

    async def answer(self, run_id: RunId, one: Obligation) -> None:
        if one.kind == "approval" and one.deadline is not None:
            return  # its timer ends it, also in a run that was parked
        if one.kind in ("approval", "doubt", "operator"):
            kind = "RETRY_STEP" if one.kind == "operator" else "APPROVE"
            await self.signal(run_id, kind, stepId=one.subject)

    def values(self, run_id: RunId) -> Any:
        parts = self.parts(self.store)
        return values_of(self.store, run_id, parts.directory(run_id), None, None)

    async def waits_for(self, run_id: RunId) -> str:
        run = await self.store.get_run(run_id)
        found = await explain_run(self.store, run, self.runs[run_id], self.clock.now(), self.values(run_id))
        return ", ".join(reason.text for reason in found.reasons)

    async def logs(self) -> dict[RunId, list[EventRecord]]:
        return {run_id: await self.store.read(run_id, limit=10_000) for run_id in self.runs}

    async def check(self, run_id: RunId) -> None:
        log = await self.store.read(run_id, limit=10_000)
        if await self.store.held_lease(run_id) is not None:
            self.problems.append(f"{run_id} has ended, and is held")
        ends: dict[tuple[str | None, int], int] = {}
        for record in log:
            if record.event_type in _ENDS:
                key = (record.step_id, record.logical_attempt_id)
                if key in ends:
                    self.problems.append(f"{run_id}: {key} has two ends")
                ends[key] = record.run_seq
        for run, step, attempt, head in self.performed:
            if run == run_id and ends.get((step, attempt), head + 1) <= head:
                self.problems.append(f"{run_id}: {step}#{attempt} starts after its end")
        self.check_repetition(run_id, log)

    def check_repetition(self, run_id: RunId, log: list[EventRecord]) -> None:
        """A step that must not be repeated is performed again only after a decision in the log."""
        mine = [one for one in self.performed if one[0] == run_id]
        if self.runs[run_id] is not self.plans[1]:
            return
        for before, again in itertools.pairwise(mine):
            between = [one for one in log if before[3] < one.run_seq <= again[3]]
            if not any(one.event_type == EventType.SIGNAL_ACCEPTED for one in between):
                self.problems.append(f"{run_id}: {again[1]} was repeated without a decision")

    def check_turns(self, logs: dict[RunId, list[EventRecord]]) -> None:
        """Runs with one key start by age, each after the end of the one before."""
        line = [run_id for run_id in self.runs if self.keys[run_id] == "k"]
        last_end = ""
        for run_id in line:
            started = [one for one in logs[run_id] if one.event_type == EventType.RUN_STARTED]
            if not started:
                continue
            if started[0].emitted_at < last_end:
                self.problems.append(f"{run_id} starts before the end of the run before it")
            last_end = max(last_end, logs[run_id][-1].emitted_at)


def _not_idempotent(plan: Plan) -> Plan:
    steps = tuple(
        replace(step, idempotent=False) if step.step_id == "work" else step
        for step in plan.workflow.block.steps
    )
    block = replace(plan.workflow.block, steps=steps)
    return replace(plan, workflow=replace(plan.workflow, block=block))


def run_one(seed: int) -> tuple[str, Counter[str]]:
    """What went wrong, or nothing; and what was done."""
    with TemporaryDirectory(prefix="hosting-") as folder:
        world = World(seed, Path(folder))
        try:
            if seed % _ON_SQLITE == 0:
                world.done["on SQLite"] += 1
                run_on_sqlite(Path(folder), lambda store: _on(world, store))
            else:
                run_virtually(world.run())
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            return f"{type(error).__name__} in {last.name}: {error}", world.done
    return "", world.done


async def _on(world: World, store: Any) -> None:
    world.store = store
    await world.run()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.hosting", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    started, done, failures = time.monotonic(), Counter[str](), 0
    for seed in range(given.first, given.first + given.seeds):
        problem, counted = run_one(seed)
        done += counted
        if problem:
            failures += 1
            print(f"seed {seed}: {problem[:600]}", flush=True)
    print(f"{given.seeds:,} seeds, {time.monotonic() - started:.0f} s, {failures} failed")
    print("done:", ", ".join(f"{name} {count:,}" for name, count in sorted(done.items())))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
