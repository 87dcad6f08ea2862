"""Appends to different runs are made together; each is answered as if it had been made alone."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from podium.errors import LogMoved, RunNotFound, StaleFence
from podium.log.events import EventWrite
from podium.log.ids import RunId
from podium.log.leases import Fence, WakeUp
from podium.stores.sqlite import SqliteStore, appending, writer
from podium.testing.events import NOON, event, new_run
from podium.testing.store_promises import R1, started, types_in
from tests.promises.sqlite.worlds import SqliteWorld


def _at_once(store: SqliteStore, *appends: Any) -> Any:
    store._writer._crowded = True  # as among many callers: the thread makes them together
    return asyncio.gather(*appends, return_exceptions=True)


def _steps(run_id: str, *names: str) -> list[EventWrite]:
    return [event(run_id, "StepStarted", name) for name in names]


def test_each_of_many_appends_has_its_own_answer(world: SqliteWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    together: list[int] = []
    sound = appending.append_all

    def counting(db: Any, at: Any, appends: Sequence[Any], known_runs: Any) -> Any:
        together.append(len(appends))
        return sound(db, at, appends, known_runs)

    monkeypatch.setattr(writer, "append_all", counting)
    # Answers for the wrong run mostly end in a conflict, and one by one all are right again.
    monkeypatch.delattr(writer.Writer, "_one_by_one")

    async def scenario() -> None:
        store = world.store
        leases = {name: await started(store, name) for name in ("r1", "r2", "r3", "r4", "r5", "r6")}
        fence = leases["r1"].fence
        await store.append(RunId("r2"), _steps("r2", "b"), fence=fence)
        wake_up = WakeUp(run_id=RunId("r6"), key="soon", due=NOON)
        answers = await _at_once(
            store,
            store.append(R1, _steps("r1", "a", "b", "c"), fence=fence, after=2),
            store.append(RunId("r2"), _steps("r2", "a", "b", "c", "a"), fence=fence),
            store.append(RunId("no"), _steps("no", "a"), fence=fence),
            store.append(RunId("r3"), _steps("r3", "a"), fence=fence, after=1),
            store.append(RunId("r4"), _steps("r4", "a"), fence=Fence(7)),
            store.append(RunId("r5"), [event("r5", "RunCompleted")], fence=fence),
            store.append(RunId("r6"), [], fence=fence),
            store.append(RunId("r6"), _steps("r6", "a"), fence=fence, set_wake_ups=[wake_up]),
        )
        assert [a.record.run_seq for a in answers[0]] == [3, 4, 5]
        assert [(a.record.run_seq, a.duplicate) for a in answers[1]] == [
            (4, False),
            (3, True),
            (5, False),
            (4, False),
        ]
        assert [type(answer) for answer in answers[2:5]] == [RunNotFound, LogMoved, StaleFence]
        assert [record.run_seq for record in answers[3].missed] == [2]
        assert answers[5][0].record.run.run_id == "r5"
        assert answers[6] == ()
        assert await store.due(NOON) == [wake_up]
        assert [len(await store.read(RunId(name))) for name in leases] == [5, 5, 2, 2, 3, 3]
        assert await world.other.problems() == []
        assert max(together) > 1

    world.run(scenario())


def test_an_id_that_nobody_can_have_does_not_trouble_the_others(world: SqliteWorld) -> None:
    async def scenario() -> None:
        store = world.store
        lease = await started(store)
        answers = await _at_once(
            store,
            store.append(RunId("half \ud800"), _steps("no", "a"), fence=lease.fence),
            store.append(R1, _steps("r1", "a"), fence=lease.fence),
        )
        assert isinstance(answers[0], RunNotFound)
        assert answers[1][0].record.run_seq == 3

    world.run(scenario())


def test_more_appends_than_are_made_together_are_all_stored(world: SqliteWorld) -> None:
    async def scenario() -> None:
        store = world.store
        names = [f"r{number}" for number in range(writer._MAX_APPENDS_TOGETHER * 2 + 3)]
        leases = [await started(store, name) for name in names]
        answers = await _at_once(
            store,
            *(
                store.append(RunId(name), _steps(name, *"abc"[: 1 + number % 3]), fence=lease.fence)
                for number, (name, lease) in enumerate(zip(names, leases, strict=True))
            ),
        )
        for number, (name, answer) in enumerate(zip(names, answers, strict=True)):
            assert [a.record.run_seq for a in answer] == list(range(3, 4 + number % 3))
            assert await world.other.read(RunId(name), after=2) == [a.record for a in answer]

    world.run(scenario())


def test_a_run_that_is_known_by_the_number_of_another_is_looked_up_again(world: SqliteWorld) -> None:
    """As after a transaction that was undone: the number of a run that was made in it goes to the next one."""

    async def scenario() -> None:
        store = world.store
        for name in ("r1", "r2"):
            await store.create_run(new_run(name), [event(name, "RunQueued")])
            await store.append(RunId(name), [event(name, "AlertRaised", subject="a")])
        known = store._writer.known_runs
        known["r1"] = known["r2"]
        (answer,) = await store.append(R1, [event("r1", "AlertRaised", subject="b")])
        assert (answer.record.run.run_id, answer.record.run_seq) == ("r1", 3)
        assert await types_in(store) == ["RunQueued", "AlertRaised", "AlertRaised"]
        assert await types_in(store, "r2") == ["RunQueued", "AlertRaised"]

    world.run(scenario())


def test_a_run_that_another_handle_removed_is_no_longer_known(world: SqliteWorld) -> None:
    async def scenario() -> None:
        lease = await started(world.store)
        await world.store.append(R1, [event("r1", "RunCompleted")], fence=lease.fence)
        await world.other.prune(R1)
        with pytest.raises(RunNotFound):
            await world.store.append(R1, [event("r1", "AlertRaised", subject="a")])

    world.run(scenario())
