"""Relays over every store: each event at least once, first deliveries in the order of its run, whoever dies."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from podium.buses.memory import MemoryBus
from podium.log.alerts import Alert
from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.log.leases import Lease
from podium.ports.bus import EventBus
from podium.ports.store import Outbox, Store
from podium.runtime.alerts import Alerting
from podium.runtime.relay import Relay
from podium.testing.clock import VirtualClock
from podium.testing.events import event
from podium.testing.store_promises import World, started

EmptyWorld = Callable[[], World]


class FailingBus(MemoryBus):
    """Refuses what it is told to refuse."""

    def __init__(self) -> None:
        super().__init__("kafka")
        self.refused: set[tuple[str, int]] = set()

    async def publish(self, records: Sequence[EventRecord]) -> int:
        for count, record in enumerate(records):
            if (record.run.run_id, record.run_seq) in self.refused:
                if count:
                    return count
                raise ConnectionError("broker is down")
            await super().publish([record])
        return len(records)

    @property
    def seen(self) -> list[tuple[str, int]]:
        return [(record.run.run_id, record.run_seq) for record in self.published]


class Scene:
    """A bus, and relays in two processes."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.store = world.store
        self.bus = FailingBus()
        self.alerts: list[tuple[str | None, Alert]] = []

    def relay(self, store: Store | None = None, *, outbox: Outbox | None = None, bus: Any = None) -> Relay:
        store = store or self.world.store
        alerting = Alerting(store, VirtualClock(), lambda run, alert: self.alerts.append((run, alert)))
        return Relay(outbox or store, bus or self.bus, alerting, owner="relay", jitter=lambda: 0.0)


async def drain(*relays: Relay) -> None:
    """In turns, until nothing is left that may be delivered now."""
    for _ in range(1000):
        if not any([await relay.deliver_line() for relay in relays]):
            return
    raise AssertionError("the relays never came to an end")


