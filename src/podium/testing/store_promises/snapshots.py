"""Snapshots of runs are stored beside their log."""

from podium.log.snapshots import AttemptSnapshot, RunSummary, StepSnapshot
from podium.log.transitions import RunStatus, StepStatus
from podium.testing.events import new_run
from podium.testing.store_promises.world import R1, World


class SnapshotPromises:
    def test_a_snapshot_comes_back_and_an_older_one_never_replaces_it(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("r1"), [])
            assert await world.store.load_summary(R1) is None
            newer = RunSummary(status=RunStatus.RUNNING, last_event_seq=9, step_count=2)
            await world.store.save_snapshot(R1, newer, [_step("a"), _step("b")])
            older = RunSummary(last_event_seq=3)
            await world.store.save_snapshot(R1, older, [_step("a", StepStatus.FAILED)])
            assert await world.other.load_summary(R1) == newer
            assert await world.other.load_steps(R1) == [_step("a"), _step("b")]
            await world.store.save_snapshot(
                R1, RunSummary(last_event_seq=10), [_step("b", StepStatus.FAILED), _step("c")]
            )
            steps = await world.other.load_steps(R1, after="a", limit=5)
            assert steps == [_step("b", StepStatus.FAILED), _step("c")]
            found = await world.other.find_steps(R1, ["c", "missing", "a"])
            assert sorted(step.step_id for step in found) == ["a", "c"]

        world.run(scenario())


def _step(name: str, status: StepStatus = StepStatus.SUCCESS) -> StepSnapshot:
    return StepSnapshot(name, AttemptSnapshot(1, status))
