"""Events on their way to buses."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from podium.errors import BusFilterConflict
from podium.log.ids import RunId
from podium.log.outbox import bus_filter
from podium.ports.store import Store
from podium.testing.events import event
from podium.testing.store_promises.world import R1, TTL, World, started


class OutboxPromises:
    """Every event reaches every bus at least once, in the order of its run."""

    def test_without_a_bus_nothing_waits(self, world: World) -> None:
        async def scenario() -> None:
            await started(world.store)
            assert await world.store.outbox_lines() == []
            assert await world.store.claim_line("kafka", owner="relay", ttl=TTL) is None

        world.run(scenario())

    def test_a_bus_says_whether_events_wait(self, world: World) -> None:
        async def scenario() -> None:
            assert not await world.store.has_waiting("kafka")
            await world.store.add_bus("kafka")
            assert not await world.store.has_waiting("kafka")
            await started(world.store)
            await world.store.add_bus("added later")
            assert await world.other.has_waiting("kafka")
            assert not await world.other.has_waiting("added later")
            claim = await world.store.claim_line("kafka", owner="relay", ttl=TTL)
            assert claim is not None
            assert await world.other.has_waiting("kafka")
            assert await world.store.failed(claim, "refused", retry_in=None)
            assert await world.other.has_waiting("kafka")
            claim = await world.store.claim_line("kafka", owner="relay", ttl=TTL)
            assert claim is not None
            assert await world.store.delivered(claim, 2)
            assert len(await world.other.dead_letters("kafka")) == 1
            assert not await world.other.has_waiting("kafka")

        world.run(scenario())

    def test_a_new_bus_starts_now_or_from_the_start(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            await world.store.add_bus("new")
            await world.store.add_bus("all", from_start=True)
            await world.store.add_bus("all")  # adding it again changes nothing
            await world.store.append(R1, [event("r1", "StepStarted", "a")], fence=lease.fence)
            assert await _waiting(world.other, "new") == [3]
            assert await _waiting(world.other, "all") == [1, 2, 3]

        world.run(scenario())

    def test_a_line_is_held_by_one_relay_and_what_was_delivered_is_gone(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_bus("kafka")
            await started(world.store, "r1")
            await started(world.store, "r2")
            first = await world.store.claim_line("kafka", owner="relay1", ttl=TTL)
            second = await world.other.claim_line("kafka", owner="relay2", ttl=TTL)
            assert first is not None
            assert second is not None
            assert {first.run_id, second.run_id} == {"r1", "r2"}
            assert await world.store.claim_line("kafka", owner="relay3", ttl=TTL) is None
            assert [record.run_seq for record in first.records] == [1, 2]
            assert await world.store.delivered(first, 1)
            assert await world.other.delivered(second, 2)
            rest = await world.store.claim_line("kafka", owner="relay1", ttl=TTL)
            assert rest is not None
            assert (rest.run_id, [record.run_seq for record in rest.records]) == (first.run_id, [2])

        world.run(scenario())

    def test_a_busy_run_does_not_keep_the_others_from_being_delivered(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_bus("kafka")
            lease = await started(world.store, "busy")
            await started(world.store, "quiet")
            served = []
            for number in range(3):
                claim = await world.store.claim_line("kafka", owner="relay", ttl=TTL)
                assert claim is not None
                served.append(claim.run_id)
                await world.store.delivered(claim, claim.records[-1].run_seq)
                await world.store.append(
                    RunId("busy"), [event("busy", "StepStarted", f"s{number}")], fence=lease.fence
                )
            assert served == ["busy", "quiet", "busy"]

        world.run(scenario())

    def test_a_relay_that_lost_its_claim_changes_nothing(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_bus("kafka")
            await started(world.store)
            lost = await world.store.claim_line("kafka", owner="slow", ttl=TTL)
            assert lost is not None
            world.pass_time(31)
            taken = await world.other.claim_line("kafka", owner="quick", ttl=TTL)
            assert taken is not None
            assert not await world.store.delivered(lost, 2)
            assert not await world.store.failed(lost, "late", retry_in=None)
            assert [record.run_seq for record in taken.records] == [1, 2]
            assert await world.other.delivered(taken, 2)
            assert await world.store.outbox_lines() == []

        world.run(scenario())

    def test_a_failure_holds_its_line_for_a_while_and_no_other(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_bus("kafka")
            await started(world.store, "r1")
            claim = await world.store.claim_line("kafka", owner="relay", ttl=TTL)
            assert claim is not None
            assert claim.failures == 0
            assert await world.store.failed(claim, "broker is down", retry_in=timedelta(seconds=5))
            assert await world.store.claim_line("kafka", owner="relay", ttl=TTL) is None
            await started(world.store, "r2")
            other = await world.store.claim_line("kafka", owner="relay", ttl=TTL)
            assert other is not None
            assert other.run_id == "r2"
            line = next(line for line in await world.other.outbox_lines("kafka") if line.run_id == "r1")
            assert (line.waiting, line.first_seq, line.failures, line.error) == (2, 1, 1, "broker is down")
            world.pass_time(6)
            again = await world.store.claim_line("kafka", owner="relay", ttl=TTL)
            assert again is not None
            assert (again.run_id, again.failures) == ("r1", 1)

        world.run(scenario())

    def test_a_dead_letter_is_kept_apart_and_its_line_goes_on(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_bus("kafka")
            await started(world.store)
            claim = await world.store.claim_line("kafka", owner="relay", ttl=TTL)
            assert claim is not None
            assert await world.store.failed(claim, "refused", retry_in=None)
            dead = await world.other.dead_letters("kafka")
            assert [(one.run_id, one.run_seq, one.event_type, one.error) for one in dead] == [
                ("r1", 1, "RunQueued", "refused")
            ]
            assert await _waiting(world.store, "kafka") == [2]
            assert await world.store.retry_dead("kafka", R1, 1)
            assert not await world.store.retry_dead("kafka", R1, 1)
            assert await world.store.dead_letters() == []
            world.pass_time(31)
            assert await _waiting(world.store, "kafka") == [1, 2]

        world.run(scenario())

    def test_a_dead_letter_can_be_dropped_and_a_bus_removed(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_bus("kafka")
            await started(world.store)
            claim = await world.store.claim_line("kafka", owner="relay", ttl=TTL)
            assert claim is not None
            await world.store.failed(claim, "refused", retry_in=None)
            assert await world.store.drop_dead("kafka", R1, 1)
            assert not await world.store.drop_dead("kafka", R1, 1)
            await world.store.remove_bus("kafka")
            assert await world.store.outbox_lines() == []
            assert await world.store.claim_line("kafka", owner="relay", ttl=TTL) is None

        world.run(scenario())

    def test_duplicates_are_not_delivered_again(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_bus("kafka")
            lease = await started(world.store)
            for _ in range(3):
                await world.store.append(R1, [event("r1", "RunStarted")], fence=lease.fence)
            assert await _waiting(world.store, "kafka") == [1, 2]

        world.run(scenario())

    def test_a_bus_with_a_filter_gets_only_the_events_that_it_wants(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_bus("types", only=bus_filter(("RunStarted", "RunCompleted")))
            await world.store.add_bus("plans", only=bus_filter(plans=("other",)))
            await world.store.add_bus("messages", only=bus_filter(messages_only=True))
            await world.store.add_bus("tenants", only=bus_filter(tenants=("other",)))
            await world.store.add_bus("own", only=bus_filter(("RunStarted",), tenants=("default", "other")))
            await world.store.add_bus("all")
            await _published(world.store)
            for bus, seqs in (
                ("types", [2, 5]),
                ("plans", []),
                ("messages", [4]),
                ("tenants", []),
                ("own", [2]),
                ("all", [1, 2, 3, 4, 5]),
            ):
                assert await _waiting(world.store, bus) == seqs, bus
            found = {line.bus for line in await world.store.outbox_lines()}
            assert found == {"types", "messages", "own", "all"}
            assert await world.store.problems() == []

        world.run(scenario())

    def test_a_bus_with_a_filter_gets_only_the_earlier_events_that_it_wants(self, world: World) -> None:
        async def scenario() -> None:
            await _published(world.store)
            only = bus_filter(("RunStarted", "RunCompleted"), plans=("nightly",))
            await world.store.add_bus("types", from_start=True, only=only)
            await world.store.add_bus("plans", from_start=True, only=bus_filter(plans=("other",)))
            await world.store.add_bus("messages", from_start=True, only=bus_filter(messages_only=True))
            await world.store.add_bus("tenants", from_start=True, only=bus_filter(tenants=("other",)))
            await world.store.add_bus("own", from_start=True, only=bus_filter(tenants=("default",)))
            for bus, seqs in (
                ("types", [2, 5]),
                ("plans", []),
                ("messages", [4]),
                ("tenants", []),
                ("own", [1, 2, 3, 4, 5]),
            ):
                assert await _waiting(world.store, bus) == seqs, bus
            assert await world.store.problems() == []

        world.run(scenario())

    def test_events_that_no_bus_wants_do_not_keep_a_run_from_being_pruned(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.add_bus("plans", only=bus_filter(plans=("other",)))
            await _published(world.store)
            await world.store.prune(R1)

        world.run(scenario())

    def test_the_filter_of_a_bus_does_not_change(self, world: World) -> None:
        async def scenario() -> None:
            only = bus_filter(("RunStarted",))
            await world.store.add_bus("kafka", only=only)
            await world.other.add_bus("kafka", only=only)
            await world.other.add_bus("kafka")
            for another in (
                bus_filter(),
                bus_filter(("RunFailed",)),
                bus_filter(("RunStarted",), ("other",)),
            ):
                with pytest.raises(BusFilterConflict):
                    await world.other.add_bus("kafka", only=another)
            await _published(world.other)
            assert await _waiting(world.store, "kafka") == [2]
            await world.store.remove_bus("kafka")
            await world.store.add_bus("kafka", only=bus_filter(("RunFailed",)))

        world.run(scenario())


async def _waiting(store: Store, bus: str) -> Sequence[int]:
    claim = await store.claim_line(bus, owner="looking", ttl=timedelta(seconds=0))
    return [record.run_seq for record in claim.records] if claim is not None else []


async def _published(store: Store) -> None:
    """A run of five events; the fourth has a message for another topic."""
    lease = await started(store)
    message: dict[str, Any] = {"topic": "orders", "key": None, "type": "order", "body": {}}
    writes = [
        event("r1", "StepCompleted", "quoted", output='"publishes": [1]'),
        event("r1", "StepCompleted", "published", publishes=[message]),
        event("r1", "RunCompleted"),
    ]
    await store.append(R1, writes, fence=lease.fence)
