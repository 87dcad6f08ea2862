"""Submitting runs to pools: what a caller learns, and what becomes of a run when a limit is reached."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from podium.api import Workflow
from podium.errors import ConcurrencyLimit, InvalidId, RunNotFound, RunRefused, RunRequestConflict
from podium.log.ids import RunId
from podium.log.payloads import fields_of
from podium.log.times import moment
from podium.operations.on_limit import OnLimit
from podium.operations.parts import Parts
from podium.operations.submitting import InvalidSubmission, Outcome, submit_run, wait_seconds
from podium.ports.engine import RunRequest
from podium.ports.store import Limit
from podium.testing.store_promises import TTL
from podium.wiring.stores import open_store
from podium.wiring.use_cases import use_case_parts

STEPS = "version: 2.0\nname: w\nsteps:\n  - name: a\n    set: {x: 1}\n"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def plan_of(**concurrency: Any) -> Any:
    extra = f"concurrency: {concurrency}\n" if concurrency else ""
    return Workflow.parse(STEPS + extra.replace("'", '"')).plan


def with_parts(folder: Path, scenario: Callable[[Parts], Awaitable[None]]) -> None:
    async def run() -> None:
        store = await open_store(f"sqlite:{folder / 'podium.db'}", create=True)
        try:
            await scenario(use_case_parts(store, folder, print, actor=None))
        finally:
            await store.close()

    asyncio.run(run())


def test_a_submitted_run_is_in_the_default_pool_and_can_start(tmp_path: Path) -> None:
    async def scenario(parts: Parts) -> None:
        found = await submit_run(parts, RunRequest(plan_of(), run_request_id="q", priority=7))
        assert (found.outcome, found.position, found.limit) == (Outcome.CREATED, 1, None)
        assert (found.run.pool, found.run.priority) == ("default", 7)
        again = await submit_run(parts, RunRequest(plan_of(), run_request_id="q", priority=7))
        assert (again.outcome, again.run.identity) == (Outcome.DUPLICATE, found.run.identity)
        with pytest.raises(RunRequestConflict):
            await submit_run(parts, RunRequest(plan_of(), inputs={"x": 1}, run_request_id="q"))

    with_parts(tmp_path, scenario)


def test_a_run_behind_a_limit_waits_and_the_caller_learns_its_position(tmp_path: Path) -> None:
    async def scenario(parts: Parts) -> None:
        await parts.store.set_limit(Limit("default", "plan", "w", 0))
        for position in (1, 2):
            found = await submit_run(parts, RunRequest(plan_of(), pool="p"))
            assert (found.outcome, found.position) == (Outcome.QUEUED, position)
            assert found.limit is not None
            assert "'w'" in found.limit

    with_parts(tmp_path, scenario)


def test_a_run_is_rejected_with_a_time_that_follows_from_the_queue(tmp_path: Path) -> None:
    async def scenario(parts: Parts) -> None:
        await parts.store.set_limit(Limit("default", "tenant", "default", 0))
        with pytest.raises(RunRefused) as refused:
            await submit_run(parts, RunRequest(plan_of(), run_id="r"), on_limit=OnLimit.REJECT)
        assert refused.value.retry_after_seconds == 30
        with pytest.raises(RunNotFound):
            await parts.store.get_run(RunId("r"))

    with_parts(tmp_path, scenario)


def test_a_run_is_delayed_if_a_limit_is_reached_and_only_then(tmp_path: Path) -> None:
    async def scenario(parts: Parts) -> None:
        at_once = await submit_run(parts, RunRequest(plan_of()), on_limit=OnLimit.DELAY)
        assert (at_once.outcome, at_once.run.start_at) == (Outcome.CREATED, None)
        await parts.store.set_limit(Limit("default", "tenant", "default", 0))
        later = await submit_run(parts, RunRequest(plan_of(), run_request_id="q"), on_limit=OnLimit.DELAY)
        assert later.outcome is Outcome.DELAYED
        assert later.run.start_at is not None
        assert moment(later.run.start_at) > parts.clock.now()
        again = await submit_run(parts, RunRequest(plan_of(), run_request_id="q"), on_limit=OnLimit.DELAY)
        assert (again.outcome, again.run.start_at) == (Outcome.DUPLICATE, later.run.start_at)

    with_parts(tmp_path, scenario)


def test_a_run_with_a_start_time_is_not_claimed_before(tmp_path: Path) -> None:
    async def scenario(parts: Parts) -> None:
        at = parts.clock.now() + timedelta(hours=1)
        found = await submit_run(parts, RunRequest(plan_of()), start_at=at)
        assert found.outcome is Outcome.DELAYED
        assert await parts.store.claim_of_pool("default", owner="w", ttl=TTL) == []
        for wrong, on_limit in ((at.replace(tzinfo=None), OnLimit.QUEUE), (at, OnLimit.REJECT)):
            with pytest.raises(InvalidSubmission):
                await submit_run(parts, RunRequest(plan_of()), start_at=wrong, on_limit=on_limit)

    with_parts(tmp_path, scenario)


@pytest.mark.parametrize("fields", [{"pool": "a b"}, {"priority": 1001}, {"priority": -1001}])
def test_what_no_run_can_have_is_refused(tmp_path: Path, fields: dict[str, Any]) -> None:
    async def scenario(parts: Parts) -> None:
        with pytest.raises((InvalidSubmission, InvalidId)):
            await submit_run(parts, RunRequest(plan_of(), **fields))
        assert (await parts.store.stats()).runs == 0

    with_parts(tmp_path, scenario)


def test_on_conflict_reject_refuses_a_second_run_of_the_key(tmp_path: Path) -> None:
    async def scenario(parts: Parts) -> None:
        plan = plan_of(key="k", on_conflict="reject")
        await submit_run(parts, RunRequest(plan, run_id="first"))
        with pytest.raises(ConcurrencyLimit, match="held by first"):
            await submit_run(parts, RunRequest(plan, run_id="second"))
        assert (await parts.store.stats()).runs == 1

    with_parts(tmp_path, scenario)


def test_on_conflict_cancel_stops_the_oldest_run_of_the_key_once(tmp_path: Path) -> None:
    async def scenario(parts: Parts) -> None:
        plan = plan_of(key="k", on_conflict="cancel", limit=2)
        for name in ("a", "b", "c"):
            await submit_run(parts, RunRequest(plan, run_id=name))
        await submit_run(parts, RunRequest(plan, run_id="c"))
        signals = {}
        for name in ("a", "b", "c"):
            records = await parts.store.read(RunId(name))
            signals[name] = [fields_of(one) for one in records if one.event_type == "SignalAccepted"]
        assert (len(signals["a"]), signals["b"], signals["c"]) == (1, [], [])
        assert signals["a"][0]["signalType"] == "CANCEL"
        assert "run c of the same concurrency key" in signals["a"][0]["payload"]["reason"]

    with_parts(tmp_path, scenario)


@pytest.mark.parametrize(
    ("ends", "waiting", "expected"),
    [
        ((), 5, 30),
        ((0,), 5, 30),
        ((0, 10, 20), 0, 10),
        ((0, 10, 20), 3, 40),
        ((0, 0), 9, 1),
        ((0, 9_000), 9, 3600),
    ],
)
def test_the_time_to_wait_follows_from_how_often_runs_end_and_how_many_wait(
    ends: tuple[int, ...], waiting: int, expected: int
) -> None:
    assert wait_seconds([NOON + timedelta(seconds=one) for one in ends], waiting) == expected
