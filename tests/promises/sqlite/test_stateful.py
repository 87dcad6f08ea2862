"""Whatever one does with it, the store in a file answers like the store in memory.

The store in memory is the model: plain dictionaries, easily read. Both get the same calls in the same order, and
every answer and every refusal is compared, word for word.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from podium.access.audit import AuditDraft
from podium.errors import LogMoved, PodiumError
from podium.log.engines import TemporalRunRef
from podium.log.events import EventWrite
from podium.log.ids import RunId
from podium.log.leases import Fence, Lease, WakeUp, attempt_name
from podium.log.outbox import OutboxClaim, OutboxLine
from podium.log.runs import Backpressure, RunQuery
from podium.log.snapshots import AttemptSnapshot, RunSummary, StepSnapshot
from podium.log.transitions import RunStatus, StepStatus
from podium.ports.store import Claimed, Limit
from podium.stores.memory import MemoryStore
from podium.stores.sqlite import SqliteStore
from podium.testing.clock import VirtualClock
from podium.testing.events import event, new_run
from podium.testing.store_promises.audit import decision

RUNS = st.sampled_from([f"r{n}" for n in range(5)])
BUSES = st.sampled_from(["kafka", "nats"])
SMALL = st.integers(0, 5)
PICK = st.integers(0, 1000)
TTLS = st.sampled_from([timedelta(seconds=s) for s in (0, 10, 30)])
STEPS = st.sampled_from(["a", "b", "ü"])
TIMES = st.integers(0, 59).map(lambda second: f"2026-01-01T12:00:{second:02}.000000Z")
EVENTS = st.one_of(
    st.tuples(st.sampled_from(["RunQueued", "RunApproved", "RunStarted", "MoonRose"]), st.none()),
    st.tuples(st.sampled_from(["RunStarted", "RunPaused", "RunResumed", "RunReopened"]), st.none()),
    st.tuples(st.sampled_from(["RunCompleted", "RunFailed", "RunCancelled"]), st.none()),
    st.tuples(st.sampled_from(["StepStarted", "StepCompleted"]), STEPS),
)
# Decisions that are recorded with an append, by tenant; the last one cannot be kept.
DECISIONS = st.lists(st.sampled_from(["a", "b", "a\0"]), max_size=2).map(
    lambda tenants: [decision(tenant_id=tenant) for tenant in tenants]
)
BATCHES = st.lists(st.tuples(EVENTS, st.integers(1, 3), SMALL), min_size=0, max_size=4)


def _writes(run_id: str, batch: list[Any]) -> list[EventWrite]:
    return [event(run_id, kind, step, attempt, n=n % 2) for (kind, step), attempt, n in batch]


class SameAnswers(RuleBasedStateMachine):
    _max_claimed = 3

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        self._clock = VirtualClock()
        self._folder = Path(tempfile.mkdtemp(prefix="podium-stateful-"))
        self._model = MemoryStore(self._clock)
        self._store = self._open()
        self._leases: list[Lease] = []
        self._claims: list[OutboxClaim] = []

    def teardown(self) -> None:
        self._run(self._store.close())
        self._run(self._loop.shutdown_default_executor())
        self._loop.close()
        shutil.rmtree(self._folder)

    def _open(self) -> SqliteStore:
        # Nobody pulls the plug here: without waiting for the disk there is time for more examples.
        path = self._folder / "podium.db"
        opened: SqliteStore = self._run(SqliteStore.open(path, clock=self._clock, synchronous="OFF"))
        return opened

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(coroutine)

    def _both(self, call: str, *args: Any, of: str = "", **kwargs: Any) -> Any:
        """Ask both, compare, and return the answer; None for a refusal."""
        answers = []
        for store in (self._model, self._store):
            target = getattr(store, of) if of else store
            answers.append(self._answer(getattr(target, call)(*args, **kwargs)))
        assert answers[0] == answers[1], call
        refused = isinstance(answers[0], tuple) and answers[0][:1] == ("refused",)
        return None if refused else answers[0]

    def _answer(self, asked: Coroutine[Any, Any, Any]) -> Any:
        try:
            answer = self._run(asked)
        except PodiumError as error:
            missed = error.missed if isinstance(error, LogMoved) else ()
            return "refused", type(error), str(error), missed
        if isinstance(answer, list):
            # The model does not say when a line goes on.
            return [replace(one, next_at=None) if isinstance(one, OutboxLine) else one for one in answer]
        return answer

    def _lease(self, pick: int) -> Lease | None:
        return self._leases[pick % len(self._leases)] if self._leases else None

    def _fence(self, run_id: str, pick: int | None) -> Fence | None:
        """Mostly the newest lease of this run, at times another or none."""
        if pick is None or not self._leases:
            return None
        of_run = [lease for lease in self._leases if lease.run_id == run_id] or self._leases
        return (of_run[-1] if pick % 4 else of_run[pick % len(of_run)]).fence

    # --- the log ----------------------------------------------------------------------------------

    @rule(
        run_id=RUNS,
        request=st.one_of(st.none(), st.integers(0, 2)),
        tenant=st.sampled_from(["a", "b", "c"]),
        priority=st.integers(0, 2),
        key=st.sampled_from([None, "k"]),
        pool=st.sampled_from(["p", "p", None]),
        approval=st.booleans(),
        pressure=st.sampled_from(Backpressure),
        start=TIMES,
        inputs=st.sampled_from(["", "", "", "x"]),
        batch=BATCHES,
        audit=DECISIONS,
    )
    def create(
        self,
        run_id: str,
        request: int | None,
        tenant: str,
        priority: int,
        key: str | None,
        pool: str | None,
        approval: bool,
        pressure: Backpressure,
        start: str,
        inputs: str,
        batch: list[Any],
        audit: list[AuditDraft],
    ) -> None:
        new = new_run(
            run_id,
            run={"tenant_id": tenant},
            run_request_id=None if request is None else f"req-{request}",
            priority=priority,
            concurrency_key=key,
            pool=pool,
            needs_approval=approval,
            backpressure=pressure,
            start_at=start if pressure is Backpressure.DELAY else None,
            inputs_sha256=inputs,
        )
        self._both("create_run", new, _writes(run_id, batch), audit=audit)
        self._compare_audit()

    @rule(
        run_id=RUNS,
        batch=BATCHES,
        fence=st.one_of(st.none(), PICK, PICK, PICK),
        after=st.one_of(st.none(), st.none(), SMALL),
        set_keys=st.lists(st.tuples(STEPS, TIMES), max_size=2),
        drop=st.lists(STEPS, max_size=2),
        audit=DECISIONS,
    )
    def append(
        self,
        run_id: str,
        batch: list[Any],
        fence: int | None,
        after: int | None,
        set_keys: list[tuple[str, str]],
        drop: list[str],
        audit: list[AuditDraft],
    ) -> None:
        self._both(
            "append",
            RunId(run_id),
            _writes(run_id, batch),
            fence=self._fence(run_id, fence),
            after=after,
            set_wake_ups=[WakeUp(run_id=RunId(run_id), key=key, due=due) for key, due in set_keys],
            drop_wake_ups=drop,
            audit=audit,
        )
        self._compare_audit()

    @rule(audit=DECISIONS)
    def record_audit(self, audit: list[AuditDraft]) -> None:
        self._both("record_audit", audit)
        self._compare_audit()

    @rule(tenant=st.sampled_from(["a", "b", "c"]), after=SMALL, limit=SMALL)
    def read_audit(self, tenant: str, after: int, limit: int) -> None:
        self._both("read_audit", tenant, after=after, limit=limit)

    def _compare_audit(self) -> None:
        for tenant in self._both("audit_tenants"):
            self._both("audit_head", tenant)

    @rule(run_id=RUNS, after=SMALL, limit=SMALL)
    def read(self, run_id: str, after: int, limit: int) -> None:
        self._both("read", RunId(run_id), after=after, limit=limit)

    @rule(run_id=RUNS, fence=PICK, name=STEPS)
    def engine(self, run_id: str, fence: int, name: str) -> None:
        known = self._fence(run_id, fence) or Fence(1)
        workflow_id = f"{run_id}-{name}"
        engine = TemporalRunRef(namespace="n", workflow_id=workflow_id, run_id=RunId(run_id))
        self._both("set_engine", RunId(run_id), engine, fence=known)
        self._both("run_of_engine", "temporal", workflow_id)

    @rule(
        tenant=st.sampled_from(["a", "b"]),
        statuses=st.frozensets(st.sampled_from(RunStatus), max_size=3),
        limit=st.integers(1, 3),
        run_id=RUNS,
    )
    def tenants(self, tenant: str, statuses: frozenset[RunStatus], limit: int, run_id: str) -> None:
        page = self._both("page", tenant, RunQuery(statuses=statuses, limit=limit), of="runs")
        if page.cursor is not None:
            self._both("page", tenant, RunQuery(statuses=statuses, cursor=page.cursor), of="runs")
        self._both("find", tenant, run_id, of="runs")

    # --- leases and the queue ---------------------------------------------------------------------

    @rule(run_id=RUNS, ttl=TTLS, attempt=st.one_of(st.just(""), st.just(attempt_name("a", 1))))
    def claim(self, run_id: str, ttl: timedelta, attempt: str) -> None:
        lease = self._both("claim", RunId(run_id), owner="w", ttl=ttl, attempt=attempt)
        if lease is not None:
            self._leases.append(lease)

    @rule(limit=st.integers(1, 3), seconds=st.sampled_from([10, 30]))
    def claim_of_pool(self, limit: int, seconds: int) -> None:
        asked: dict[str, Any] = {
            "owner": "w",
            "ttl": timedelta(seconds=seconds),
            "limit": min(limit, self._max_claimed),
        }
        claimed: list[Claimed] | None = self._both("claim_of_pool", "p", **asked)
        self._leases += [one.lease for one in claimed or ()]

    @rule(pick=PICK, ttl=TTLS)
    def renew(self, pick: int, ttl: timedelta) -> None:
        if lease := self._lease(pick):
            self._both("renew", lease, ttl=ttl)

    @rule(pick=PICK)
    def release(self, pick: int) -> None:
        if lease := self._lease(pick):
            self._both("release", lease)

    @rule(
        tenant=st.sampled_from(["a", "b"]),
        limit=st.sampled_from([("tenant", None), ("plan", "nightly"), ("concurrency", "k")]),
        most=st.integers(0, 3),
    )
    def limit(self, tenant: str, limit: tuple[str, str | None], most: int) -> None:
        scope, name = limit
        self._both("set_limit", Limit(tenant, scope, name or tenant, most))
        self._both("limits", tenant)

    @rule(seconds=st.sampled_from([1, 11, 31]))
    def pass_time(self, seconds: int) -> None:
        self._clock.move(seconds)

    @rule(seconds=st.sampled_from([3600, -3600]))
    def jump(self, seconds: int) -> None:
        self._clock.jump(seconds)

    # --- snapshots --------------------------------------------------------------------------------

    @rule(run_id=RUNS, seq=SMALL, steps=st.lists(st.tuples(STEPS, st.sampled_from(StepStatus)), max_size=3))
    def snapshot(self, run_id: str, seq: int, steps: list[tuple[str, StepStatus]]) -> None:
        changed = [StepSnapshot(name, AttemptSnapshot(1, status)) for name, status in steps]
        self._both("save_snapshot", RunId(run_id), RunSummary(last_event_seq=seq), changed)
        self._both("load_summary", RunId(run_id))
        self._both("load_steps", RunId(run_id), after="a", limit=2)
        self._both("find_steps", RunId(run_id), ["ü", "no", "a"])

    # --- the outbox -------------------------------------------------------------------------------

    @rule(bus=BUSES, from_start=st.booleans())
    def add_bus(self, bus: str, from_start: bool) -> None:
        self._both("add_bus", bus, from_start=from_start)

    @rule(bus=BUSES, sure=SMALL)
    def remove_bus(self, bus: str, sure: int) -> None:
        if sure == 0:
            self._both("remove_bus", bus)

    @rule(bus=BUSES, ttl=TTLS, limit=st.integers(1, 4))
    def claim_line(self, bus: str, ttl: timedelta, limit: int) -> None:
        claim = self._both("claim_line", bus, owner="relay", ttl=ttl, limit=limit)
        if claim is not None:
            self._claims.append(claim)

    @rule(pick=PICK, through=SMALL)
    def delivered(self, pick: int, through: int) -> None:
        if self._claims:
            claim = self._claims[-1 - pick % min(len(self._claims), 3)]
            self._both("delivered", claim, claim.records[0].run_seq + through)

    @rule(pick=PICK, retry=st.sampled_from([None, timedelta(0), timedelta(seconds=20)]))
    def failed(self, pick: int, retry: timedelta | None) -> None:
        if self._claims:
            claim = self._claims[-1 - pick % min(len(self._claims), 3)]
            self._both("failed", claim, "no", retry_in=retry)

    @rule(call=st.sampled_from(["retry_dead", "drop_dead"]), pick=PICK)
    def dead(self, call: str, pick: int) -> None:
        if dead := self._both("dead_letters"):
            one = dead[pick % len(dead)]
            self._both(call, one.bus, one.run_id, one.run_seq)

    # --- maintenance ------------------------------------------------------------------------------

    @rule(run_id=RUNS)
    def prune(self, run_id: str) -> None:
        # The model keeps dead letters of a removed run; a file does not.
        for dead in self._both("dead_letters"):
            if dead.run_id == run_id:
                self._both("drop_dead", dead.bus, dead.run_id, dead.run_seq)
        self._both("prune", RunId(run_id))

    @rule()
    def reopen(self) -> None:
        self._run(self._store.close())
        self._store = self._open()

    @invariant()
    def everything_is_the_same(self) -> None:
        self._both("due", "2026-01-01T12:00:40.000000Z", limit=5)
        for run_id in self._model._runs:
            self._both("get_run", RunId(run_id))

    @rule()
    def look(self) -> None:
        assert self._run(self._store.problems()) == []
        self._both("outbox_lines")
        self._both("dead_letters", "kafka")
        model, kept = self._run(self._model.stats()), self._run(self._store.stats())
        assert (model.runs, model.open_runs, model.events) == (kept.runs, kept.open_runs, kept.events)


TestSameAnswers = SameAnswers.TestCase
TestSameAnswers.settings = settings(
    max_examples=40,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
