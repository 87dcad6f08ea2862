"""A run with a real driver and a real store, whose tasks do what their words say.

A step `command: [exit, 1, 0]` fails at its first attempt and succeeds from the second on; `[exit, "${item}"]` asks the
item. `[hang]` goes on until it is stopped, `[timeout]` takes too long, `[say, "..."]` succeeds with that output. An
agent costs what its prompt says.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from podium.expressions.evaluate import MISSING, EvaluationError
from podium.expressions.templates import render
from podium.log.events import EventRecord, EventType, EventWrite, RunIdentity, encode_payload
from podium.log.ids import RunId
from podium.log.keys import key_v1, slot_of
from podium.log.leases import Lease
from podium.log.runs import NewRun
from podium.log.times import timestamp
from podium.machine import RULES_VERSION
from podium.machine.commands import Question, RunTask
from podium.plan.plan import Agent, Command, Plan
from podium.ports.store import Store
from podium.runtime.checkpoints import CheckpointWriter, machine_of, newest_for
from podium.runtime.drive import Driver
from podium.runtime.inbox import PendingEvent
from podium.runtime.tasks.order import TaskResult, completed, failed, stopped
from podium.runtime.world import Observer, StateView, World
from podium.stores.memory import MemoryStore

Key = tuple[str, int]
TTL = timedelta(seconds=30)
R1 = RunId("r1")


class WallClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def elapsed(self) -> float:
        return asyncio.get_running_loop().time()


@dataclass
class ScriptedTasks:
    """`Tasks` that keeps books: what was begun when, and how often."""

    begun: list[tuple[str, int, int]] = field(default_factory=list)
    ended: list[Key] = field(default_factory=list)
    orphans_stopped: int = 0
    most_at_once: int = 0
    on_start: Callable[[RunTask], None] | None = None
    _hanging: dict[Key, Callable[[TaskResult], None]] = field(default_factory=dict)
    _under_way: set[Key] = field(default_factory=set)

    def start(self, task: RunTask, engine_attempt: int, done: Callable[[TaskResult], None]) -> None:
        key = (task.path, task.attempt)
        assert key not in self._under_way, f"{key} is begun while it runs"
        self.begun.append((*key, engine_attempt))
        self._under_way.add(key)
        self.most_at_once = max(self.most_at_once, len(self._under_way))
        if self.on_start is not None:
            self.on_start(task)
        result = self.result_of(task)
        if result is None:
            self._hanging[key] = done
        else:
            asyncio.get_running_loop().call_soon(self._end, key, done, result)

    def _end(self, key: Key, done: Callable[[TaskResult], None], result: TaskResult) -> None:
        if key in self._under_way:
            self._under_way.discard(key)
            self.ended.append(key)
            done(result)

    def result_of(self, task: RunTask) -> TaskResult | None:
        body = task.step.body
        if isinstance(body, Agent):
            return completed(output="", usage={"costUsd": float(str(body.prompt.text)), "tokens": 3})
        assert isinstance(body, Command)
        values = task.values or {}
        try:
            words = [render(text, lambda path: values.get(path, MISSING)) for text in body.argv]
        except EvaluationError as error:
            return failed(125, error.code, str(error), retryable=False)
        match words:
            case ["hang"]:
                return None
            case ["timeout"]:
                return failed(124, "TIMEOUT", "it took too long")
            case ["say", text]:
                return completed(output=text)
            case ["exit", *codes]:
                code = int(codes[min(task.attempt, len(codes)) - 1])
                return completed(output="") if code == 0 else failed(code, "EXIT_CODE", f"exit code {code}")
        raise AssertionError(words)

    def finish(self, path: str, result: TaskResult) -> None:
        """End the first attempt of a step that hangs."""
        self._end((path, 1), self._hanging.pop((path, 1)), result)

    def stop(self, path: str, attempt: int, code: str, *, force: bool) -> bool:
        key = (path, attempt)
        if key not in self._under_way:
            return False
        done = self._hanging.pop(key, None)
        if done is not None:
            asyncio.get_running_loop().call_soon(self._end, key, done, stopped(code))
        return True

    async def stop_orphans(self) -> None:
        self.orphans_stopped += 1


def nothing_there(_question: Question) -> bool:
    return False


@dataclass
class Scripted:
    """One run on a store; it can be driven, left lying, and driven again."""

    plan: Plan
    store: Store
    run_id: RunId = R1
    tasks: ScriptedTasks = field(default_factory=ScriptedTasks)
    observers: list[Observer] = field(default_factory=list)
    views: list[Observer] = field(default_factory=list)
    state_views: list[StateView] = field(default_factory=list)
    ask: Callable[[Question], bool] = nothing_there
    driver: Driver | None = None
    # Save checkpoints, and start from them.
    checkpoints: bool = False

    @property
    def identity(self) -> RunIdentity:
        return RunIdentity(
            run_id=self.run_id,
            tenant_id="default",
            project_id="default",
            environment_id="local",
            plan_id="test",
            plan_version="1",
        )

    async def create(self) -> "Scripted":
        await self.store.create_run(
            NewRun(identity=self.identity), [write_of(self.identity, EventType.RUN_QUEUED)]
        )
        return self

    async def claim(self) -> Lease:
        lease = await self.store.claim(self.run_id, owner=f"test-{uuid4()}", ttl=TTL)
        assert lease is not None
        return lease

    def begin(self, lease: Lease, log: Any = None) -> Driver:
        world = World(
            log if log is not None else self.store,
            WallClock(),
            self.tasks,
            self.ask,
            views=self.views,
            state_views=self.state_views,
            observers=self.observers,
        )
        if self.checkpoints:
            world.checkpoints = CheckpointWriter(self.store, self.run_id, self.plan, {})
        self.driver = Driver(self.plan, self.identity, lease.fence, world)
        return self.driver

    async def _start_from_checkpoint(self, driver: Driver) -> None:
        saved = await newest_for(self.store, self.run_id, self.plan)
        if saved is not None:
            machine = machine_of(self.plan, saved)
            assert machine is not None
            driver.start_from(machine, saved)

    async def drive(self, *, log: Any = None, seconds: float = 20, **inputs: Any) -> EventRecord:
        """From where the log stands to the end of the run."""
        lease = await self.claim()
        try:
            driver = self.begin(lease, log)
            if self.checkpoints:
                await self._start_from_checkpoint(driver)
            records = await self.store.read(self.run_id, limit=3)
            if not any(record.event_type == EventType.RUN_STARTED for record in records):
                driver.submit(
                    PendingEvent(
                        EventType.RUN_STARTED, payload={"rulesVersion": RULES_VERSION, "inputs": inputs}
                    )
                )
            async with asyncio.timeout(seconds):
                return await driver.drive()
        finally:
            await self.store.release(lease)

    async def log(self) -> list[EventRecord]:
        return await self.store.read(self.run_id, limit=1_000_000)


def memory() -> MemoryStore:
    return MemoryStore(WallClock())


def write_of(identity: RunIdentity, event_type: str, path: str | None = None, **payload: Any) -> EventWrite:
    subject = payload.get("signalId")
    return EventWrite(
        event_id=str(uuid4()),
        event_type=event_type,
        idempotency_key=key_v1(
            identity.run_id, slot_of(event_type, step_id=path, subject=subject), 1, event_type, "1"
        ),
        emitted_at=timestamp(datetime.now(UTC)),
        step_id=path,
        payload=encode_payload(payload),
    )


def signal(identity: RunIdentity, signal_type: str, **payload: Any) -> EventWrite:
    return write_of(
        identity,
        EventType.SIGNAL_ACCEPTED,
        signalId=str(uuid4()),
        signalType=signal_type,
        payload=payload,
    )
