"""What Temporal keeps of a run: the histories of its executions, and the payloads in them."""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from podium.engines.temporal.converter import MAX_INLINE_BYTES

History = list[HistoryEvent]


async def histories(client: Client, workflow_id: str) -> list[History]:
    """Of all executions of a workflow id that followed one another, oldest first."""
    found: list[History] = []
    execution: str | None = None
    while execution != "":
        handle = client.get_workflow_handle(workflow_id, run_id=execution)
        found.insert(0, [event async for event in handle.fetch_history_events()])
        started = found[0][0].workflow_execution_started_event_attributes
        execution = started.continued_execution_run_id
    return found


def size(history: Sequence[HistoryEvent]) -> int:
    return sum(event.ByteSize() for event in history)


def payloads(message: Message) -> Iterator[Payload]:
    """All of them, however deep they are."""
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in _parts(field, value):
                if isinstance(part, Payload):
                    yield part
                elif isinstance(part, Message):
                    yield from payloads(part)


def _parts(field: Any, value: Any) -> Sequence[Any]:
    if field.message_type.GetOptions().map_entry:
        return list(value.values())
    return [value] if isinstance(value, Message) else list(value)


def defects(found: Sequence[History], of_the_plan: bytes) -> list[str]:
    """What must not be in a history: a large payload, and anything of the plan."""
    wrong, forms = [], _forms(of_the_plan)
    for number, history in enumerate(found, 1):
        for event in history:
            place = f"event {event.event_id} of execution {number}"
            largest = max((payload.ByteSize() for payload in payloads(event)), default=0)
            if largest > MAX_INLINE_BYTES:
                wrong.append(f"{place} has a payload of {largest} bytes")
            if any(form in event.SerializeToString() for form in forms):
                wrong.append(f"{place} has a part of the plan")
    return wrong


def _forms(text: bytes) -> list[bytes]:
    """As it is, and in the middle of something that is encoded with base64."""
    shifted = [b64encode(b"-" * shift + text)[4:-4] for shift in range(3)]
    return [text, *shifted]
