"""Headers of a message in the dead-letter topic: why it is there and where it was. Never any of its content."""

from typing import Final

from podium.ports.events_in import Incoming

# Of a message that the dead-letter topic does not take: only its place is there.
OMITTED: Final = ("dead_omitted", b"true")


def dead_headers(message: Incoming, code: str) -> tuple[tuple[str, bytes], ...]:
    facts = {
        "dead_code": code,
        "dead_topic": message.topic,
        "dead_partition": str(message.partition),
        "dead_offset": str(message.offset),
    }
    return tuple((name, value.encode()) for name, value in facts.items())
