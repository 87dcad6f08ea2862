"""The embedded engine: this process drives the run and carries out its tasks. Nothing has to be started for it.

A run belongs to whoever holds its lease; the lease is renewed while the run is driven and given up at its end. A
process that was thought dead and comes back cannot write any more.
"""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

import msgspec

from podium.environment import hide_environment
from podium.errors import InvalidId, PodiumError, RunNotFound, RunRequestConflict, StoreUnavailable
from podium.log.events import EventType, RunIdentity, encode_payload
from podium.log.ids import RunId, check_id
from podium.log.leases import DRIVER_LEASE, HeldLease, Lease
from podium.log.runs import EngineRunRef, NewRun, Run
from podium.log.times import Timestamp, timestamp
from podium.log.transitions import TERMINAL, RunStatus
from podium.machine import RULES_VERSION
from podium.machine.obligations import Obligation
from podium.plan.canonical import canonical_sha256
from podium.plan.loading import located_steps, plan_bytes, steps_of
from podium.plan.plan import PLAIN_WORK, Agent, Call, Concurrency, Plan
from podium.ports.artifacts import ArtifactStore
from podium.ports.clock import Clock
from podium.ports.engine import LEFT, RESUMABLE, Driving, Notice, Observer, RunEnded, RunRequest
from podium.ports.store import Store
from podium.runtime import holders, slots
from podium.runtime.alerts import Alerting
from podium.runtime.beside import beside
from podium.runtime.draining import watch_draining
from podium.runtime.drive import Driver, PendingEvent, Tasks, World
from podium.runtime.ends import ended_by
from podium.runtime.journal import Journal
from podium.runtime.lease_keeper import LeaseKeeper
from podium.runtime.lock import WAIT_SECONDS, RunLock, RunLocked
from podium.runtime.outages import OUTAGE, Outages
from podium.runtime.plan_file import PLAN, WORKFLOW, load_plan
from podium.runtime.preflight import Readiness, Surroundings, check_needs
from podium.runtime.reopening import NotAsDecided, Reopening
from podium.runtime.reusing import (
    Before,
    Reuse,
    ReusingTasks,
    before,
    cached_results,
    results_before,
    results_beside,
)
from podium.runtime.run_file import write_run_file
from podium.runtime.rundir import RunDirectory, write_atomically, write_private
from podium.runtime.spilling import NewValues, RunValues, is_value, put_back, spill, values_of, whole
from podium.runtime.state_file import StateFile
from podium.runtime.tasks import processes
from podium.runtime.tasks.dispatch import RunTasks
from podium.runtime.tasks.host import TaskHost
from podium.runtime.tasks.masking import masked
from podium.runtime.view_trouble import ViewTrouble
from podium.runtime.workspaces import check_workspace, workspace_of
from podium.runtime.writing import new_event

if TYPE_CHECKING:
    from podium.ports.provider import Provider, Providers
    from podium.runtime.tasks.recordings import Recordings

_T = TypeVar("_T")

LEASE: Final = DRIVER_LEASE
LOCK_WAIT: Final = timedelta(seconds=WAIT_SECONDS)
_STORE_FILE: Final = "podium.db"
# How much longer than a lease lasts its lapse is waited for.
_LAPSE_MARGIN: Final = timedelta(seconds=5)
_KEEP_UP_SECONDS: Final = 0.25
_IDLE_SECONDS: Final = 0.1
_FOR_A_PERSON: Final = frozenset({"approval", "operator", "doubt"})
# Also while a run is held. Tasks that wait for a slot wait for its release, too.
_MOVING: Final = frozenset({"probe", "record", "start"})


class RunExists(PodiumError):
    code = "RUN_EXISTS"


