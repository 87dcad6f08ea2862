"""Every promise of a bus is noticed when it is broken."""

from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from podium.buses.memory import MemoryBus, MemorySource, MemoryTopics
from podium.log.events import EventRecord
from podium.log.messages import Message, message_id
from podium.ports.events_in import Incoming
from podium.testing.bus_promises import BusPromises, BusWorld
from tests.promises.buses.worlds import memory_world


class ReversedBus(MemoryBus):
    async def publish(self, records: Sequence[EventRecord]) -> int:
        return await super().publish(list(reversed(records)))


class FailedStepsPublish(MemoryBus):
    async def publish(self, records: Sequence[EventRecord]) -> int:
        return await super().publish(
            [
                replace(one, event_type="StepCompleted") if one.event_type == "StepFailed" else one
                for one in records
            ]
        )


class _Changed(MemoryTopics):
    """Messages that were changed on their way."""

    def changed_message(self, message: Message) -> Message | None:
        raise NotImplementedError

    def add(self, message: Message) -> None:
        changed = self.changed_message(message)
        if changed is not None:
            super().add(changed)


class NewIds(_Changed):
    def changed_message(self, message: Message) -> Message:
        fresh = message_id("0" * 64, sum(map(len, self.topics.values())))
        return replace(message, headers=(*message.headers, ("event_id", fresh)))


class EverySeventhLost(_Changed):
    count = 0

    def changed_message(self, message: Message) -> Message | None:
        self.count += 1
        return message if self.count % 7 else None


class WithoutForeignHeaders(MemoryTopics):
    def put(
        self, topic: str, key: bytes | None, value: bytes, headers: tuple[tuple[str, bytes], ...] = ()
    ) -> None:
        super().put(topic, key, value, ())


class Greedy(MemorySource):
    async def receive(self, limit: int) -> Sequence[Incoming]:
        return await super().receive(limit + 1)


class CommitsWhatItHandsOut(MemorySource):
    async def receive(self, limit: int) -> Sequence[Incoming]:
        found = await super().receive(limit)
        await super().commit(found)
        return found


class NeverCommits(MemorySource):
    async def commit(self, messages: Sequence[Incoming]) -> None:
        pass


class OneGroupForAll(MemorySource):
    def __init__(self, topics: MemoryTopics, topic: str, group: str) -> None:
        super().__init__(topics, topic, "all")

    async def close(self) -> None:
        self._topics.committed[self._place] = self._next
        await super().close()


class ForgetsWhatAMemberHeld(MemorySource):
    async def close(self) -> None:
        self._topics.committed[self._place] = self._next
        await super().close()

    async def open(self) -> None:
        last = self._topics.members.get(self._place)
        if isinstance(last, MemorySource):
            self._topics.committed[self._place] = last._next + 1
        await super().open()


class BuriesWithContent(MemorySource):
    async def bury(self, message: Incoming, code: str) -> None:
        await super().bury(replace(message, headers=(*message.headers, ("why", message.value))), code)


class BuriesOnlyTheKey(MemorySource):
    async def bury(self, message: Incoming, code: str) -> None:
        await super().bury(replace(message, value=b"null"), code)


class ReadsAnything(MemorySource):
    async def open(self) -> None:
        self._topics.topics[self._topic]
        await super().open()


class SendsTheLastOnly(MemoryBus):
    async def send(self, messages: Sequence[Message]) -> None:
        await super().send(messages[-1:])


class CountsWhatItHandedOut(MemorySource):
    async def lag(self) -> int | None:
        return len(self._topics.topics[self._topic]) - self._next


BROKEN: list[tuple[str, Callable[[], BusWorld]]] = [
    ("events_reach_their_topic_in_order_with_key_and_headers", lambda: memory_world(ReversedBus)),
    (
        "what_a_completed_step_publishes_reaches_its_topics_and_nothing_else_does",
        lambda: memory_world(FailedStepsPublish),
    ),
    ("a_message_that_is_published_again_has_the_same_id", lambda: memory_world(topics=NewIds())),
    (
        "messages_of_many_runs_arrive_completely_and_in_the_order_of_their_key",
        lambda: memory_world(topics=EverySeventhLost()),
    ),
    (
        "a_message_of_another_program_comes_as_it_was_sent",
        lambda: memory_world(topics=WithoutForeignHeaders()),
    ),
    (
        "no_more_messages_come_than_were_asked_for_and_few_ones_without_waiting",
        lambda: memory_world(source=Greedy),
    ),
    (
        "what_was_not_committed_comes_again_and_what_was_does_not",
        lambda: memory_world(source=CommitsWhatItHandsOut),
    ),
    ("what_was_not_committed_comes_again_and_what_was_does_not", lambda: memory_world(source=NeverCommits)),
    ("every_group_gets_everything", lambda: memory_world(source=OneGroupForAll)),
    (
        "nothing_is_lost_when_a_member_joins_and_one_leaves",
        lambda: memory_world(source=ForgetsWhatAMemberHeld),
    ),
    (
        "a_dead_letter_is_the_message_itself_with_headers_that_say_why_and_from_where",
        lambda: memory_world(source=BuriesWithContent),
    ),
    (
        "a_dead_letter_is_the_message_itself_with_headers_that_say_why_and_from_where",
        lambda: memory_world(source=BuriesOnlyTheKey),
    ),
    ("messages_of_a_program_are_sent_in_order", lambda: memory_world(SendsTheLastOnly)),
    ("the_lag_of_a_group_is_what_it_has_not_committed", lambda: memory_world(source=CountsWhatItHandedOut)),
    ("a_topic_that_does_not_exist_is_refused_at_the_start", lambda: memory_world(source=ReadsAnything)),
]


@pytest.mark.parametrize(("promise", "make"), BROKEN)
def test_a_bus_that_breaks_a_promise_is_noticed(
    promise: str, make: Callable[[], BusWorld], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podium.testing.bus_promises.world._MAX_TRIES", 3)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        getattr(BusPromises(), f"test_{promise}")(make())


def test_there_is_a_violation_of_every_promise() -> None:
    promises = {name.removeprefix("test_") for name in dir(BusPromises) if name.startswith("test_")}
    assert {promise for promise, _ in BROKEN} == promises
