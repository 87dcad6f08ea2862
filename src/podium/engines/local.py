"""The embedded engine: this process drives the run and carries out its tasks. Nothing has to be started for it.

A run belongs to whoever holds its lease; the lease is renewed while the run is driven and given up at its end. A
process that was thought dead and comes back cannot write any more.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import msgspec

from podium.core.canonical import canonical_sha256
from podium.core.keys import key_v1, slot_of
from podium.core.machine import RULES_VERSION
from podium.core.plans import plan_bytes, steps_of
from podium.errors import PodiumError, StaleFence
from podium.model.events import EventRecord, EventType, EventWrite, RunIdentity, encode_payload
from podium.model.ids import RunId, check_id
from podium.model.leases import Lease
from podium.model.plan import PLAIN_WORK, Plan
from podium.model.runs import NewRun, Run
from podium.model.times import timestamp
from podium.model.transitions import TERMINAL, RunStatus
from podium.ports.clock import Clock
from podium.ports.engine import Driving, Observer, RunEnded, RunRequest
from podium.ports.store import Store
from podium.runtime.drive import Driver, Happening, World
from podium.runtime.journal import Journal
from podium.runtime.kept_plan import load_plan
from podium.runtime.lock import RunLock
from podium.runtime.rundir import RunDirectory, write_atomically
from podium.runtime.state_file import StateFile
from podium.runtime.tasks import processes
from podium.runtime.tasks.host import TaskHost
from podium.runtime.tasks.performing import RunTasks

LEASE: Final = timedelta(seconds=30)
_RENEW_SECONDS: Final = 10.0
_CANCEL_SECONDS: Final = 0.25


class RunExists(PodiumError):
    code = "RUN_EXISTS"


class RunEndedAlready(PodiumError):
    """A completed run is never taken up again."""

    code = "RUN_COMPLETED"


class LocalEngine:
    """An `Engine`."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        runs: Path,
        *,
        secrets: Mapping[str, str] | None = None,
        inline: dict[str, Callable[..., Any]] | None = None,
        lease: timedelta = LEASE,
    ) -> None:
        self._store = store
        self._clock = clock
        self._runs = runs
        # Where secrets come from: the environment, unless others are given.
        self._secrets = os.environ if secrets is None else secrets
        self._inline = inline or {}
        self._lease = lease
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"

    # --- creating ---------------------------------------------------------------------------------

    async def create(self, request: RunRequest) -> RunId:
        run_id = RunId(request.run_id or str(uuid4()))
        check_id("run_id", run_id)
        directory = RunDirectory(self._runs, run_id)
        if directory.path.exists():
            raise RunExists(f"there is a run {run_id!r} already; go on with it by `podium resume {run_id}`")
        plan = request.plan
        encoded = plan_bytes(plan)
        directory.make()
        write_atomically(directory.plan, encoded)
        write_atomically(directory.workflow, request.source)
        identity = RunIdentity(
            run_id=run_id,
            tenant_id=request.tenant_id,
            project_id=request.project_id,
            environment_id=request.environment_id,
            plan_id=plan.metadata.plan_id,
            plan_version=plan.metadata.plan_version,
        )
        metadata = {"workspace": str(request.workspace.absolute()), "name": plan.metadata.name}
        new = NewRun(
            identity=identity,
            plan_sha256=sha256(encoded).hexdigest(),
            inputs_sha256=canonical_sha256(request.inputs),
            priority=plan.priority,
            metadata=msgspec.json.encode(metadata),
        )
        payload: dict[str, Any] = {"inputs": request.inputs}
        if request.original_run_id is not None:
            payload["originalRunId"] = request.original_run_id
        await self._store.create_run(new, [self._write(identity, EventType.RUN_QUEUED, payload)])
        return run_id

    def _write(
        self, identity: RunIdentity, event_type: str, payload: dict[str, Any], attempt: int = 1
    ) -> EventWrite:
        return EventWrite(
            event_id=str(uuid4()),
            event_type=event_type,
            idempotency_key=key_v1(
                identity.run_id, slot_of(event_type), attempt, event_type, identity.plan_version
            ),
            emitted_at=timestamp(self._clock.now()),
            logical_attempt_id=attempt,
            payload=encode_payload(payload),
        )

    # --- driving ----------------------------------------------------------------------------------

    async def drive(
        self,
        run_id: RunId,
        *,
        observers: Sequence[Observer] = (),
        on_driving: Callable[[Driving], None] | None = None,
        reopen: bool = False,
    ) -> RunEnded:
        directory = RunDirectory(self._runs, run_id)
        run = await self._store.get_run(run_id)
        if run.status is RunStatus.COMPLETED and reopen:
            raise RunEndedAlready(
                f"run {run_id!r} has completed; start a new one, or `podium rerun {run_id}`"
            )
        directory.make()
        lock = RunLock(directory.lock, run_id)
        await lock.take()
        try:
            lease = await self._claim(run_id, lock)
            lock.tell(lease)
            try:
                return await self._drive(run_id, directory, lease, observers, on_driving, reopen)
            finally:
                with contextlib.suppress(PodiumError):
                    await self._store.release(lease)
        finally:
            lock.give()

    async def _claim(self, run_id: RunId, lock: RunLock) -> Lease:
        """The lease of a process that is gone on this host is given up for it."""
        before = lock.lease_before()
        if before is not None:
            await self._store.release(before)
        deadline = asyncio.get_running_loop().time() + self._lease.total_seconds() + 5
        while True:
            lease = await self._store.claim(run_id, owner=self._owner, ttl=self._lease)
            if lease is not None:
                return lease
            if asyncio.get_running_loop().time() > deadline:
                raise StaleFence(f"run {run_id!r} is held by somebody else; see `podium why {run_id}`")
            await asyncio.sleep(0.2)

    async def _drive(
        self,
        run_id: RunId,
        directory: RunDirectory,
        lease: Lease,
        observers: Sequence[Observer],
        on_driving: Callable[[Driving], None] | None,
        reopen: bool,
    ) -> RunEnded:
        run = await self._store.get_run(run_id)
        plan = load_plan(directory, run)
        processes.become_subreaper()
        directory.remove_leftovers()
        workspace = Path(msgspec.json.decode(run.metadata).get("workspace", "."))
        facts = _facts(run, plan, directory, workspace, timestamp(self._clock.now()))
        tasks = RunTasks(run_id, plan, self._host(plan, directory, workspace), facts, self._inline)
        journal = Journal(directory)
        state = StateFile(directory, plan, run_id)
        seen = await self._replay(run_id, state, journal)
        world = World(self._store, self._clock, tasks, tasks.ask, [journal, state, *observers])
        driver = Driver(plan, run.identity, lease.fence, world)
        driving = _Driving(driver)
        if run.status in TERMINAL and reopen:
            openings = 2 + sum(1 for record in seen if record.event_type == EventType.RUN_REOPENED)
            write = self._write(run.identity, EventType.RUN_REOPENED, {}, openings)
            await self._store.append(run_id, [write], fence=lease.fence)
        elif run.status in (RunStatus.PENDING, RunStatus.APPROVED):
            driver.happen(Happening(EventType.RUN_STARTED, payload=self._start(plan, seen, facts)))
        if on_driving is not None:
            on_driving(driving)
        helpers = [
            asyncio.create_task(self._renew(lease, driver)),
            asyncio.create_task(_look_for_cancel(directory, driving)),
        ]
        try:
            last = await driver.drive()
        except asyncio.CancelledError:
            tasks.stop_all("INTERRUPTED", force=True)
            await tasks.finish()
            raise
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
            state.write()
            journal.close()
        return _ended(run_id, last)

    async def _replay(self, run_id: RunId, state: StateFile, journal: Journal) -> list[EventRecord]:
        """What is in the log already, for the files of the run's directory; returns its run-level events."""
        kept: list[EventRecord] = []
        after = 0
        while records := await self._store.read(run_id, after=after, limit=5000):
            after = records[-1].run_seq
            for record in records:
                state.fold(record)
                if record.step_id is None:
                    kept.append(record)
            journal(records)
        return kept

    def _host(self, plan: Plan, directory: RunDirectory, workspace: Path) -> TaskHost:
        works = (getattr(step.body, "work", PLAIN_WORK) for step in steps_of(plan.workflow))
        names = frozenset(plan.workflow.secrets) | {name for work in works for name in work.secrets}
        values = {name: self._secrets[name] for name in names if self._secrets.get(name)}
        return TaskHost.of(directory, workspace, names, values)

    def _start(self, plan: Plan, seen: Sequence[EventRecord], facts: dict[str, Any]) -> dict[str, Any]:
        """What decisions may read of the world: fixed once, at the start."""
        queued = next((record for record in seen if record.event_type == EventType.RUN_QUEUED), None)
        inputs = msgspec.json.decode(queued.payload).get("inputs", {}) if queued is not None else {}
        allowed = set(plan.workflow.env_allow) - set(plan.workflow.secrets)
        env = {name: os.environ[name] for name in sorted(allowed) if name in os.environ}
        return {"rulesVersion": RULES_VERSION, "inputs": inputs, "env": env, "run": facts}

    async def _renew(self, lease: Lease, driver: Driver) -> None:
        while True:
            await asyncio.sleep(min(_RENEW_SECONDS, self._lease.total_seconds() / 3))
            try:
                renewed = await self._store.renew(lease, ttl=self._lease)
            except PodiumError:
                continue  # the store is away for a moment; the lease itself says how long that may last
            if renewed is None:
                told = f"run {lease.run_id!r} was taken over by somebody else; nothing more is written here"
                driver.lose(StaleFence(told))
                return
            lease = renewed