class OtherRules(PodiumError):
    """Begun by a version that decides differently: its log cannot be gone on with."""

    code = "OTHER_RULES"


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
        lock_wait: timedelta = LOCK_WAIT,
        outage: timedelta = OUTAGE,
        artifacts: Callable[[Path], ArtifactStore] | None = None,
        providers: "Callable[[], Providers] | None" = None,
        recordings: "Recordings | None" = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._runs = runs
        # Where secrets come from: the environment, unless others are given.
        self._secrets = os.environ if secrets is None else secrets
        self._inline = inline or {}
        self._lease = lease
        self._lock_wait = lock_wait
        # How long a store that is away is waited for.
        self._outage = outage
        # Where a run's large values are kept, below its directory; made when there is one.
        self._artifacts = artifacts
        # Who answers agent steps; asked for by the first plan that has one.
        self._providers = providers
        # Where answers of agents are kept, or come from.
        self._recordings = recordings
        self._owner = holders.new_owner()

    # --- creating ---------------------------------------------------------------------------------

    async def create(self, request: RunRequest, *, notify: Callable[[Notice], None] | None = None) -> RunId:
        run_id = RunId(request.run_id or str(uuid4()))
        check_id("run_id", run_id)
        _check_no_store_file(run_id)
        directory = RunDirectory(self._runs, run_id)
        await self._check_unused(run_id, directory)
        plan = request.plan
        self.check(plan, request.workspace).require()
        key = slots.concurrency_key(plan, request.inputs, self._env_of(plan))
        if any(isinstance(s.body, Agent) and s.body.workspace == "worktree" for s in steps_of(plan.workflow)):
            from podium.runtime.tasks import worktrees

            await worktrees.check(self._host(plan, directory, request.workspace), run_id)
        encoded = plan_bytes(plan)
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
            concurrency_key=key,
            metadata=msgspec.json.encode(metadata),
        )
        payload: dict[str, Any] = {"inputs": request.inputs}
        if request.original_run_id is not None:
            payload["originalRunId"] = request.original_run_id
            payload["rerunFrom"] = request.rerun_from
            if request.only_changed:
                payload["onlyChanged"] = True
        if request.env_files is not None:
            payload["envFiles"] = request.env_files.facts
        at = timestamp(self._clock.now())
        values = NewValues()
        queued = new_event(identity, EventType.RUN_QUEUED, at, await spill(payload, values))
        contents = {PLAN: encoded, WORKFLOW: request.source, **values.contents}
        create = partial(self._store.create_run, new, [queued], contents)
        try:
            created = await self._patiently(run_id, create, notify)
        except RunRequestConflict as conflict:
            raise _exists(run_id) from conflict
        # It may be ours: the answer to the first try may have been lost.
        if created.duplicate and (await self._store.read(run_id, limit=1))[0].event_id != queued.event_id:
            raise _exists(run_id)
        await self._write_directory(created.run, directory, contents)
        if request.env_files is not None:
            write_private(directory.env_key, request.env_files.key)
        return run_id

    async def _patiently(
        self,
        run_id: RunId,
        call: Callable[[], Awaitable[_T]],
        notify: Callable[[Notice], None] | None = None,
    ) -> _T:
        """As patient as a driver: a process that is stopped while it writes must not keep others from starting."""
        try:
            return await call()
        except StoreUnavailable as error:
            outages = Outages(
                run_id, lambda: timestamp(self._clock.now()), budget=self._outage, notify=notify
            )
            return await outages.outlast(error, call)

    async def _write_directory(
        self, run: Run, directory: RunDirectory, contents: Mapping[str, bytes]
    ) -> None:
        """Only now: whoever created the run in the store owns its directory. If this is cut short, resume does it."""
        directory.make()
        write_run_file(directory, run)
        for name, content in contents.items():
            if is_value(name):
                await self._payloads(directory)().copy(content)
            elif name != PLAN:
                write_atomically(directory.path / name, content, durable=False)
        write_atomically(directory.plan, contents[PLAN], durable=False)

    async def _concurrency(self, run: Run, directory: RunDirectory) -> Concurrency | None:
        if run.concurrency_key is None:
            return None
        return (await load_plan(self._store, directory, run)).concurrency

    def _env_of(self, plan: Plan) -> dict[str, str]:
        """What a workflow may read of the environment."""
        return {name: os.environ[name] for name in plan.workflow.env_allow if name in os.environ}

    async def _check_unused(self, run_id: RunId, directory: RunDirectory) -> None:
        """Before anything is checked or made; creating the run in the store decides it for good."""
        with contextlib.suppress(RunNotFound):
            await self._store.get_run(run_id)
            raise _exists(run_id)
        # An empty directory is no run: whoever made it may have been killed before there was one.
        if directory.state.exists() or (directory.logs / "events.jsonl").exists():
            raise RunExists(
                f"{directory.path} has a run {run_id!r} that this store does not have; name its store with --store, "
                "rebuild a lost one with `podium store rebuild`, or use another id"
            )

    # --- driving ----------------------------------------------------------------------------------

    async def drive(
        self,
        run_id: RunId,
        *,
        observers: Sequence[Observer] = (),
        on_driving: Callable[[Driving], None] | None = None,
        reopen: int | None = None,
        no_wait: bool = False,
        lock_wait: float | None = None,
        notify: Callable[[Notice], None] | None = None,
        check: bool = True,
        on_waiting: Callable[[Sequence[Obligation]], None] | None = None,
    ) -> RunEnded:
        directory = RunDirectory(self._runs, run_id)
        run = await self._store.get_run(run_id)
        reopening = Reopening(self._store, self._clock, run, reopen)
        if await reopening.is_completed():
            await self._tell_the_end(run, directory)
            raise _completed(run_id)
        await reopening.check()
        directory.make()
        lock = RunLock(directory.lock, run_id)
        patience = lock_wait if lock_wait is not None else self._lock_wait.total_seconds()
        concurrency = await self._concurrency(run, directory)
        limit = concurrency.limit if concurrency is not None else None
        lease = await self._take_lock(reopening, lock, patience, limit)
        try:
            driving = _Driving()
            is_new = run.status in (RunStatus.PENDING, RunStatus.APPROVED)
            # A new run can be cancelled while it waits for a slot; one that is resumed stays what it is.
            if concurrency is not None and is_new and on_driving is not None:
                on_driving(driving)
            if lease is None:
                lease = await self._claim_soon(run, lock, concurrency, driving, notify)
            lock.record_lease(lease)
            keeper = LeaseKeeper(self._store, lease, self._lease, lock.record_lease, slots=limit)
            if on_driving is not None and not (concurrency is not None and is_new):
                on_driving(driving)
            try:
                return await self._drive(
                    reopening,
                    directory,
                    lock,
                    keeper,
                    observers,
                    driving,
                    no_wait=no_wait,
                    notify=notify,
                    check=check,
                    on_waiting=on_waiting,
                )
            finally:
                await keeper.release()
        except slots.ConcurrencyLimit:
            lock.release()
            await self._tell_the_end(await self._store.get_run(run_id), directory)
            raise
        finally:
            lock.release()

    async def _tell_the_end(self, run: Run, directory: RunDirectory) -> None:
        """Whoever drove the run to its end may have been killed before its directory told of it."""
        from podium.runtime.restoring import write_views

        lock = RunLock(directory.lock, run.identity.run_id)
        with contextlib.suppress(RunLocked):
            await lock.take(_nobody, wait=0)
            try:
                await write_views(self._store, self._clock, directory, run, self._payloads(directory))
            finally:
                lock.release()

    async def _claim(self, run_id: RunId, slots: int | None = None) -> Lease | None:
        claim = partial(self._store.claim, run_id, owner=self._owner, ttl=self._lease, slots=slots)
        return await self._patiently(run_id, claim)

    async def _claim_as_decided(self, reopening: Reopening, limit: int | None) -> Lease | None:
        """While another process holds the run: it may have done what this one was asked for."""
        await reopening.check()
        return await self._claim(reopening.run_id, limit)

    async def _take_lock(
        self, reopening: Reopening, lock: RunLock, patience: float, limit: int | None
    ) -> Lease | None:
        """Also names a process whose lock file is damaged: the lease knows it."""
        run_id = reopening.run_id
        try:
            return await lock.take(partial(self._claim_as_decided, reopening, limit), wait=patience)
        except NotAsDecided:
            raise
        except RunLocked as locked:
            held = await self._store.held_lease(run_id) if locked.holder is None else None
            if held is None:
                raise
            raise RunLocked(run_id, holders.describe(held.lease.owner)) from None

    async def _claim_soon(
        self,
        run: Run,
        lock: RunLock,
        concurrency: Concurrency | None,
        driving: "_Driving",
        notify: Callable[[Notice], None] | None,
    ) -> Lease:
        """The lease of a process that is gone on this host is given up for it; any other lapses in its time."""
        run_id = run.identity.run_id
        before = lock.lease_before()
        if before is not None:
            await self._store.release(before)
        if concurrency is not None:
            return await self._claim_with_slot(run, concurrency, driving, notify)
        began = asyncio.get_running_loop().time()
        while True:
            lease = await self._claim(run_id)
            if lease is not None:
                return lease
            held = await self._store.held_lease(run_id)
            if held is not None and holders.is_gone(held.lease.owner):
                await self._store.release(held.lease)
                continue
            self._check_wait(run_id, held, asyncio.get_running_loop().time() - began)
            await asyncio.sleep(0.1)

    async def _claim_with_slot(
        self,
        run: Run,
        concurrency: Concurrency,
        driving: "_Driving",
        notify: Callable[[Notice], None] | None,
    ) -> Lease:
        run_id = run.identity.run_id
        claim = partial(self._claim, run_id, slots=concurrency.limit)
        waiter = slots.SlotWaiter(
            self._store, self._clock, run, concurrency, owner=self._owner, ttl=self._lease, notify=notify
        )
        try:
            lease = await waiter.wait(claim, lambda: driving.is_cancelled)
        except slots.ConcurrencyLimit:
            await self._end_before_start(run)
            raise
        if lease is None:
            driving.was_queued = True
            lease = await self._claim_to_end(run_id)
        return lease

    async def _claim_to_end(self, run_id: RunId) -> Lease:
        """A lease that is never live, and so takes no slot: enough to record the end of a run that never started."""
        lease = await self._store.claim(run_id, owner=self._owner, ttl=timedelta())
        if lease is None:
            raise RunLocked(run_id, None)
        return lease

    async def _end_before_start(self, run: Run) -> None:
        """A run that was refused after it was created does not stay open."""
        if run.status not in (RunStatus.PENDING, RunStatus.APPROVED):
            return
        lease = await self._claim_to_end(run.identity.run_id)
        payload = encode_payload({"exitCode": 2, "reason": "concurrency limit"})
        at = timestamp(self._clock.now())
        write = new_event(run.identity, EventType.RUN_CANCELLED, at, payload)
        await self._store.append(run.identity.run_id, [write], fence=lease.fence)
        await self._store.release(lease)

    def _check_wait(self, run_id: RunId, held: HeldLease | None, waited: float) -> None:
        """A live process here, whose lock file was deleted, is waited for as with one; others until they lapse."""
        lives_here = held is not None and holders.is_alive_here(held.lease.owner)
        longest = self._lock_wait if lives_here else self._lease + _LAPSE_MARGIN
        if waited > longest.total_seconds():
            raise RunLocked(run_id, holders.describe(held.lease.owner) if held is not None else None)

    async def _drive(
        self,
        reopening: Reopening,
        directory: RunDirectory,
        lock: RunLock,
        keeper: LeaseKeeper,
        observers: Sequence[Observer],
        driving: "_Driving",
        *,
        no_wait: bool,
        notify: Callable[[Notice], None] | None,
        check: bool,
        on_waiting: Callable[[Sequence[Obligation]], None] | None,
    ) -> RunEnded:
        run_id = reopening.run_id
        await reopening.check()  # much may have happened while we waited for our turn
        run = await self._store.get_run(run_id)
        plan = await load_plan(self._store, directory, run)
        await self._keep_or_restore(run, directory)
        workspace = workspace_of(directory, run)
        if check:
            check_workspace(run, workspace)
        if check and run.head > 1:
            self.check(plan, workspace).require()
        processes.become_subreaper()
        if run.head > 1:
            directory.remove_leftovers()  # of a process that drove it before us
        asked, started_at = await self._beginning(run_id, directory)
        facts = _facts(run, plan, directory, workspace, started_at or timestamp(self._clock.now()))
        host = self._host(plan, directory, workspace)
        reuse = await self._reuse(run, host, asked)
        tasks = RunTasks(run_id, plan, host, facts, reuse, self._asked_by(plan), self._recordings)
        world = World(
            self._store,
            self._clock,
            await self._with_earlier(tasks, plan, asked),
            tasks.ask,
            observers=list(observers),
            payloads=self._payloads(directory),
        )
        world.outages = outages = Outages(
            run_id, lambda: timestamp(self._clock.now()), budget=self._outage, notify=notify
        )
        outages.on_return.append(keeper.wake)
        driver = Driver(plan, run.identity, keeper.lease.fence, world)
        trouble = ViewTrouble(notify)
        journal = Journal(directory, trouble)
        state = StateFile(directory, plan, run_id, driver, lock.is_held, trouble=trouble)
        world.views += [journal, state]
        world.sync_views = journal.sync
        if run.status in TERMINAL and reopening.is_wanted:
            await reopening.carry_out(keeper.lease)
        elif run.status in (RunStatus.PENDING, RunStatus.APPROVED) and not driving.was_queued:
            started = self._start(plan, asked.get("inputs", {}), facts, host)
            if not await self._take_over(run, plan, asked, started, keeper.lease, world):
                driver.submit(PendingEvent(EventType.RUN_STARTED, payload=started))
        driving.begin(driver, outages)
        helpers = [
            asyncio.create_task(keeper.keep(driver)),
            asyncio.create_task(lock.refresh()),
            asyncio.create_task(_keep_up(directory, driving, state, journal)),
            asyncio.create_task(watch_draining(driver, run_id, Alerting(self._store, self._clock))),
        ]
        helpers.append(asyncio.create_task(self._leave_when_idle(run_id, driver, no_wait=no_wait)))
        if on_waiting is not None:
            helpers.append(asyncio.create_task(_tell_waiting(driver, on_waiting)))
        try:
            last = await driver.drive()
        except _Left as left:
            return RunEnded(run_id, LEFT, RESUMABLE, str(left), "")
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
            # Nothing of a run stays behind. If it has not ended, nobody records any more how its tasks do: the lease
            # is lost, the store is away, or this process ends.
            await tasks.close()
            state.write_last()
            journal.close()
        return ended_by(last)

    def _payloads(self, directory: RunDirectory) -> Callable[[], RunValues]:
        """Values too large for an event; the folder of their copies is made for the first of them."""
        return values_of(self._store, directory.path.name, directory, self._artifacts)

    async def _keep_or_restore(self, run: Run, directory: RunDirectory) -> None:
        """What a run needs is in the store and in its directory; whichever lacks it gets it from the other."""
        if run.head > 1 and not await self._store.list_kept(run.identity.run_id):
            from podium.runtime.restoring import files_to_keep

            await self._store.keep(run.identity.run_id, await files_to_keep(directory, self._artifacts))
        elif directory.is_lost:
            from podium.runtime.restoring import restore_files

            await restore_files(self._store, directory, run, self._payloads(directory)())

    async def _beginning(
        self, run_id: RunId, directory: RunDirectory
    ) -> tuple[dict[str, Any], Timestamp | None]:
        """What the run was asked for with, and when it started, if it has: that stays what it was."""
        asked: dict[str, Any] = {}
        for record in await self._store.read(run_id, limit=20):
            if record.event_type == EventType.RUN_QUEUED:
                asked = msgspec.json.decode((await whole(record, self._payloads(directory))).payload)
            elif record.event_type == EventType.RUN_STARTED:
                started = msgspec.json.decode(record.payload)
                rules = started.get("rulesVersion", RULES_VERSION)
                if rules != RULES_VERSION:
                    raise OtherRules(
                        f"run {run_id!r} was begun under rules {rules}, and this version of Podium has rules "
                        f"{RULES_VERSION}; finish it with the version that began it, or `podium rerun {run_id}`"
                    )
                return asked, started.get("run", {}).get("started_at")
        return asked, None

    async def _take_over(
        self,
        run: Run,
        plan: Plan,
        asked: dict[str, Any],
        started: dict[str, Any],
        lease: Lease,
        world: World,
    ) -> bool:
        """Start a rerun with what its original has recorded before the step; all of it at once, or nothing."""
        original, step = asked.get("originalRunId"), asked.get("rerunFrom")
        if not original or not step:
            return False
        from podium.runtime.takeover import Original, Takeovers

        earlier = Original(RunId(original), (await self._store.get_run(RunId(original))).plan_sha256, step)
        await self._take_values_over(run.identity.run_id, RunId(original))
        takeovers = Takeovers(self._store, plan, run.plan_sha256, run.identity, world.payloads)
        takeover = await takeovers.of(earlier, started, timestamp(self._clock.now()))
        appended = await self._store.append(run.identity.run_id, takeover.writes, fence=lease.fence)
        for observer in world.observers:
            observer([one.record for one in appended])
        return True

    async def _take_values_over(self, run_id: RunId, original: RunId) -> None:
        """Events that are taken over refer to large values of the earlier run: this one has them, too."""
        directory = RunDirectory(self._runs, original)
        names = [kept.name for kept in await self._store.list_kept(original)]
        contents = {name: await self._store.kept(original, name) for name in names if is_value(name)}
        if not names and not directory.is_lost:
            from podium.runtime.restoring import files_to_keep

            contents = await files_to_keep(directory, self._artifacts)
        for name, content in contents.items():
            if is_value(name):
                await self._values_of(run_id).put(content, kind="payload")

    async def _with_earlier(self, tasks: RunTasks, plan: Plan, asked: dict[str, Any]) -> Tasks:
        """A run that takes over what an earlier one has done."""
        original, step = asked.get("originalRunId"), asked.get("rerunFrom")
        if not original or not step:
            return tasks
        earlier = await results_before(self._store, RunId(original), step) or {}
        if (is_beside := beside(plan, step)) is not None:
            earlier |= await results_beside(self._store, RunId(original), step, is_beside)
        values = self._values_of(RunId(original))
        for result in earlier.values():
            await put_back(result.payload, values)
        return ReusingTasks(tasks, earlier) if earlier else tasks

    def _values_of(self, run_id: RunId) -> RunValues:
        return self._payloads(RunDirectory(self._runs, run_id))()

    async def _reuse(self, run: Run, host: TaskHost, asked: dict[str, Any]) -> Reuse:
        earlier: Before | None = None
        if asked.get("onlyChanged"):
            original = RunId(asked["originalRunId"])
            # What has been pruned meanwhile is not known any more: everything is carried out.
            with contextlib.suppress(PodiumError):
                known = await self._store.get_run(original)
                plan: Plan | None = None
                with contextlib.suppress(PodiumError):
                    plan = await load_plan(self._store, RunDirectory(self._runs, original), known)
                earlier = await before(self._store, original, plan)
        cached = partial(cached_results, self._store, run)
        return Reuse(host, self._runs, cached, earlier, self._values_of)

    async def _leave_when_idle(self, run_id: RunId, driver: Driver, *, no_wait: bool) -> None:
        """Until nothing runs and only a person can let the run go on; what the machine knows has to be all there is.

        Without `no_wait` only a used-up budget is left: no answer at a terminal could pay.
        """
        while True:
            await asyncio.sleep(_IDLE_SECONDS)
            machine = driver.machine
            if not no_wait and "budget" not in machine.hold.reasons:
                continue
            seq = machine.last_seq
            with contextlib.suppress(PodiumError):
                head = (await self._store.get_run(run_id)).head
                if driver.machine is machine and head == seq == machine.last_seq and driver.running == 0:
                    reason = _idle_because(machine.obligations())
                    if reason is not None:
                        driver.revoke(_Left(reason))
                        return

    def _host(self, plan: Plan, directory: RunDirectory, workspace: Path) -> TaskHost:
        hide_environment()
        bodies = [step.body for step in steps_of(plan.workflow)]
        names = frozenset(plan.workflow.secrets).union(
            *(body.workflow.secrets for body in bodies if isinstance(body, Call)),
            *(getattr(body, "work", PLAIN_WORK).secrets for body in bodies),
        )
        values = {name: self._secrets[name] for name in names if self._secrets.get(name)}
        of_providers = frozenset(
            variable.name
            for provider in self._known_providers(plan)
            for variable in provider.needs_env
            if variable.is_secret
        )
        return TaskHost.of(directory, workspace, names, values, of_providers, self._inline)

    def _asked_by(self, plan: Plan) -> "Providers | None":
        if self._providers is None or not any(isinstance(s.body, Agent) for s in steps_of(plan.workflow)):
            return None
        return self._providers()

    def _known_providers(self, plan: Plan) -> "list[Provider]":
        """Those of the plan's agent steps that are not described in a workflow itself."""
        providers = self._asked_by(plan)
        if providers is None:
            return []
        names = dict.fromkeys(
            found.step.body.provider
            for found in located_steps(plan.workflow)
            if isinstance(found.step.body, Agent) and found.step.body.provider not in found.workflow.providers
        )
        return [providers.find(name) for name in names]

    def check(self, plan: Plan, workspace: Path) -> Readiness:
        """What is missing for a run of the plan in this process; nothing is executed for it."""
        replays = self._recordings is not None and self._recordings.asks_no_one
        around = Surroundings(
            workspace,
            os.environ,
            self._secrets,
            self._providers,
            replays=replays,
            functions=frozenset(self._inline),
        )
        return check_needs(plan, around)

    def _start(
        self, plan: Plan, inputs: dict[str, Any], facts: dict[str, Any], host: TaskHost
    ) -> dict[str, Any]:
        """What decisions may read of the world: fixed once, at the start."""
        allowed = sorted(name for name in plan.workflow.env_allow if name in host.environment)
        env = {name: host.environment[name] for name in allowed}
        if host.redactor is not None:
            env = masked(env, host.redactor)
        engine = EngineRunRef(provider="local", workflow_id=facts["id"])
        return {
            "rulesVersion": RULES_VERSION,
            "engineRunRef": msgspec.to_builtins(engine),
            "inputs": inputs,
            "env": env,
            "run": facts,
        }


