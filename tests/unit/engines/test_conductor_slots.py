"""How many attempts a worker of Conductor carries out at the same time."""

import asyncio

import pytest

from podium.engines.conductor.slots import Slots


class Waiting:
    """Takes so many slots when they are offered."""

    def __init__(self, slots: Slots, name: str, wanted: int, order: list[str]) -> None:
        self._slots, self._name, self._wanted, self._order = slots, name, wanted, order
        slots.wait(self.take)

    def take(self) -> bool:
        if not self._wanted or not self._slots.take():
            return False
        self._wanted -= 1
        self._order.append(self._name)
        return True


@pytest.mark.rule("CN10")
def test_no_more_attempts_than_slots() -> None:
    slots = Slots(2)
    assert [slots.take(), slots.take(), slots.take()] == [True, True, False]
    slots.give()
    assert slots.free == 1
    assert slots.take()


@pytest.mark.rule("CN10")
def test_a_worker_without_slots_only_decides() -> None:
    slots = Slots(0)
    assert not slots.take()
    slots.offer()
    assert slots.free == 0


@pytest.mark.rule("CN10")
def test_runs_that_wait_for_a_slot_get_them_in_turn() -> None:
    slots, order = Slots(1), list[str]()
    assert slots.take()
    for name in ("a", "b", "c"):
        Waiting(slots, name, 2, order)
    for _ in range(6):
        slots.give()
    assert order == ["a", "b", "c", "a", "b", "c"]


@pytest.mark.rule("CN10")
def test_a_run_that_wants_no_slot_leaves_it_to_the_next() -> None:
    slots, order = Slots(1), list[str]()
    assert slots.take()
    Waiting(slots, "idle", 0, order)
    Waiting(slots, "b", 1, order)
    slots.give()
    assert (order, slots.free) == (["b"], 0)
    slots.give()
    assert slots.free == 1


@pytest.mark.rule("CN10")
def test_a_handed_out_attempt_waits_until_a_slot_is_free() -> None:
    async def test() -> None:
        slots = Slots(1)
        await slots.acquire()
        waiting = asyncio.create_task(slots.acquire())
        await asyncio.sleep(0)
        assert not waiting.done()
        slots.give()
        await waiting
        assert slots.free == 0

    asyncio.run(test())


@pytest.mark.rule("CN10")
@pytest.mark.parametrize("is_offered_first", [False, True])
def test_a_slot_is_not_lost_with_the_attempt_that_waited_for_it(is_offered_first: bool) -> None:
    async def test() -> None:
        slots = Slots(1)
        await slots.acquire()
        waiting = asyncio.create_task(slots.acquire())
        await asyncio.sleep(0)
        if is_offered_first:
            slots.give()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        if not is_offered_first:
            slots.give()
        assert slots.free == 1

    asyncio.run(test())
