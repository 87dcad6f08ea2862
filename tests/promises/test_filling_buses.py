"""Buses that are filled and removed bit by bit, on every store: cut short at any point, and while others write."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from podium.log.ids import RunId
from podium.log.leases import Lease
from podium.ports.store import Store
from podium.stores import rules
from podium.stores.postgres import outbox as postgres_outbox
from podium.stores.sqlite import maintenance
from podium.stores.sqlite import outbox as sqlite_outbox
from podium.testing.events import event
from podium.testing.store_promises import TTL, World, started

EmptyWorld = Callable[[], World]

# Each with the two events of its start and so many steps; runs are cut in the middle by batches of three rows.
STEPS = {"r1": 5, "r2": 0, "r3": 2}
ROWS_AT_ONCE = 3


class Killed(BaseException):
    """The process is gone."""


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "BUS_BATCH_SIZE", ROWS_AT_ONCE)


@pytest.fixture
def lives(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many batches a process does before it dies, process by process; the last one lives on."""
    left: list[int] = []

    def dying(sound: Callable[..., Any]) -> Callable[..., Any]:
        def batch(*args: Any) -> Any:
            if left:
                left[0] -= 1
                if left[0] < 0:
                    left.pop(0)
                    raise Killed
            return sound(*args)

        return batch

    for module in (sqlite_outbox, postgres_outbox):
        for name in ("fill_some", "remove_some"):
            monkeypatch.setattr(module, name, dying(getattr(module, name)))
    return iter([left])


async def filled(store: Store) -> dict[str, Lease]:
    leases = {}
    for run_id, steps in STEPS.items():
        leases[run_id] = await started(store, run_id)
        writes = [event(run_id, "StepStarted", f"s{n}") for n in range(steps)]
        await store.append(RunId(run_id), writes, fence=leases[run_id].fence)
    return leases


async def delivered(store: Store, bus: str) -> dict[str, list[int]]:
    """Everything that a relay gets, in the order in which it gets it."""
    seen: dict[str, list[int]] = {}
    while (claim := await store.claim_line(bus, owner="relay", ttl=TTL, limit=2)) is not None:
        seen.setdefault(claim.run_id, []).extend(record.run_seq for record in claim.records)
        assert await store.delivered(claim, claim.records[-1].run_seq)
    return seen


async def log_of(store: Store) -> dict[str, list[int]]:
    return {run_id: [record.run_seq for record in await store.read(RunId(run_id))] for run_id in STEPS}


async def dies(call: Any) -> bool:
    try:
        await call
    except Killed:
        return True
    return False


@pytest.mark.parametrize("batches", range(7))
def test_a_bus_whose_filling_was_cut_short_cannot_be_claimed_and_is_completed_by_the_next_call(
    empty_world: EmptyWorld, lives: Iterator[list[int]], batches: int
) -> None:
    world = empty_world()
    left = next(lives)

    async def scenario() -> None:
        leases = await filled(world.store)
        left.append(batches)
        died = await dies(world.store.add_bus("all", from_start=True))
        left.clear()
        for run_id, lease in leases.items():
            await world.other.append(RunId(run_id), [event(run_id, "StepStarted", "late")], fence=lease.fence)
        await started(world.store, "r4")
        if died:
            assert await world.other.claim_line("all", owner="relay", ttl=TTL) is None
        assert await world.other.problems() == []
        await world.other.add_bus("all")  # whatever was asked for, it is the bus that was begun
        assert await world.other.problems() == []
        log = await log_of(world.store) | {"r4": [1, 2]}
        assert await delivered(world.store, "all") == log
        assert await world.other.outbox_lines() == []
        await world.store.add_bus("all", from_start=True)  # and nothing comes a second time
        assert await delivered(world.store, "all") == {}

    world.run(scenario())


