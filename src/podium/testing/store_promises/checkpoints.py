"""The newest checkpoint of a run is kept beside its log."""

import pytest

from podium.errors import RunNotFound
from podium.log.checkpoints import Checkpoint
from podium.log.ids import RunId
from podium.testing.events import event, new_run
from podium.testing.store_promises.world import R1, World, started


class CheckpointPromises:
    def test_a_checkpoint_comes_back_byte_for_byte(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("r1"), [])
            assert await world.store.load_checkpoint(R1) is None
            saved = _checkpoint(7, bytes(range(256)) * 10_000)
            await world.store.save_checkpoint(R1, saved)
            assert await world.other.load_checkpoint(R1) == saved

        world.run(scenario())

    def test_a_newer_checkpoint_replaces_an_older_one_and_never_the_other_way(self, world: World) -> None:
        async def scenario() -> None:
            await world.store.create_run(new_run("r1"), [])
            older, newer = _checkpoint(7, b"older"), _checkpoint(9, b"newer")
            await world.store.save_checkpoint(R1, older)
            await world.store.save_checkpoint(R1, newer)
            await world.store.save_checkpoint(R1, older)
            assert await world.other.load_checkpoint(R1) == newer

        world.run(scenario())

    def test_checkpoints_of_two_runs_are_kept_apart(self, world: World) -> None:
        async def scenario() -> None:
            for name in ("r1", "r2"):
                await world.store.create_run(new_run(name), [])
                await world.store.save_checkpoint(RunId(name), _checkpoint(3, name.encode()))
            for name in ("r1", "r2"):
                found = await world.other.load_checkpoint(RunId(name))
                assert found is not None
                assert found.body == name.encode()

        world.run(scenario())

    def test_a_run_that_does_not_exist_has_no_checkpoint(self, world: World) -> None:
        async def scenario() -> None:
            with pytest.raises(RunNotFound):
                await world.store.load_checkpoint(RunId("missing"))
            with pytest.raises(RunNotFound):
                await world.store.save_checkpoint(RunId("missing"), _checkpoint(1, b""))

        world.run(scenario())

    def test_a_removed_run_takes_its_checkpoint_along(self, world: World) -> None:
        async def scenario() -> None:
            lease = await started(world.store)
            await world.store.append(R1, [event("r1", "RunCompleted")], fence=lease.fence)
            await world.store.save_checkpoint(R1, _checkpoint(3, b"body"))
            await world.store.prune(R1)
            with pytest.raises(RunNotFound):
                await world.other.load_checkpoint(R1)
            assert await world.other.problems() == []

        world.run(scenario())


def _checkpoint(run_seq: int, body: bytes) -> Checkpoint:
    return Checkpoint(run_seq, "0.1.0/1", 3, "ab" * 32, b"\x00\xff" * 16, body)
