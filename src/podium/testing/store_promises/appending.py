"""What an append stores, and what it answers."""

import pytest

from podium.errors import InvalidEvent, LogMoved
from podium.log.events import EventRecord
from podium.log.transitions import RunStatus
from podium.testing.events import event, identity, new_run
from podium.testing.store_promises.world import R1, TTL, World, started, types_in


class AppendingPromises:
    """Events are stored once, in order, all or none."""

    def test_events_get_rising_numbers_in_the_order_of_the_append(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            writes = [event("r1", "StepStarted", f"s{n}") for n in range(5)]
            appended = await world.store.append(R1, writes, fence=lease.fence)
            assert [one.record.run_seq for one in appended] == [3, 4, 5, 6, 7]
            assert [one.record.step_id for one in appended] == ["s0", "s1", "s2", "s3", "s4"]
            assert await world.other.read(R1, after=2) == [one.record for one in appended]
            assert (await world.store.get_run(R1)).head == 7

        world.run(scenario())

    def test_a_record_says_everything_its_write_said(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            write = event(
                "r1", "StepFailed", "Prüfe Größe[2]/Bau 🏗", 7, engine_attempt=3, error={"code": "E"}
            )
            await world.store.append(R1, [write], fence=lease.fence)
            record = (await world.other.read(R1, after=2))[0]
            assert record == EventRecord(
                identity("r1"),
                3,
                write.event_id,
                "StepFailed",
                "Prüfe Größe[2]/Bau 🏗",
                7,
                3,
                write.idempotency_key,
                write.emitted_at,
                record.persisted_at,
                b'{"error":{"code":"E"}}',
            )
            assert record.persisted_at.endswith("Z")

        world.run(scenario())

    def test_a_repeated_event_is_answered_and_not_stored(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            write = event("r1", "StepStarted", "a")
            first = await world.store.append(R1, [write], fence=lease.fence)
            second = await world.other.append(R1, [write], fence=lease.fence)
            assert (first[0].duplicate, second[0].duplicate, second[0].differs) == (False, True, False)
            assert first[0].record == second[0].record
            assert (await world.store.get_run(R1)).head == 3

        world.run(scenario())

    def test_a_repeated_event_that_says_something_else_changes_nothing_and_is_told(
        self, world: World
    ) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            first = await world.store.append(
                R1, [event("r1", "StepCompleted", "a", exit=0)], fence=lease.fence
            )
            other = await world.store.append(
                R1, [event("r1", "StepCompleted", "a", exit=1)], fence=lease.fence
            )
            assert (other[0].duplicate, other[0].differs) == (True, True)
            assert other[0].record == first[0].record

        world.run(scenario())

    @pytest.mark.parametrize("first", ["StepCompleted", "StepFailed", "StepSkipped", "StepInterrupted"])
    @pytest.mark.parametrize("second", ["StepCompleted", "StepFailed", "StepSkipped", "StepInterrupted"])
    def test_an_attempt_has_one_end_and_the_second_is_answered_with_it(
        self, world: World, first: str, second: str
    ) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            end = await world.store.append(R1, [event("r1", first, "a", 2, n=1)], fence=lease.fence)
            attempt = await world.store.claim(R1, owner="worker", ttl=TTL, attempt="a|2")
            assert attempt is not None
            # Another attempt, another step, and an event that is not an end do not conflict with it.
            beside = [
                event("r1", second, "a", 1),
                event("r1", second, "b", 2),
                event("r1", "StepStarted", "a", 2),
            ]
            await world.store.append(R1, beside, fence=lease.fence)
            before = await world.store.read(R1)
            again = await world.other.append(R1, [event("r1", second, "a", 2, n=2)], fence=attempt.fence)
            if (first, second) == ("StepFailed", "StepInterrupted"):
                # What was stopped has failed, and whether it had taken effect by then is in doubt.
                assert not again[0].duplicate
                return
            assert (again[0].record, again[0].duplicate, again[0].differs) == (end[0].record, True, True)
            assert await world.other.read(R1) == before

        world.run(scenario())

    def test_of_a_batch_the_second_end_of_an_attempt_is_left_out(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            end = await world.store.append(R1, [event("r1", "StepFailed", "a")], fence=lease.fence)
            others = [event("r1", "StepStarted", f"s{n}") for n in range(20)]
            batch = [*others, event("r1", "StepCompleted", "a"), event("r1", "StepCompleted", "s3")]
            appended = await world.store.append(R1, batch, fence=lease.fence)
            assert [one.duplicate for one in appended] == [False] * 20 + [True, False]
            assert appended[20].record == end[0].record
            assert len(await world.other.read(R1)) == 2 + 1 + 21

        world.run(scenario())

    def test_a_batch_that_ends_an_attempt_twice_is_refused(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            twice = [event("r1", "StepFailed", "a"), event("r1", "StepCompleted", "a")]
            with pytest.raises(InvalidEvent):
                await world.store.append(R1, twice, fence=lease.fence)
            assert len(await world.other.read(R1)) == 2
            doubt = [event("r1", "StepFailed", "a"), event("r1", "StepInterrupted", "a")]
            assert len(await world.store.append(R1, doubt, fence=lease.fence)) == 2

        world.run(scenario())

    def test_a_log_that_comes_from_elsewhere_is_kept_as_it_is(self, world: World) -> None:
        """Older versions could record two ends; what was recorded is recorded."""

        async def scenario() -> None:
            log = [event("r1", kind, "a") for kind in ("StepStarted", "StepFailed", "StepCompleted")]
            await world.store.create_run(new_run("r1"), [event("r1", "RunQueued"), *log])
            assert await types_in(world.other) == ["RunQueued", "StepStarted", "StepFailed", "StepCompleted"]

        world.run(scenario())

    def test_of_a_batch_only_what_is_new_is_stored(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            a, b, c = (event("r1", "StepStarted", name) for name in "abc")
            await world.store.append(R1, [b], fence=lease.fence)
            appended = await world.store.append(R1, [a, b, c, a], fence=lease.fence)
            assert [(one.record.run_seq, one.duplicate) for one in appended] == [
                (4, False),
                (3, True),
                (5, False),
                (4, False),
            ]
            assert len(await world.store.read(R1)) == 5

        world.run(scenario())

    def test_a_thousand_repetitions_change_nothing(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            before = await world.store.read(R1), await world.store.get_run(R1)
            for _ in range(1000):
                await world.store.append(R1, [event("r1", "RunStarted")], fence=lease.fence)
            assert (await world.store.read(R1), await world.store.get_run(R1)) == before

        world.run(scenario())

    def test_types_nobody_knows_are_kept(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            await world.store.append(R1, [event("r1", "MoonRose")], fence=lease.fence)
            assert await types_in(world.other) == ["RunQueued", "RunStarted", "MoonRose"]
            assert (await world.store.get_run(R1)).status is RunStatus.RUNNING

        world.run(scenario())

    def test_the_status_follows_the_events_and_forbidden_ones_change_nothing(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)

            async def after(event_type: str, attempt: int = 1) -> str:
                await world.store.append(R1, [event("r1", event_type, attempt=attempt)], fence=lease.fence)
                return (await world.other.get_run(R1)).status

            assert await after("RunPaused") == "PAUSED"
            assert await after("RunCompleted", 9) == "PAUSED"
            assert await after("RunResumed") == "RUNNING"
            assert await after("RunPaused", 2) == "PAUSED"
            assert await after("RunCancelled") == "CANCELLED"

        world.run(scenario())

    def test_a_driver_that_missed_something_is_told_what(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            signal = event("r1", "SignalAccepted", subject="sig-1")
            await world.other.append(R1, [signal])
            with pytest.raises(LogMoved) as moved:
                await world.store.append(R1, [event("r1", "RunCompleted")], fence=lease.fence, after=2)
            assert [record.event_type for record in moved.value.missed] == ["SignalAccepted"]  # type: ignore[attr-defined]
            assert (await world.store.get_run(R1)).status is RunStatus.RUNNING
            await world.store.append(R1, [event("r1", "RunCompleted")], fence=lease.fence, after=3)
            assert (await world.store.get_run(R1)).status is RunStatus.COMPLETED

        world.run(scenario())