async def _tell_waiting(driver: Driver, on_waiting: Callable[[Sequence[Obligation]], None]) -> None:
    """Soon after what the run waits for has changed; a run with much to look through is looked through less often."""
    told: tuple[int, int] | None = None
    loop = asyncio.get_running_loop()
    pause = _IDLE_SECONDS
    while True:
        await asyncio.sleep(pause)
        machine = driver.machine
        now = (id(machine), machine.last_seq)
        if now != told and machine.root is not None:
            began = loop.time()
            on_waiting(machine.obligations())
            pause = max(_IDLE_SECONDS, 20 * (loop.time() - began))
            told = now


def _exists(run_id: RunId) -> RunExists:
    return RunExists(
        f"run {run_id!r} exists already; continue it with `podium resume {run_id}`, or use another id"
    )


def _completed(run_id: RunId) -> RunEndedAlready:
    return RunEndedAlready(f"run {run_id!r} has completed; start a new one, or `podium rerun {run_id}`")


def _check_no_store_file(run_id: RunId) -> None:
    """The files of the store are beside the directories of runs."""
    if run_id.startswith(_STORE_FILE):
        raise InvalidId(
            f"{run_id!r} is not a possible run id: names that start with {_STORE_FILE!r} are the store's"
        )


class _Left(Exception):
    """This process does not wait for what the run waits for."""


