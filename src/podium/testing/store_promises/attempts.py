"""An attempt is given to one worker at a time, together with the events that precede it."""

from datetime import timedelta

import pytest

from podium.errors import LogMoved, RunNotFound, StaleFence
from podium.log.ids import RunId
from podium.log.leases import IN_LINE, AttemptClaim, Fence, HeldLease, WakeUp
from podium.ports.store import StartedAttempt
from podium.testing.events import event, new_run
from podium.testing.store_promises.world import R1, TTL, World, started, types_in

_DUE = "2020-01-01T00:00:00.000000Z"


def _claim(owner: str = "worker", step: str = "a", attempt: int = 1, ttl: timedelta = TTL) -> AttemptClaim:
    return AttemptClaim(step_id=step, logical_attempt_id=attempt, owner=owner, ttl=ttl)


class AttemptPromises:
    """Which worker executes an attempt."""

    def test_an_attempt_starts_with_its_events_and_its_lease(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            writes = [event("r1", "StepSkipped", "z"), event("r1", "StepStarted", "a")]
            mine = await world.store.start_attempt(R1, writes, fence=lease.fence, claim=_claim())
            assert [one.record.run_seq for one in mine.events] == [3, 4]
            assert (mine.end, mine.holder) == (None, None)
            assert mine.lease is not None
            assert (mine.lease.owner, mine.lease.fence) == ("worker", Fence(1, "a|1"))
            end = event("r1", "StepCompleted", "a")
            await world.other.append(R1, [end], fence=mine.lease.fence)
            assert await types_in(world.other) == [
                *("RunQueued", "RunStarted", "StepSkipped", "StepStarted", "StepCompleted")
            ]

        world.run(scenario())

    def test_no_attempt_starts_while_the_run_is_paused(self, world: World) -> None:
        """It was ordered before the pause, and its worker was slow."""

        async def scenario() -> None:
            lease = await started(world.store)
            at_work = [event("r1", "StepStarted", "a")]
            await world.store.start_attempt(R1, at_work, fence=lease.fence, claim=_claim())
            await world.store.append(R1, [event("r1", "RunPaused")], fence=lease.fence)
            late = [event("r1", "StepSkipped", "z"), event("r1", "StepStarted", "b")]
            refused = await world.other.start_attempt(R1, late, fence=lease.fence, claim=_claim(step="b"))
            assert refused == StartedAttempt((), is_paused=True)
            assert (await types_in(world.store))[-1] == "RunPaused"
            # An attempt that had started before the pause continues, even with another worker.
            again = await world.other.start_attempt(R1, at_work, fence=lease.fence, claim=_claim())
            assert again.lease is not None
            # With the decision to resume, or after it, the attempt starts.
            resume = [event("r1", "RunResumed"), *late]
            resumed = await world.other.start_attempt(R1, resume, fence=lease.fence, claim=_claim(step="b"))
            assert resumed.lease is not None
            then = [event("r1", "StepStarted", "c")]
            assert (
                await world.store.start_attempt(R1, then, fence=lease.fence, claim=_claim(step="c"))
            ).lease is not None

        world.run(scenario())

    def test_an_attempt_starts_together_with_the_end_of_the_pause(self, world: World) -> None:
        """Its worker records what was decided before it, RunResumed included."""

        async def scenario() -> None:
            lease = await started(world.store)
            await world.store.append(R1, [event("r1", "RunPaused")], fence=lease.fence)
            writes = [event("r1", "RunResumed"), event("r1", "StepStarted", "a")]
            resumed = await world.other.start_attempt(R1, writes, fence=lease.fence, claim=_claim())
            assert (resumed.lease is not None, resumed.is_paused) == (True, False)
            assert (await types_in(world.store))[-2:] == ["RunResumed", "StepStarted"]

        world.run(scenario())

    def test_an_attempt_that_another_worker_holds_is_not_given_away(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            start = [event("r1", "StepStarted", "a")]
            first = await world.store.start_attempt(R1, start, fence=lease.fence, claim=_claim("a"))
            second = await world.other.start_attempt(R1, start, fence=lease.fence, claim=_claim("b"))
            assert second.events[0].duplicate
            assert (second.lease, second.end) == (None, None)
            assert first.lease is not None
            assert second.holder is not None
            assert (second.holder.owner, second.holder.fence) == ("a", first.lease.fence)
            # Another attempt of the step, and another step, are independent.
            for claim in (_claim("b", "a", 2), _claim("b", "b", 1)):
                assert (
                    await world.other.start_attempt(R1, [], fence=lease.fence, claim=claim)
                ).lease is not None
            # The lease that was observed is sufficient to release it.
            await world.other.release(second.holder)
            third = await world.other.start_attempt(R1, [], fence=lease.fence, claim=_claim("b"))
            assert third.lease is not None
            assert third.lease.fence.generation == 2

        world.run(scenario())

    def test_the_worker_whose_attempt_was_taken_over_is_fenced_off(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            start = [event("r1", "StepStarted", "a")]
            old = await world.store.start_attempt(
                R1, start, fence=lease.fence, claim=_claim("a", ttl=TTL / 2)
            )
            assert old.lease is not None
            world.pass_time(16)
            new = await world.other.start_attempt(R1, start, fence=lease.fence, claim=_claim("b"))
            assert new.lease is not None
            assert new.lease.fence.generation == 2
            with pytest.raises(StaleFence):
                await world.store.append(R1, [event("r1", "StepFailed", "a")], fence=old.lease.fence)
            await world.other.append(R1, [event("r1", "StepCompleted", "a")], fence=new.lease.fence)

        world.run(scenario())

    def test_a_worker_that_starts_an_attempt_again_gets_the_next_generation(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            start = [event("r1", "StepStarted", "a")]
            first = await world.store.start_attempt(R1, start, fence=lease.fence, claim=_claim())
            second = await world.store.start_attempt(R1, start, fence=lease.fence, claim=_claim())
            assert first.lease is not None
            assert second.lease is not None
            assert second.lease.fence.generation == first.lease.fence.generation + 1
            with pytest.raises(StaleFence):
                await world.store.append(R1, [event("r1", "StepFailed", "a")], fence=first.lease.fence)

        world.run(scenario())

    @pytest.mark.parametrize("kind", ["StepCompleted", "StepFailed", "StepInterrupted", "StepSkipped"])
    def test_an_attempt_that_has_ended_is_answered_with_its_end(self, world: World, kind: str) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            start = [event("r1", "StepStarted", "a")]
            mine = await world.store.start_attempt(R1, start, fence=lease.fence, claim=_claim())
            assert mine.lease is not None
            await world.store.append(R1, [event("r1", kind, "a")], fence=mine.lease.fence)
            again = await world.other.start_attempt(R1, start, fence=lease.fence, claim=_claim("b"))
            assert again.end is not None
            assert (again.end.event_type, again.end.run_seq) == (kind, 4)
            assert (again.lease, again.holder) == (None, None)
            assert again.events[0].record.run_seq == mine.events[0].record.run_seq == 3
            # Even when the run is over, and for any caller.
            await world.store.append(R1, [event("r1", "RunCompleted")], fence=lease.fence)
            late = await world.other.start_attempt(R1, start, fence=lease.fence, claim=_claim("b"))
            assert late.end == again.end
            dropped = await world.other.start_attempt(
                R1, [], fence=lease.fence, claim=_claim("b"), drop_wake_ups=["x"]
            )
            assert dropped.end == again.end

        world.run(scenario())

    def test_no_attempt_starts_without_the_lease_of_its_run(self, world: World) -> None:
        async def scenario() -> None:
            with pytest.raises(RunNotFound):
                await world.store.start_attempt(R1, [], fence=Fence(1), claim=_claim())
            lease = await started(world.store)
            start = [event("r1", "StepStarted", "a")]
            await world.store.append(R1, start, fence=lease.fence)
            for writes in (start, [], [event("r1", "StepStarted", "b")]):
                with pytest.raises(StaleFence):
                    await world.store.start_attempt(R1, writes, fence=Fence(9), claim=_claim())
            assert await types_in(world.other) == ["RunQueued", "RunStarted", "StepStarted"]
            mine = await world.store.start_attempt(R1, start, fence=lease.fence, claim=_claim())
            assert mine.lease is not None
            assert mine.lease.fence.generation == 1

        world.run(scenario())

    def test_wake_ups_change_together_with_the_start_of_an_attempt(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            wake_ups = [WakeUp(run_id=R1, key=key, due=_DUE) for key in ("one", "two")]
            await world.store.append(
                R1, [event("r1", "StepSkipped", "z")], fence=lease.fence, set_wake_ups=wake_ups[:1]
            )
            await world.store.start_attempt(
                R1,
                [event("r1", "StepStarted", "a")],
                fence=lease.fence,
                claim=_claim(),
                set_wake_ups=wake_ups[1:],
                drop_wake_ups=["one"],
            )
            assert [one.key for one in await world.other.due("2030-01-01T00:00:00.000000Z")] == ["two"]

        world.run(scenario())

    @pytest.mark.parametrize("kind", ["StepCompleted", "StepFailed", "StepInterrupted"])
    def test_an_attempt_that_a_worker_holds_is_ended_under_its_lease_only(
        self, world: World, kind: str
    ) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            start = [event("r1", "StepStarted", "a"), event("r1", "StepStarted", "b")]
            mine = await world.store.start_attempt(R1, start, fence=lease.fence, claim=_claim())
            assert mine.lease is not None
            end, of_b = event("r1", kind, "a"), event("r1", "StepFailed", "b")
            for writes in ([end], [of_b, end], [end, of_b]):
                for after in (None, 4):
                    with pytest.raises(StaleFence):
                        await world.other.append(R1, writes, fence=lease.fence, after=after)
            with pytest.raises(StaleFence):
                await world.other.start_attempt(R1, [end], fence=lease.fence, claim=_claim(step="b"))
            # Other decisions of the run are recorded: another attempt of the step, the end of another step.
            others = [of_b, event("r1", kind, "a", 2), event("r1", "StepStarted", "a", 3)]
            await world.other.append(R1, others, fence=lease.fence, after=4)
            # A driver that has missed something is notified of that first.
            with pytest.raises(LogMoved):
                await world.other.append(R1, [end], fence=lease.fence, after=4)
            await world.store.append(R1, [event("r1", "StepCompleted", "a")], fence=mine.lease.fence)
            # Later it is a duplicate, for every caller.
            (again,) = await world.other.append(R1, [event("r1", "StepCompleted", "a")], fence=lease.fence)
            assert again.duplicate

        world.run(scenario())

    @pytest.mark.parametrize("how", ["released", "lapsed"])
    def test_an_attempt_that_no_worker_holds_is_ended_under_the_lease_of_the_run(
        self, world: World, how: str
    ) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            lease = await world.store.renew(lease, ttl=None) or lease
            start = [event("r1", "StepStarted", "a")]
            mine = await world.store.start_attempt(R1, start, fence=lease.fence, claim=_claim())
            assert mine.lease is not None
            if how == "released":
                await world.store.release(mine.lease)
            else:
                world.pass_time(31)
            await world.other.append(R1, [event("r1", "StepFailed", "a")], fence=lease.fence)
            late = event("r1", "StepCompleted", "a")
            (answer,) = await world.store.append(R1, [late], fence=mine.lease.fence)
            assert (answer.record.event_type, answer.duplicate) == ("StepFailed", True)

        world.run(scenario())

    def test_others_see_which_attempts_of_a_run_are_held(self, world: World) -> None:
        async def scenario() -> None:
            with pytest.raises(RunNotFound):
                await world.store.held_attempts(R1)
            await world.store.create_run(new_run("r1"), [])
            assert await world.other.held_attempts(R1) == []
            lease = await world.store.claim(R1, owner="driver", ttl=None)
            assert lease is not None
            assert await world.store.claim(R1, owner="driver", ttl=None, attempt=IN_LINE) is not None
            assert await world.other.held_attempts(R1) == []
            claims = (_claim("w", "b"), _claim("v", "a", 2), _claim("v", "a"), _claim("u", "c", ttl=TTL / 2))
            leases = [
                (await world.store.start_attempt(R1, [], fence=lease.fence, claim=claim)).lease
                for claim in claims
            ]
            await started(world.store, "r2")
            assert await world.store.claim(RunId("r2"), owner="w", ttl=TTL, attempt="a|9") is not None
            held = await world.other.held_attempts(R1)
            assert [(one.lease.fence.attempt, one.lease.owner, one.is_live) for one in held] == [
                *(("a|1", "v", True), ("a|2", "v", True), ("b|1", "w", True), ("c|1", "u", True))
            ]
            assert [one.lease.fence for one in held] == [
                Fence(1, name) for name in ("a|1", "a|2", "b|1", "c|1")
            ]
            # One is released, one lapses. The lease that was observed is sufficient to release another.
            assert leases[0] is not None
            await world.store.release(leases[0])
            world.pass_time(16)
            left: list[HeldLease] = await world.other.held_attempts(R1)
            assert [one.lease.fence.attempt for one in left] == ["a|1", "a|2"]
            await world.other.release(left[0].lease)
            assert [one.lease.fence.attempt for one in await world.store.held_attempts(R1)] == ["a|2"]
            await world.store.append(R1, [event("r1", "RunFailed")], fence=lease.fence)
            assert await world.other.held_attempts(R1) == []

        world.run(scenario())
