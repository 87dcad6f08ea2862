"""Runs that need a newer Podium than their host: while servers are upgraded one after the other, both claim runs."""

import asyncio
import contextlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch
from uuid import uuid4

import pytest

from podium.engines.run_host import RunHost
from podium.log.ids import RunId
from podium.log.transitions import RunStatus
from podium.plan.plan import Plan
from podium.ports.store import Limit, Store
from podium.stores.sqlite import SqliteStore
from podium.testing.events import event
from tests.unit.hosting.hosts import POOL, Ends, parts_of, request, serving, until, workflow

ASKS = "  - name: ask\n    approval: {message: Continue?}\n"
R1 = RunId("r1")


def plan() -> Plan:
    """One that this process has not read before: it keeps what it has read."""
    return workflow(f"  - name: s{uuid4().hex}\n    set: {{x: 1}}\n")


@pytest.fixture(autouse=True)
def short_pause() -> Iterator[None]:
    with patch("podium.engines.pool_run._NEWER_PAUSE", timedelta(seconds=0.2)):
        yield


@contextlib.contextmanager
def plans_up_to(version: str) -> Iterator[None]:
    with patch("podium.plan.loading.SCHEMA_VERSION", version):
        yield


@contextlib.contextmanager
def rules(version: int) -> Iterator[None]:
    with patch("podium.engines.hosting.RULES_VERSION", version):
        yield


async def started(store: Store, folder: Path) -> None:
    """A run that has started, and waits for a person."""
    host = RunHost(parts_of(store, folder), pool=POOL)
    async with serving(host):
        await host.create(request(workflow(ASKS), run_id=R1))
        async with asyncio.timeout(60):
            while (await store.get_run(R1)).status is not RunStatus.RUNNING:
                await asyncio.sleep(0.01)


async def woken(store: Store) -> None:
    await store.append(R1, [event(R1, "SignalAccepted", subject="s")])


@pytest.mark.parametrize("is_limited", [False, True])
def test_a_run_with_a_newer_plan_is_left_to_a_newer_host_and_not_failed(
    tmp_path: Path, is_limited: bool
) -> None:
    async def scenario() -> None:
        store, older, newer = await SqliteStore.open(tmp_path / "podium.db"), Ends(), Ends()
        if is_limited:
            await store.set_limit(Limit("default", "plan", "waits", 1))
        await RunHost(parts_of(store, tmp_path), pool=POOL).create(request(plan(), run_id=R1))
        with plans_up_to("v1.1"):
            async with serving(RunHost(parts_of(store, tmp_path), pool=POOL, view=older)):
                # It is claimed again after a pause.
                await until(lambda: len(older.troubles) >= 2)
        assert "the plan has the schema version 'v1.2'" in older.troubles[0]
        assert (older.ended_runs, (await store.get_run(R1)).head) == ({}, 1)
        async with serving(RunHost(parts_of(store, tmp_path), pool=POOL, view=newer)):
            await newer.wait(1)
        assert newer.ended_runs == {"r1": "RunCompleted"}
        await store.close()

    asyncio.run(scenario())


def test_a_run_that_was_started_under_newer_rules_is_left_to_a_newer_host(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, older = await SqliteStore.open(tmp_path / "podium.db"), Ends()
        await started(store, tmp_path)
        await woken(store)
        with rules(2):
            async with serving(RunHost(parts_of(store, tmp_path), pool=POOL, view=older)):
                await until(lambda: older.troubles)
        assert "was started under rules 3, and this version of Podium has rules 2" in older.troubles[0]
        assert (await store.get_run(R1)).status is RunStatus.RUNNING
        await store.close()

    asyncio.run(scenario())


def test_a_run_that_no_newer_host_can_continue_ends(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, ends = await SqliteStore.open(tmp_path / "podium.db"), Ends()
        await started(store, tmp_path)
        await woken(store)
        with rules(4):
            async with serving(RunHost(parts_of(store, tmp_path), pool=POOL, view=ends)):
                await ends.wait(1)
        await RunHost(parts_of(store, tmp_path), pool=POOL).create(request(plan(), run_id="r2"))
        with plans_up_to("v2.0"):
            async with serving(RunHost(parts_of(store, tmp_path), pool=POOL, view=ends)):
                await ends.wait(2)
        assert ends.ended_runs == {"r1": "RunFailed", "r2": "RunFailed"}
        await store.close()

    asyncio.run(scenario())