def first_deliveries(seen: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    first: dict[str, list[int]] = defaultdict(list)
    for run_id, seq in seen:
        if seq not in first[run_id]:
            first[run_id].append(seq)
    return first


async def log_of(store: Store, *run_ids: str) -> dict[str, list[int]]:
    return {
        run_id: [record.run_seq for record in await store.read(RunId(run_id), limit=10_000)]
        for run_id in run_ids
    }


def test_events_are_delivered_in_order_and_removed(empty_world: EmptyWorld) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.store.add_bus("kafka")
        lease = await started(scene.store)
        await scene.store.append(RunId("r1"), [event("r1", "RunCompleted")], fence=lease.fence)
        await drain(scene.relay())
        assert scene.bus.seen == [("r1", 1), ("r1", 2), ("r1", 3)]
        assert await scene.store.outbox_lines() == []

    world = empty_world()
    world.run(scenario(Scene(world)))


def test_a_failing_event_holds_its_own_run_only_and_is_tried_again_later(empty_world: EmptyWorld) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.store.add_bus("kafka")
        await started(scene.store, "r1")
        await started(scene.store, "r2")
        scene.bus.refused = {("r1", 2)}
        for _ in range(8):
            await drain(scene.relay())
            scene.world.pass_time(31)
        await drain(scene.relay())
        assert scene.bus.seen == [("r1", 1), ("r2", 1), ("r2", 2)]
        scene.bus.refused.clear()
        await drain(scene.relay())
        assert ("r1", 2) not in scene.bus.seen  # after nine failures it rests for 25.6 seconds
        scene.world.pass_time(26)
        await drain(scene.relay())
        assert scene.bus.seen[-1] == ("r1", 2)
        assert scene.alerts == []

    world = empty_world()
    world.run(scenario(Scene(world)))


@pytest.mark.rule("ES19")
def test_after_ten_failures_an_event_is_dead_and_its_line_goes_on(empty_world: EmptyWorld) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.store.add_bus("kafka")
        await started(scene.store)
        scene.bus.refused = {("r1", 1)}
        two = [scene.relay(scene.world.store), scene.relay(scene.world.other)]
        dead = []
        for tries in range(1, 11):
            assert await two[tries % 2].deliver_line()
            dead = await scene.store.dead_letters()
            assert (len(dead), len(scene.alerts)) == ((1, 1) if tries == 10 else (0, 0))
            if 6 <= tries < 10:  # its line rests for 3.2 seconds or more: nothing to do for anybody
                assert not await two[0].deliver_line()
                assert not await two[1].deliver_line()
            scene.world.pass_time(31)
        assert (dead[0].failures, dead[0].error) == (10, "ConnectionError: broker is down")
        await drain(*two)
        # Event 3 is the alert, which goes to the bus like everything else.
        assert scene.bus.seen == [("r1", 2), ("r1", 3)]
        run_id, alert = scene.alerts[0]
        assert (run_id, alert.code, alert.subject) == ("r1", "EVENT_BUS_DELIVERY_FAILED", "kafka:1")
        # Put back, it fails ten times more: the log and the hook have its alert already.
        assert await scene.store.retry_dead("kafka", RunId("r1"), 1)
        for _ in range(10):
            await drain(*two)
            scene.world.pass_time(31)
        assert len(await scene.store.dead_letters()) == 1
        scene.bus.refused.clear()
        assert await scene.store.retry_dead("kafka", RunId("r1"), 1)
        await drain(*two)
        assert scene.bus.seen == [("r1", 2), ("r1", 3), ("r1", 1)]
        assert len(scene.alerts) == 1

    world = empty_world()
    world.run(scenario(Scene(world)))


# --- relays that die ------------------------------------------------------------------------------


class Killed(BaseException):
    """The relay's process is gone."""


class Life:
    """Ends before or after one of the things that a relay does to the world; which one is counted down."""

    def __init__(self, moments: int) -> None:
        self._moments = moments

    async def through(self, act: Callable[[], Awaitable[Any]]) -> Any:
        self._pass()
        answer = await act()
        self._pass()
        return answer

    def _pass(self) -> None:
        self._moments -= 1
        if self._moments == 0:
            raise Killed


class MortalOutbox:
    """The outbox as a relay with this life sees it."""

    def __init__(self, store: Store, life: Life) -> None:
        self._store = store
        self._life = life

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)
        return lambda *args, **kwargs: self._life.through(lambda: call(*args, **kwargs))


class MortalBus:
    """The bus as a relay with this life sees it; `before` happens while the relay publishes."""

    def __init__(self, bus: EventBus, life: Life, before: Callable[[], Awaitable[None]]) -> None:
        self.name = bus.name
        self._bus = bus
        self._life = life
        self._before = before

    async def publish(self, records: Sequence[EventRecord]) -> int:
        await self._before()
        count: int = await self._life.through(lambda: self._bus.publish(records))
        return count

    async def close(self) -> None:
        await self._bus.close()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_relay_killed_as_it_buries_an_event_leaves_no_dead_letter_without_its_alert(
    empty_world: EmptyWorld, moment: str
) -> None:
    class DiesAtTheGrave(MortalOutbox):
        async def failed(self, claim: Any, error: str, *, retry_in: Any) -> bool:
            if retry_in is None and moment == "before":
                raise Killed
            answer = await self._store.failed(claim, error, retry_in=retry_in)
            if retry_in is None:
                raise Killed
            return answer

    async def scenario(scene: Scene) -> None:
        await scene.store.add_bus("kafka")
        await started(scene.store)
        scene.bus.refused = {("r1", 1)}
        mortal: Any = DiesAtTheGrave(scene.store, Life(1000))
        for _ in range(9):
            await scene.relay(outbox=mortal).deliver_line()
            scene.world.pass_time(31)
        with pytest.raises(Killed):
            await scene.relay(outbox=mortal).deliver_line()
        scene.world.pass_time(31)
        await drain(scene.relay(scene.world.other))
        (dead,) = await scene.store.dead_letters()
        assert (dead.run_id, dead.run_seq, dead.failures) == ("r1", 1, 10)
        assert [(run_id, alert.subject) for run_id, alert in scene.alerts] == [("r1", "kafka:1")]
        log = await scene.store.read(RunId("r1"))
        assert [record.event_type for record in log] == ["RunQueued", "RunStarted", "AlertRaised"]
        assert scene.bus.seen == [("r1", 2), ("r1", 3)]

    world = empty_world()
    world.run(scenario(Scene(world)))