class _Driving:
    """What a person can do to a run that this process drives."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def cancel(self, reason: str, *, force: bool = False) -> None:
        signal_id = str(uuid4())
        payload = {
            "signalId": signal_id,
            "signalType": "EMERGENCY_STOP" if force else "CANCEL",
            "payload": {"reason": reason},
        }
        self._driver.happen(Happening(EventType.SIGNAL_ACCEPTED, payload=payload, subject=signal_id))


async def _look_for_cancel(directory: RunDirectory, driving: _Driving) -> None:
    """The marker `.cancel`, for those who have nothing but the directory."""
    while True:
        await asyncio.sleep(_CANCEL_SECONDS)
        if directory.cancel_marker.exists():
            directory.cancel_marker.unlink(missing_ok=True)
            driving.cancel("asked for by .cancel")


def _facts(run: Run, plan: Plan, directory: RunDirectory, workspace: Path, now: str) -> dict[str, Any]:
    return {
        "id": run.identity.run_id,
        "name": plan.metadata.name,
        "dir": str(directory.path.absolute()),
        "artifacts": str(directory.artifacts.absolute()),
        "workspace": str(workspace),
        "started_at": now,
    }


def _ended(run_id: RunId, last: EventRecord) -> RunEnded:
    payload = msgspec.json.decode(last.payload)
    error = payload.get("error") or {}
    code = payload.get("exitCode")
    return RunEnded(
        run_id,
        last.event_type,
        code if isinstance(code, int) else 1,
        str(payload.get("reason") or ""),
        str(error.get("message") or ""),
    )
