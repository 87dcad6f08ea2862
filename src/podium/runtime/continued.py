"""Paths inside composites that a reopened run has continued.

What starts for the first time in a continued composite has the composite's new attempt number in its path:
`Pay All#2[4]/Pay`. It still belongs to the same visit of `Pay All`; in a run that does not fail, its path is
`Pay All[4]/Pay`.
"""

import re
from collections import defaultdict
from typing import Final

from podium.log.events import EventRecord, EventType
from podium.log.payloads import fields_of

_NUMBER: Final = re.compile(r"^([^#\[]*)(?:#(\d+))?(.*)$", re.DOTALL)


class Continued:
    """Which attempts of composites continued the previous attempt, and when the run was reopened."""

    def __init__(self) -> None:
        # By the path of a composite: its attempts, each with the number of its record.
        self._attempts: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        self._reopened: list[int] = []

    def note(self, record: EventRecord) -> None:
        if record.event_type == EventType.RUN_REOPENED:
            self._reopened.append(record.run_seq)
        elif _continues(record):
            self._attempts[str(record.step_id)].append((record.logical_attempt_id, record.run_seq))

    def reopened_between(self, first: int, last: int) -> bool:
        return any(first < seq < last for seq in self._reopened)

    def uninterrupted(self, path: str, since: int = 0) -> str:
        """The path as if nothing had been continued after the record `since`."""
        before, plain = "", []
        for part in path.split("/"):
            found = _NUMBER.match(part)
            assert found is not None
            name, number, index = found[1], int(found[2] or 1), found[3]
            number -= self._continuations(before + name, number, since)
            plain.append(f"{name}#{number}{index}" if number > 1 else name + index)
            before = f"{before}{part}/"
        return "/".join(plain)

    def _continuations(self, composite: str, number: int, since: int) -> int:
        return sum(attempt <= number and seq > since for attempt, seq in self._attempts.get(composite, ()))


def _continues(record: EventRecord) -> bool:
    if record.event_type != EventType.STEP_STARTED or b'"reopened"' not in record.payload:
        return False
    return fields_of(record).get("reopened") is True
