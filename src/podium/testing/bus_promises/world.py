"""A bus to be tested, with topics that nothing else uses."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

import msgspec

from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.ports.bus import MessageBus
from podium.ports.events_in import EventSource, Incoming
from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock
from podium.testing.events import event, new_run

_MAX_TRIES: Final = 400


class BusWorld(msgspec.Struct):
    # A bus whose events are sent to this topic; None: only what steps publish is delivered.
    make_bus: Callable[[str | None], MessageBus]
    # A member of a group for a topic.
    make_source: Callable[[str, str], EventSource]
    # Creates topics; called before anything is sent to them.
    create: Callable[[Sequence[str]], Coroutine[Any, Any, None]]
    # A message of another program: topic, key, value, headers.
    put: Callable[[str, bytes | None, bytes, Sequence[tuple[str, bytes]]], Coroutine[Any, Any, None]]
    # Makes the names of topics unique.
    prefix: str = ""

    def topic(self, name: str) -> str:
        return f"{self.prefix}{name}"

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        asyncio.run(asyncio.wait_for(scenario, 100))

    async def received(self, topic: str, count: int, *, group: str = "reader") -> list[Incoming]:
        """The first messages of a topic, as a group of its own gets them."""
        source = self.make_source(topic, group)
        await source.open()
        try:
            return await taken(source, count)
        finally:
            await source.close()


async def taken(source: EventSource, count: int, *, limit: int = 100) -> list[Incoming]:
    found: list[Incoming] = []
    for _ in range(_MAX_TRIES):
        if len(found) >= count:
            return found
        found += await source.receive(min(limit, count - len(found)))
    raise AssertionError(f"{len(found)} of {count} messages came")


async def records(*messages: dict[str, Any], run_id: str = "r1") -> list[EventRecord]:
    """A run whose step publishes these messages."""
    store = MemoryStore(VirtualClock())
    writes = [
        event(run_id, "RunQueued"),
        event(run_id, "StepStarted", "a"),
        event(run_id, "StepCompleted", "a", publishes=list(messages)),
        event(run_id, "StepFailed", "b", publishes=list(messages)),
    ]
    await store.create_run(new_run(run_id), writes)
    return await store.read(RunId(run_id))


def message(topic: str, body: object, key: str | None = None) -> dict[str, Any]:
    return {"topic": topic, "key": key, "type": "tested", "body": body}