def _idle_because(owed: Sequence[Obligation]) -> str | None:
    """What keeps a run in which nothing moves by itself; None if something does, or is about to."""
    kinds = {one.kind for one in owed}
    if "hold" in kinds:
        if kinds & _MOVING:
            return None
        out_of_money = any(one.kind == "hold" and one.subject == "budget" for one in owed)
        return "out of budget" if out_of_money else "paused"
    return "waiting" if kinds & _FOR_A_PERSON and kinds <= _FOR_A_PERSON | {"limit"} else None


async def _nobody() -> Lease | None:
    return None


class _Driving:
    """What a person can do to a run that this process drives; from the moment on at which the run is ours."""

    def __init__(self) -> None:
        self._driver: Driver | None = None
        self._outages: Outages | None = None
        self.is_cancelled = False
        # Cancelled while it waited for a slot: it never starts.
        self.was_queued = False
        # Asked for before there was a driver.
        self._early: list[PendingEvent] = []

    def begin(self, driver: Driver, outages: Outages) -> None:
        self._driver = driver
        self._outages = outages
        for pending in self._early:
            driver.submit(pending)

    def tell_views(self) -> None:
        if self._driver is not None:
            self._driver.tell_views()

    def cancel(self, reason: str, *, force: bool = False) -> None:
        if force and self._outages is not None:
            # What is asked for cannot be recorded while the store is away: the run is left as it is.
            self._outages.give_up()
        self.is_cancelled = True
        signal_id = str(uuid4())
        payload = {
            "signalId": signal_id,
            "signalType": "EMERGENCY_STOP" if force else "CANCEL",
            "payload": {"reason": reason},
        }
        pending = PendingEvent(EventType.SIGNAL_ACCEPTED, payload=payload, subject=signal_id)
        if self._driver is None:
            self._early.append(pending)
        else:
            self._driver.submit(pending)


async def _keep_up(directory: RunDirectory, driving: "_Driving", state: StateFile, journal: Journal) -> None:
    """The directory, now and then: what it shows, and the marker `.cancel` of those who have nothing but it."""
    while True:
        await asyncio.sleep(_KEEP_UP_SECONDS)
        if directory.cancel_marker.exists():
            directory.cancel_marker.unlink(missing_ok=True)
            driving.cancel("asked for by .cancel")
        driving.tell_views()
        state.write_if_due()
        journal.keep_up()


def _facts(run: Run, plan: Plan, directory: RunDirectory, workspace: Path, now: str) -> dict[str, Any]:
    return {
        "id": run.identity.run_id,
        "name": plan.metadata.name,
        "dir": str(directory.path.absolute()),
        "artifacts": str(directory.artifacts.absolute()),
        "workspace": str(workspace),
        "started_at": now,
    }
