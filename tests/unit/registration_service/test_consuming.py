"""One topic: the next messages do not wait until a slow bus has committed the last ones."""

import asyncio
from collections.abc import Sequence

from podium.operations.registration.consuming import TopicConsumer
from podium.operations.registration.view import ServeView
from podium.ports.events_in import Incoming


def message(offset: int) -> Incoming:
    return Incoming(topic="t", partition=0, offset=offset, key=None, value=b"{}")


class SlowToCommit:
    """A source with a message at a time, whose commits wait for `answer`."""

    name = "slow"

    def __init__(self) -> None:
        self.received = 0
        self.answer = asyncio.Event()
        self.committed: list[int] = []

    async def open(self) -> None: ...

    async def receive(self, limit: int) -> Sequence[Incoming]:
        await asyncio.sleep(0)
        self.received += 1
        return [message(self.received)]

    async def commit(self, messages: Sequence[Incoming]) -> None:
        await self.answer.wait()
        self.committed += [one.offset for one in messages]

    async def lag(self) -> int | None:
        return None

    async def bury(self, message: Incoming, code: str) -> None: ...

    async def close(self) -> None: ...


def test_messages_are_handled_while_earlier_ones_are_committed_and_commits_stay_in_order() -> None:
    async def scenario() -> None:
        source, stopping, handled = SlowToCommit(), asyncio.Event(), list[int]()

        async def handle(messages: Sequence[Incoming]) -> None:
            handled.extend(one.offset for one in messages)
            if len(handled) == 2:
                assert source.committed == []
                source.answer.set()
            if len(handled) == 5:
                stopping.set()

        await TopicConsumer(source, handle, stopping, ServeView(), topic="t").run()
        assert handled == source.committed == [1, 2, 3, 4, 5]

    asyncio.run(asyncio.wait_for(scenario(), 30))
