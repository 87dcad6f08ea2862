"""The files of a run that is driven elsewhere: written from its log, by one worker of its host."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from podium.errors import StoreUnavailable
from podium.log.drafts import EventDraft
from podium.runtime.followed_views import FollowedViews
from tests.unit.runtime.working import Worked, local_parts, started_run
from tests.unit.tasks.engine import sh

PATIENCE = 60.0


def scenario(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), PATIENCE))


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.02)


def state(run: Worked) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((run.folder / "runs" / run.run_id / "state.json").read_text())
    except FileNotFoundError:
        return {}
    return found


def lines(run: Worked, name: str = "events.jsonl") -> list[dict[str, Any]]:
    file = run.folder / "runs" / run.run_id / "logs" / name
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


async def complete(run: Worked) -> None:
    worker = run.worker()
    await worker.perform(run.order("A"), run.lease.fence)
    await worker.write(run.run_id, run.lease.fence, [EventDraft("RunCompleted")])
    await worker.close()


@pytest.mark.rule("EN10")
def test_the_files_of_a_run_show_it_while_it_goes_and_when_it_has_ended(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(tmp_path, sh("echo hello")) as run:
            views = FollowedViews(run.parts)
            views.follow(run.run_id)
            views.follow(run.run_id)
            await until(lambda: state(run).get("status") == "running")
            await until(lambda: len(lines(run)) == 2)
            await complete(run)
            await views.finish(run.run_id)
            assert state(run)["status"] == "completed"
            assert [line["eventType"] for line in lines(run)] == [
                *("RunQueued", "RunStarted", "StepStarted", "StepCompleted", "RunCompleted")
            ]
            assert len(lines(run, "workflow.jsonl")) == 5
            assert not (tmp_path / "runs" / run.run_id / ".lock").exists()
            await views.close()

    scenario(test)


@pytest.mark.rule("EN10")
def test_of_two_workers_one_writes_the_files_and_the_other_follows_when_it_leaves(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(tmp_path, sh("echo hello")) as run:
            first, second = FollowedViews(run.parts), FollowedViews(local_parts(run.store, tmp_path))
            first.follow(run.run_id)
            await until(lambda: len(lines(run)) == 2)
            second.follow(run.run_id)
            await asyncio.sleep(1.5)
            assert len(lines(run)) == 2
            await first.close()
            await complete(run)
            await second.finish(run.run_id)
            assert [line["runSeq"] for line in lines(run)] == [1, 2, 3, 4, 5]
            assert state(run)["status"] == "completed"
            await second.close()

    scenario(test)


@pytest.mark.rule("EN10")
def test_a_store_that_is_away_for_a_moment_does_not_end_the_views(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(tmp_path, sh("echo hello")) as run:
            store: Any = SometimesAway(run.store)
            views = FollowedViews(local_parts(store, tmp_path))
            views.follow(run.run_id)
            await until(lambda: len(lines(run)) == 2)
            store.is_away = True
            await complete(run)
            await asyncio.sleep(1)
            store.is_away = False
            await views.finish(run.run_id)
            assert [line["runSeq"] for line in lines(run)] == [1, 2, 3, 4, 5]
            await views.close()

    scenario(test)


@pytest.mark.rule("EN10")
def test_the_views_of_a_run_that_ended_while_no_worker_was_there_are_completed(tmp_path: Path) -> None:
    async def test() -> None:
        async with started_run(tmp_path, sh("echo hello")) as run:
            await complete(run)
            views = FollowedViews(run.parts)
            views.follow(run.run_id)
            await views.finish(run.run_id)
            assert state(run)["status"] == "completed"
            assert len(lines(run)) == 5
            await views.close()

    scenario(test)


class SometimesAway:
    """A store that cannot be read for a while."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.is_away = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name == "watch":
            return self._watch
        if name not in ("read", "get_run"):
            return method

        async def call(*arguments: Any, **options: Any) -> Any:
            if self.is_away:
                raise StoreUnavailable("away")
            return await method(*arguments, **options)

        return call

    async def _watch(self, *arguments: Any, **options: Any) -> Any:
        async for batch in self._store.watch(*arguments, **options):
            if self.is_away:
                raise StoreUnavailable("away")
            yield batch