@pytest.mark.parametrize("batches", range(9))
def test_a_bus_whose_removal_was_cut_short_is_gone_for_relays_and_can_be_removed_or_added_again(
    empty_world: EmptyWorld, lives: Iterator[list[int]], batches: int
) -> None:
    world = empty_world()
    left = next(lives)

    async def scenario() -> None:
        leases = await filled(world.store)
        await world.store.add_bus("other", from_start=True)
        await world.store.add_bus("all", from_start=True)
        claim = await world.store.claim_line("all", owner="relay", ttl=TTL)
        assert claim is not None
        await world.store.failed(claim, "refused", retry_in=None)
        left.append(batches)
        await dies(world.store.remove_bus("all"))
        left.clear()
        assert await world.other.claim_line("all", owner="relay", ttl=TTL) is None
        rest = await world.other.outbox_lines("all")
        await world.other.append(RunId("r1"), [event("r1", "StepStarted", "late")], fence=leases["r1"].fence)
        assert await world.other.outbox_lines("all") == rest
        assert await world.other.problems() == []
        if batches % 2:
            await world.other.remove_bus("all")
            assert [line.bus for line in await world.store.outbox_lines()] == ["other"] * 3
            assert await world.store.dead_letters() == []
        await world.other.add_bus("all", from_start=bool(batches % 3))
        assert await world.other.dead_letters() == []
        assert await world.other.problems() == []
        log = await log_of(world.store)
        assert await delivered(world.store, "all") == (log if batches % 3 else {})
        assert await delivered(world.store, "other") == log

    world.run(scenario())


def test_a_bus_that_two_processes_fill_while_others_append_gets_everything_once_and_in_order(
    empty_world: EmptyWorld,
) -> None:
    world = empty_world()

    async def scenario() -> None:
        leases = await filled(world.store)

        async def append(run_id: str) -> None:
            for number in range(12):
                write = event(run_id, "StepCompleted", f"s{number}")
                await world.store.append(RunId(run_id), [write], fence=leases[run_id].fence)
                await asyncio.sleep(0)

        await asyncio.gather(
            world.store.add_bus("all", from_start=True),
            world.other.add_bus("all", from_start=True),
            *(append(run_id) for run_id in STEPS),
        )
        assert await world.store.problems() == []
        assert await delivered(world.other, "all") == await log_of(world.store)

    world.run(scenario())


def test_a_run_may_be_pruned_while_a_bus_is_filled_and_leaves_nothing_in_it(
    empty_world: EmptyWorld, lives: Iterator[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if its events are deleted only later."""
    monkeypatch.setattr(maintenance, "remove_some", lambda _: False)
    world = empty_world()
    left = next(lives)

    async def scenario() -> None:
        leases = await filled(world.store)
        await world.store.append(RunId("r3"), [event("r3", "RunCompleted")], fence=leases["r3"].fence)
        left.append(1)
        if await dies(world.store.add_bus("all", from_start=True)):
            await world.other.prune(RunId("r3"))
        left.clear()
        await world.other.add_bus("all", from_start=True)
        assert await world.store.problems() == []
        seen = await delivered(world.store, "all")
        assert {run_id: seen[run_id] for run_id in ("r1", "r2")} == {
            "r1": [1, 2, 3, 4, 5, 6, 7],
            "r2": [1, 2],
        }

    world.run(scenario())


def test_no_transaction_for_a_bus_has_more_rows_than_that(
    empty_world: EmptyWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted by what is in the lines after each batch."""
    world = empty_world()
    counts: list[int] = []

    async def look() -> None:
        counts.append(sum(line.waiting for line in await world.other.outbox_lines("all")))

    def counting(sound: Callable[..., Any]) -> Callable[..., Any]:
        async def batch(*args: Any) -> Any:
            answer = await sound(*args)
            await look()
            return answer

        return batch

    for name in ("fill_some", "remove_some"):
        monkeypatch.setattr(postgres_outbox, name, counting(getattr(postgres_outbox, name)))

    async def scenario() -> None:
        await filled(world.store)
        if hasattr(world.store, "_writer"):
            monkeypatch.setattr(world.store._writer, "write", counting(world.store._writer.write))
        await world.store.add_bus("all", from_start=True)
        await world.store.remove_bus("all")
        if counts:  # a store in memory has no transactions that others would wait for
            assert max(counts) == 13
            assert max(abs(after - before) for before, after in zip([0, *counts], counts, strict=False)) <= 3

    world.run(scenario())
