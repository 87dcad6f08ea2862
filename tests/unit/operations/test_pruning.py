"""Ended runs are removed when somebody asks, whole."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from podium.log.ids import RunId
from podium.log.transitions import RunStatus
from podium.operations.pruning import Pruned, prune_runs
from podium.operations.runs import show_run
from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock
from podium.testing.events import event
from podium.testing.store_promises import started
from tests.unit.runtime.folder_bucket import FolderBucket


async def some_runs() -> tuple[MemoryStore, VirtualClock]:
    clock = VirtualClock()
    store = MemoryStore(clock)
    for name, end in (("old", "RunCompleted"), ("broken", "RunFailed"), ("open", None)):
        lease = await started(store, name)
        if end:
            await store.append(RunId(name), [event(name, end)], fence=lease.fence)
    clock.move(timedelta(days=100).total_seconds())
    lease = await started(store, "young")
    await store.append(RunId("young"), [event("young", "RunCompleted")], fence=lease.fence)
    return store, clock


async def pruned(store: MemoryStore, clock: VirtualClock, **options: Any) -> list[Pruned]:
    return [
        one async for one in prune_runs(store, clock, "default", older_than=timedelta(days=90), **options)
    ]


def test_only_runs_that_ended_long_ago_are_removed() -> None:
    async def scenario() -> None:
        store, clock = await some_runs()
        tried = await pruned(store, clock, dry_run=True)
        assert {one.run.identity.run_id for one in tried} == {"old", "broken"}
        assert (await store.stats()).runs == 4
        failed = await pruned(store, clock, statuses=frozenset({RunStatus.FAILED}))
        assert [one.run.identity.run_id for one in failed] == ["broken"]
        assert [one.run.identity.run_id for one in await pruned(store, clock)] == ["old"]
        assert (await store.stats()).runs == 2

    asyncio.run(scenario())


def test_a_run_with_undelivered_events_is_kept_and_told() -> None:
    async def scenario() -> None:
        store, clock = await some_runs()
        await store.add_bus("kafka", from_start=True)
        tried = await pruned(store, clock)
        assert all(one.kept_because and "undelivered" in one.kept_because for one in tried)
        assert (await store.stats()).runs == 4

    asyncio.run(scenario())


def directories(runs: Path) -> set[str]:
    return {path.name for path in runs.iterdir()}


def test_the_directory_of_a_run_goes_with_it_and_no_other(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, clock = await some_runs()
        for name in ("old", "broken", "open", "young", "of another store"):
            (tmp_path / name / "artifacts").mkdir(parents=True)
        await pruned(store, clock, runs=tmp_path, dry_run=True)
        assert len(directories(tmp_path)) == 5
        await pruned(store, clock, runs=tmp_path)
        assert directories(tmp_path) == {"open", "young", "of another store"}

    asyncio.run(scenario())


def test_a_run_that_is_kept_keeps_its_directory(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, clock = await some_runs()
        await store.add_bus("kafka", from_start=True)
        (tmp_path / "old").mkdir()
        await pruned(store, clock, runs=tmp_path)
        assert list((tmp_path / "old").iterdir()) == []

    asyncio.run(scenario())


def test_what_a_crash_left_between_store_and_directory_is_swept_away(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, clock = await some_runs()
        for name in ("old", "open"):
            (tmp_path / name).mkdir()
            (tmp_path / name / ".pruned").touch()
        await store.prune(RunId("old"))
        await pruned(store, clock, runs=tmp_path)
        assert directories(tmp_path) == {"open"}
        assert list((tmp_path / "open").iterdir()) == []

    asyncio.run(scenario())


@pytest.mark.rule("OP17")
def test_a_mark_that_a_step_has_written_removes_nothing_of_other_runs(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, clock = await some_runs()
        bucket, runs = FolderBucket(tmp_path / "bucket"), tmp_path / "runs"
        first = {name: (await store.read(RunId(name)))[0].event_id for name in ("open", "young")}
        for name, event_id in first.items():
            await bucket.store(f"{name}/{event_id}").put(b"report", kind="file")
        for mark in (f"../young/{first['young']}", first["young"], first["open"], ""):
            (runs / "open").mkdir(parents=True, exist_ok=True)
            (runs / "open" / ".pruned").write_text(mark)
            await pruned(store, clock, runs=runs, bucket=bucket)
            assert not (runs / "open" / ".pruned").exists()
        for name, event_id in first.items():
            assert await bucket.store(f"{name}/{event_id}").names()

    asyncio.run(scenario())


def test_a_run_is_shown_with_its_steps() -> None:
    async def scenario() -> None:
        clock = VirtualClock()
        store = MemoryStore(clock)
        lease = await started(store)
        await store.append(
            RunId("r1"),
            [event("r1", "StepCompleted", "a"), event("r1", "StepStarted", "b")],
            fence=lease.fence,
        )
        view = await show_run(store, clock, "default", "r1")
        assert (view.summary.status, view.summary.step_count) == ("RUNNING", 2)
        assert [step.step_id for step in view.steps] == ["a", "b"]
        assert [
            step.step_id for step in (await show_run(store, clock, "default", "r1", after_step="a")).steps
        ] == ["b"]

    asyncio.run(scenario())
