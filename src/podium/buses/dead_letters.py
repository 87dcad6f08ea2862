"""What is added to a message in the dead-letter topic: why it is there and where it was. Never any of its content."""

from podium.ports.events_in import Incoming


def dead_headers(message: Incoming, code: str) -> tuple[tuple[str, bytes], ...]:
    facts = {
        "dead_code": code,
        "dead_topic": message.topic,
        "dead_partition": str(message.partition),
        "dead_offset": str(message.offset),
    }
    return tuple((name, value.encode()) for name, value in facts.items())
