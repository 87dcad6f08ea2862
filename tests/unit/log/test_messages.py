"""What a bus gets of an event: derived from the record alone, so that a repeated message is the same one."""

import asyncio
import json
from typing import Any

import pytest

from podium.log.events import EventRecord
from podium.log.ids import RunId
from podium.log.messages import event_message, is_topic, published_messages
from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock
from podium.testing.events import event, new_run


def record(event_type: str, step: str | None = None, attempt: int = 1, **payload: Any) -> EventRecord:
    async def stored() -> EventRecord:
        store = MemoryStore(VirtualClock())
        await store.create_run(new_run("r1"), [event("r1", event_type, step, attempt, **payload)])
        return (await store.read(RunId("r1")))[0]

    return asyncio.run(stored())


ORDER = {"topic": "orders", "key": "k", "type": "placed", "body": {"total": 3}}
NOTE = {"topic": "notes", "key": None, "type": "note", "body": "n"}


def test_the_messages_of_a_completion_have_its_order_and_their_own_ids() -> None:
    first, second = published_messages(record("StepCompleted", "a", publishes=[ORDER, NOTE]))
    assert (first.topic, first.key, json.loads(first.value)) == ("orders", "k", {"total": 3})
    assert (second.topic, second.key, second.value) == ("notes", None, b'"n"')
    ids = [dict(message.headers)["event_id"] for message in (first, second)]
    assert len(set(ids)) == 2
    again = published_messages(record("StepCompleted", "a", publishes=[ORDER, NOTE]))
    assert again == [first, second]
    assert dict(first.headers)["event_type"] == "placed"


@pytest.mark.parametrize(("step", "attempt"), [("b", 1), ("a", 2)])
def test_another_step_or_another_visit_publishes_other_messages(step: str, attempt: int) -> None:
    (one,) = published_messages(record("StepCompleted", "a", publishes=[ORDER]))
    (other,) = published_messages(record("StepCompleted", step, attempt, publishes=[ORDER]))
    assert dict(one.headers)["event_id"] != dict(other.headers)["event_id"]


def test_only_a_completion_publishes() -> None:
    assert published_messages(record("StepFailed", "a", publishes=[ORDER])) == []
    assert published_messages(record("StepCompleted", "a", output='"publishes": [{}]')) == []
    assert published_messages(record("StepCompleted", "a", outputs={"publishes": [ORDER]})) == []


def test_an_event_is_a_message_with_the_key_of_its_run() -> None:
    message = event_message(record("RunQueued"), "events")
    assert (message.topic, message.key, json.loads(message.value)["eventType"]) == (
        "events",
        "r1",
        "RunQueued",
    )
    version, trace, span, flags = dict(message.headers)["traceparent"].split("-")
    assert (version, len(trace), len(span), flags) == ("00", 32, 16, "01")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ü", "a" * 250, "a\n"])
def test_what_is_not_a_topic(name: str) -> None:
    assert not is_topic(name)
