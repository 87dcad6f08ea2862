"""Reading what the JSON lines bus has written."""

from pathlib import Path

import msgspec


def read_lines(path: Path) -> list[dict[str, object]]:
    """The events in such a file; torn lines are left out, for their events come again."""
    events = []
    for line in path.read_bytes().splitlines():
        try:
            events.append(msgspec.json.decode(line, type=dict[str, object]))
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    return events
