"""Which store this is."""

import re

from podium.testing.store_promises.world import World, started


class IdentityPromises:
    """Systems that several stores share distinguish them by it."""

    def test_a_store_has_an_id_that_every_process_sees_and_that_never_changes(self, world: World) -> None:
        async def scenario() -> None:
            first = await world.store.store_id()
            assert re.fullmatch("[0-9a-f]{32}", first)
            assert await world.other.store_id() == first
            await started(world.store)
            world.pass_time(86_400)
            await world.other.vacuum()
            assert await world.store.store_id() == first
            assert await world.other.store_id() == first
            assert await world.store.problems() == []

        world.run(scenario())