async def filled(store: Store, steps_of: dict[str, int]) -> dict[str, Lease]:
    """Runs with so many steps each, and who drives them."""
    leases = {}
    for run_id, steps in steps_of.items():
        lease = leases[run_id] = await started(store, run_id)
        writes = [event(run_id, "StepStarted", f"s{n}") for n in range(steps)]
        await store.append(RunId(run_id), writes, fence=lease.fence)
    return leases


@settings(
    max_examples=40,
    deadline=None,
    # Not made smaller: that takes minutes on PostgreSQL, and the examples are small.
    phases=(Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    steps=st.tuples(*[st.integers(0, 4)] * 3),
    refused=st.sets(st.tuples(st.sampled_from(["r1", "r2", "r3"]), st.integers(1, 6)), max_size=2),
    lives=st.lists(st.integers(1, 16), max_size=6),
    overtaken=st.sets(st.integers(1, 12), max_size=3),
)
def test_with_relays_killed_at_any_point_nothing_is_lost_and_first_deliveries_are_in_order(
    empty_world: EmptyWorld,
    steps: tuple[int, ...],
    refused: set[tuple[str, int]],
    lives: list[int],
    overtaken: set[int],
) -> None:
    """Relays die around claiming, publishing, removing and giving back, some events fail for a while, and some relays
    are so slow that another one takes over while they publish."""

    async def scenario(scene: Scene) -> None:
        await scene.store.add_bus("kafka")
        await filled(scene.store, dict(zip(("r1", "r2", "r3"), steps, strict=True)))
        scene.bus.refused = set(refused)
        published = 0

        async def perhaps_be_overtaken() -> None:
            nonlocal published
            published += 1
            if published in overtaken:
                scene.world.pass_time(31)
                await drain(scene.relay(scene.world.other))

        for number, moments in enumerate(lives):
            life = Life(moments)
            store = (scene.world.store, scene.world.other)[number % 2]
            mortal: Any = MortalOutbox(store, life)
            try:
                await drain(
                    scene.relay(outbox=mortal, bus=MortalBus(scene.bus, life, perhaps_be_overtaken)),
                    scene.relay(scene.world.other),
                )
            except Killed:
                scene.world.pass_time(31)
        scene.bus.refused.clear()
        scene.world.pass_time(31)
        await drain(scene.relay())
        assert first_deliveries(scene.bus.seen) == await log_of(scene.store, "r1", "r2", "r3")
        assert await scene.store.outbox_lines() == []

    world = empty_world()
    world.run(scenario(Scene(world)))


def test_two_relays_at_once_deliver_everything_in_order_while_it_is_being_appended(
    empty_world: EmptyWorld,
) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.store.add_bus("kafka")
        names = [f"r{number}" for number in range(8)]
        leases = await filled(scene.store, dict.fromkeys(names, 5))
        done = asyncio.Event()

        async def append() -> None:
            for number in range(15):
                for name, lease in leases.items():
                    write = event(name, "StepCompleted", f"s{number}")
                    await scene.store.append(RunId(name), [write], fence=lease.fence)
            done.set()

        async def relay(store: Store) -> int:
            lines = 0
            for _ in range(10_000):
                last = done.is_set()
                if await scene.relay(store).deliver_line():
                    lines += 1
                elif last:
                    return lines
                await asyncio.sleep(0)
            raise AssertionError("the relay never came to an end")

        _, *lines = await asyncio.gather(append(), relay(scene.world.store), relay(scene.world.other))
        assert min(lines) > 0
        assert first_deliveries(scene.bus.seen) == await log_of(scene.store, *names)
        assert await scene.store.outbox_lines() == []

    world = empty_world()
    world.run(scenario(Scene(world)))
