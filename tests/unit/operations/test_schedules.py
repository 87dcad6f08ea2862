"""Schedules at work on a store: what tickers start, however many there are and whatever becomes of them."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfoNotFoundError

import msgspec
import pytest

from podium.api import Workflow
from podium.errors import ContentDamaged, InvalidSchedule, StoreUnavailable
from podium.log.alerts import Alert
from podium.log.events import EventWrite
from podium.log.ids import RunId
from podium.log.keys import key_v1
from podium.log.runs import Run, RunQuery
from podium.log.times import later, timestamp
from podium.operations.inputs import InvalidInput
from podium.operations.parts import Parts
from podium.operations.schedules import changing, defining, reading, ticking
from podium.operations.schedules.changing import BackfillActive, BackfillRequest
from podium.operations.schedules.defining import ScheduleRequest
from podium.operations.schedules.ticking import Ticker, TickerView
from podium.plan.loading import plan_bytes
from podium.ports.log_fields import log_fields
from podium.runtime.plan_file import PLAN
from podium.schedules.deciding import next_step
from podium.schedules.schedule import Cron, Definition, Every, Overlap, Schedule, Tick
from podium.stores.sqlite.store import SqliteStore
from podium.telemetry.metrics import Metrics
from podium.telemetry.opening import ProcessTelemetry
from podium.testing.clock import VirtualClock
from podium.testing.events import event
from podium.wiring.use_cases import use_case_parts

WORKFLOW = (
    "version: 2.0\nname: nightly\ninputs: {at: {type: string, default: ''}}\nsteps: [{name: a, set: {b: 1}}]"
)
NOON = "2026-01-01T12:00:00.000000Z"


class Site:
    """A store, its schedules, and as many tickers as a test wants; the time is moved."""

    def __init__(self, folder: Path, store: SqliteStore) -> None:
        self.folder, self.store = folder, store
        self.clock = VirtualClock()
        parts = use_case_parts(store, folder, lambda _: None)
        self.parts: Parts = msgspec.structs.replace(parts, clock=self.clock)

    def ticker(self, store: Any = None) -> Ticker:
        parts = msgspec.structs.replace(self.parts, store=store or self.store)
        return Ticker(parts, ["default"], ["default"])

    async def add(self, schedule_id: str = "s", **fields: Any) -> Schedule:
        plan = Workflow.parse(WORKFLOW).plan
        encoded = plan_bytes(plan)
        given: dict[str, Any] = {"times": Every(60, NOON), "workspace": str(self.folder), **fields}
        definition = Definition(
            plan_id=plan.metadata.plan_id,
            plan_version=plan.metadata.plan_version,
            plan_sha256=sha256(encoded).hexdigest(),
            **given,
        )
        request = ScheduleRequest("default", schedule_id, definition, plan, {PLAN: encoded})
        return await defining.add_schedule(self.parts, request)

    async def show(self, schedule_id: str = "s") -> Schedule:
        return await reading.show_schedule(self.parts, "default", schedule_id)

    async def ticks(self, schedule_id: str = "s") -> list[Tick]:
        return (await reading.list_ticks(self.parts, "default", schedule_id, limit=20_000))[::-1]

    async def outcomes(self) -> list[tuple[str, str]]:
        return [(tick.time[11:16], tick.outcome.value) for tick in await self.ticks()]

    async def runs(self) -> list[Run]:
        return list((await self.store.runs.page("default", RunQuery(limit=500))).runs)

    async def end(self, run_id: str) -> None:
        """As its host would, without carrying it out."""
        run = RunId(run_id)
        version = (await self.store.get_run(run)).identity.plan_version
        lease = await self.store.claim(run, owner="host", ttl=None)
        assert lease is not None
        ended = cancelled(run_id, version)
        await self.store.append(run, [ended], fence=lease.fence)


def cancelled(run_id: str, version: str) -> EventWrite:
    key = key_v1(run_id, "RUN", 1, "RunCancelled", version)
    return msgspec.structs.replace(event(run_id, "RunCancelled"), idempotency_key=key)


@asynccontextmanager
async def site_in(folder: Path) -> AsyncIterator[Site]:
    store = await SqliteStore.open(folder / "podium.db")
    try:
        yield Site(folder, store)
    finally:
        await store.close()


def scenario(test: Callable[[Site], Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
    def run(tmp_path: Path) -> None:
        async def inside() -> None:
            async with site_in(tmp_path) as site:
                await test(site)

        asyncio.run(inside())

    run.__name__ = test.__name__
    return run


@scenario
async def test_a_time_creates_its_run_with_the_schedule_and_the_time_as_request_id(site: Site) -> None:
    await site.add(inputs={"at": "${schedule.time}"})
    await site.ticker().tick()
    assert await site.runs() == []
    site.clock.move(60)
    await site.ticker().tick()
    (run,) = await site.runs()
    assert run.run_request_id == "s@2026-01-01T12:01:00Z"
    assert run.pool == "default"
    queued = (await site.store.read(run.identity.run_id))[0]
    assert msgspec.json.decode(queued.payload)["inputs"] == {"at": "2026-01-01T12:01:00Z"}
    assert [tick.run_id for tick in await site.ticks()] == [run.identity.run_id]
    assert (await site.show()).next_time == "2026-01-01T12:02:00.000000Z"


@scenario
async def test_many_tickers_start_each_time_once(site: Site) -> None:
    await site.add(overlap=Overlap.ALLOW)
    tickers = [site.ticker() for _ in range(8)]
    for _ in range(10):
        site.clock.move(120)
        await asyncio.gather(*(ticker.tick() for ticker in tickers))
    requests = [run.run_request_id for run in await site.runs()]
    assert len(requests) == len(set(requests)) == 20
    assert [outcome for _, outcome in await site.outcomes()] == ["started"] * 20


class Cut:
    """A store that fails when a schedule is changed: before anything is stored, or after all of it was."""

    def __init__(self, store: SqliteStore, *, stores: bool) -> None:
        self._store, self._stores = store, stores

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def change_schedule(self, *arguments: Any, **options: Any) -> Any:
        if self._stores:
            await self._store.change_schedule(*arguments, **options)
        raise StoreUnavailable("cut")


@scenario
async def test_a_ticker_that_dies_at_any_moment_neither_loses_nor_repeats_a_time(site: Site) -> None:
    await site.add(overlap=Overlap.ALLOW)
    for stores in (False, True, False, True):
        site.clock.move(60)
        with pytest.raises(StoreUnavailable):
            await site.ticker(Cut(site.store, stores=stores)).tick()
    await site.ticker().tick()
    times = [run.run_request_id for run in await site.runs()]
    assert sorted(times) == [f"s@2026-01-01T12:0{minute}:00Z" for minute in (1, 2, 3, 4)]


@scenario
async def test_a_run_that_cannot_be_created_is_a_failed_time_and_the_next_one_is_tried(site: Site) -> None:
    await site.add(inputs={"at": "one"}, overlap=Overlap.ALLOW)
    site.clock.move(60)
    await site.ticker().tick()
    await changing.remove_schedule(site.parts, "default", "s")
    site.clock.jump(-60)
    await site.add(inputs={"at": "two"})
    site.clock.move(60)
    await site.ticker().tick()
    (tick,) = await site.ticks()
    assert (tick.outcome.value, tick.code, tick.run_id) == ("failed", "RUN_REQUEST_CONFLICT", None)
    assert (await site.show()).open_runs == ()
    site.clock.move(60)
    await site.ticker().tick()
    assert await site.outcomes() == [("12:01", "failed"), ("12:02", "started")]


@scenario
async def test_skipped_missed_and_failed_times_raise_alerts(site: Site) -> None:
    raised: list[str] = []
    telemetry = ProcessTelemetry(Metrics(), None)
    site.parts = msgspec.structs.replace(site.parts, telemetry=telemetry)
    ticker = site.ticker()

    def hook(_: RunId | None, alert: Alert) -> None:
        raised.append(f"{alert.code} {alert.subject}")
        assert log_fields()["tenant"] == "default"

    ticker._alerting._hook = hook
    await site.add(catch_up=90)
    site.clock.move(60)
    await ticker.tick()
    site.clock.move(60)
    await ticker.tick()
    site.clock.move(300)
    await ticker.tick()
    assert raised == [
        "SCHEDULE_TICK_SKIPPED s@2026-01-01T12:02:00.000000Z",
        "SCHEDULE_TICK_MISSED s@2026-01-01T12:03:00.000000Z",
        "SCHEDULE_TICK_SKIPPED s@2026-01-01T12:06:00.000000Z",
        "SCHEDULE_TICK_SKIPPED s@2026-01-01T12:07:00.000000Z",
    ]
    counted = telemetry.exposition().decode()
    assert 'podium_alerts_total{code="SCHEDULE_TICK_SKIPPED"} 3.0' in counted
    assert 'podium_alerts_total{code="SCHEDULE_TICK_MISSED"} 1.0' in counted


class _Troubles(TickerView):
    def __init__(self) -> None:
        self.reasons: list[str] = []

    def trouble(self, reason: str) -> None:
        self.reasons.append(reason)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ModuleNotFoundError("No module named 'cronsim'"), "EXTRA_MISSING: an optional package is missing"),
        (ZoneInfoNotFoundError("x"), "this machine does not know the time zone 'Europe/Berlin'"),
        (KeyError("hunter2"), "INTERNAL_ERROR: KeyError in test_schedules.py, line"),
        (ContentDamaged("a", "plan"), "CONTENT_DAMAGED: "),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_a_schedule_that_a_worker_cannot_look_at_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    def fail(step: Any, *_: Any) -> Any:
        raise error

    async def inside() -> None:
        async with site_in(tmp_path) as site:
            cron = Cron("1 12 * * *", "Europe/Berlin")
            await site.add("a", times=cron, start="2026-01-01T11:00:00.000000Z")
            await site.add("b")
            view = _Troubles()
            monkeypatch.setattr(
                ticking,
                "next_step",
                lambda schedule, *known: (fail if schedule.schedule_id == "a" else next_step)(
                    schedule, *known
                ),
            )
            if isinstance(error, ImportError):
                monkeypatch.setitem(sys.modules, "cronsim", None)
            site.clock.move(24 * 3600)
            ticker = Ticker(site.parts, ["default"], ["default"], view)
            for _ in range(3):
                await ticker.tick()
            assert [tick.outcome for tick in await site.ticks("b")] != []
            assert await site.ticks("a") == []
            assert len(view.reasons) == 1
            assert view.reasons[0].startswith(f"schedule 'a': {reason}")
            assert "hunter2" not in view.reasons[0]

    asyncio.run(inside())


@scenario
async def test_cancel_other_asks_the_open_run_to_stop_once_and_starts_the_next_when_it_has(
    site: Site,
) -> None:
    await site.add(overlap=Overlap.CANCEL_OTHER)
    for _ in range(2):
        site.clock.move(60)
        await site.ticker().tick()
    (first,) = await site.runs()
    run_id = first.identity.run_id
    await site.ticker().tick()
    types = [record.event_type for record in await site.store.read(run_id)]
    assert types == ["RunQueued", "SignalAccepted"]
    assert (await site.show()).waiting == ("2026-01-01T12:02:00.000000Z",)
    await site.end(run_id)
    await site.ticker().tick()
    assert await site.outcomes() == [("12:01", "started"), ("12:02", "started")]


@scenario
async def test_a_paused_schedule_starts_nothing_and_resumes_with_its_next_time(site: Site) -> None:
    await site.add()
    paused = await changing.pause_schedule(site.parts, "default", "s", "maintenance")
    assert paused.pause is not None
    assert paused.pause.reason == "maintenance"
    site.clock.move(200)
    await site.ticker().tick()
    resumed = await changing.resume_schedule(site.parts, "default", "s")
    assert resumed.next_time == "2026-01-01T12:04:00.000000Z"
    await site.ticker().tick()
    (skipped,) = await site.ticks()
    assert (skipped.outcome, skipped.count, skipped.message) == ("skipped", 3, "the schedule was paused")
    assert (skipped.time[11:16], (skipped.until or "")[11:16]) == ("12:01", "12:03")
    with pytest.raises(InvalidSchedule, match="needs a reason"):
        await changing.pause_schedule(site.parts, "default", "s", " ")


@scenario
async def test_a_time_that_was_due_when_its_schedule_was_paused_is_on_record(site: Site) -> None:
    await site.add()
    site.clock.move(60)
    await changing.pause_schedule(site.parts, "default", "s", "just then")
    await site.ticker().tick()
    await changing.resume_schedule(site.parts, "default", "s")
    await changing.resume_schedule(site.parts, "default", "s")
    site.clock.move(60)
    await site.ticker().tick()
    assert await site.outcomes() == [("12:01", "skipped"), ("12:02", "started")]


@scenario
async def test_a_triggered_run_starts_also_while_the_schedule_is_paused(site: Site) -> None:
    await site.add(inputs={"at": "${schedule.time}"})
    await changing.pause_schedule(site.parts, "default", "s", "maintenance")
    run_id = await changing.trigger_schedule(site.parts, "default", "s")
    (tick,) = await site.ticks()
    assert (tick.kind.value, tick.run_id) == ("triggered", run_id)
    assert (await site.show()).open_runs == ()


@scenario
async def test_a_backfill_keeps_its_limit_and_gives_no_time_a_second_run(site: Site) -> None:
    await site.add(overlap=Overlap.ALLOW)
    site.clock.move(60)
    await site.ticker().tick()
    site.clock.move(600)
    request = BackfillRequest(NOON, later(NOON, 600), concurrency=3)
    times = await changing.preview_backfill(site.parts, "default", "s", request)
    assert times == [later(NOON, 60 * minute) for minute in range(10)]
    await changing.pause_schedule(site.parts, "default", "s", "only the backfill")
    await changing.backfill_schedule(site.parts, "default", "s", request)
    with pytest.raises(BackfillActive):
        await changing.backfill_schedule(site.parts, "default", "s", request)
    await changing.resume_schedule(site.parts, "default", "s")
    while (await site.show()).backfill is not None:
        await site.ticker().tick()
        backfill = (await site.show()).backfill
        for run_id in backfill.open_runs if backfill is not None else ():
            open_runs = [run for run in await site.runs() if run.status == "PENDING"]
            assert len(open_runs) <= 4
            if any(run.identity.run_id == run_id for run in open_runs):
                await site.end(run_id)
    requests = [run.run_request_id for run in await site.runs()]
    assert len(requests) == len(set(requests)) == 10


@scenario
async def test_a_backfill_is_bounded_and_for_the_past(site: Site) -> None:
    await site.add()
    now = timestamp(site.clock.now())
    for first, until, problem in (
        (later(now, -3600), later(now, 1), "for the past"),
        (later(now, -10), now, "has no time"),
        (later(now, -60), later(now, -60), "has no time"),
    ):
        with pytest.raises(InvalidSchedule, match=problem):
            await changing.preview_backfill(site.parts, "default", "s", BackfillRequest(first, until))
    site.clock.move(60 * 10_001)
    until = timestamp(site.clock.now())
    with pytest.raises(InvalidSchedule, match=r"more than 10,000 times"):
        await changing.preview_backfill(site.parts, "default", "s", BackfillRequest(NOON, until))


@scenario
async def test_inputs_are_checked_when_the_schedule_is_added(site: Site) -> None:
    with pytest.raises(InvalidInput, match="unknown input 'att'"):
        await site.add(inputs={"att": "x"})
    with pytest.raises(InvalidSchedule, match=r"inputs\.at, character 1"):
        await site.add(inputs={"at": "${schedule.tim}"})
    assert await reading.list_schedules(site.parts, "default") == []


def weekly(site: Site) -> ScheduleRequest:
    """Another definition of the schedule `s`: every hour."""
    plan = Workflow.parse(WORKFLOW.replace("nightly", "weekly")).plan
    encoded = plan_bytes(plan)
    definition = Definition(
        times=Every(3600, NOON),
        plan_id="weekly",
        plan_version=plan.metadata.plan_version,
        plan_sha256=sha256(encoded).hexdigest(),
        workspace=str(site.folder),
    )
    return ScheduleRequest("default", "s", definition, plan, {PLAN: encoded})


@scenario
async def test_a_replaced_schedule_has_the_new_definition_and_the_old_record(site: Site) -> None:
    await site.add(overlap=Overlap.ALLOW)
    site.clock.move(60)
    await site.ticker().tick()
    replaced = await defining.replace_schedule(site.parts, weekly(site))
    assert replaced.next_time == "2026-01-01T13:00:00.000000Z"
    site.clock.move(3600)
    await site.ticker().tick()
    assert [run.identity.plan_id for run in await site.runs()] == ["weekly", "nightly"]
    assert len(await site.ticks()) == 2


@scenario
async def test_times_that_wait_or_are_due_when_a_schedule_is_replaced_are_on_record(site: Site) -> None:
    await site.add(overlap=Overlap.QUEUE)
    for _ in range(2):
        site.clock.move(60)
        await site.ticker().tick()
    assert (await site.show()).waiting == ("2026-01-01T12:02:00.000000Z",)
    site.clock.move(120)
    replaced = await defining.replace_schedule(site.parts, weekly(site))
    assert (replaced.waiting, replaced.next_time) == ((), "2026-01-01T13:00:00.000000Z")
    assert await site.outcomes() == [("12:01", "started"), ("12:02", "skipped"), ("12:03", "skipped")]
    *_, waited, due = await site.ticks()
    assert waited.message == due.message == "the schedule was replaced before its run started"
    assert (due.count, due.until) == (2, "2026-01-01T12:04:00.000000Z")
    await defining.replace_schedule(site.parts, weekly(site))
    assert len(await site.ticks()) == 3


@scenario
async def test_times_of_a_paused_schedule_that_is_replaced_are_on_record(site: Site) -> None:
    await site.add()
    await changing.pause_schedule(site.parts, "default", "s", "maintenance")
    site.clock.move(60)
    await defining.replace_schedule(site.parts, weekly(site))
    (skipped,) = await site.ticks()
    assert (skipped.time[11:16], skipped.message) == ("12:01", "the schedule was paused")
    await changing.resume_schedule(site.parts, "default", "s")
    assert await site.outcomes() == [("12:01", "skipped")]
