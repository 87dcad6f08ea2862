"""What Conductor shows of a run that is paused and resumed faster than the server answers."""

import asyncio
from typing import Any, cast

import pytest

from podium.engines.conductor.mirroring import Mirror


class SlowServer:
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.answers = asyncio.Event()

    async def pause(self, _execution: str) -> None:
        self.calls.append("pause")
        await self.answers.wait()

    async def resume(self, _execution: str) -> None:
        self.calls.append("resume")
        await self.answers.wait()


@pytest.mark.rule("CN04", "G37")
def test_a_status_is_not_known_until_the_server_has_answered_also_if_it_is_wanted_back() -> None:
    async def test() -> None:
        server = SlowServer()
        mirror, is_true = Mirror(cast("Any", server), "e"), asyncio.Event()
        keeping = asyncio.create_task(mirror.keep_up(is_true.set))
        mirror.want(paused=True)
        while not server.calls:
            await asyncio.sleep(0)
        mirror.want(paused=False)  # the pause is on its way
        assert not mirror.is_true
        server.answers.set()
        await is_true.wait()
        assert (mirror.is_true, server.calls) == (True, ["pause", "resume"])
        keeping.cancel()

    asyncio.run(asyncio.wait_for(test(), 60))
