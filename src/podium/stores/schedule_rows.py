"""What all stores have in common about schedules: their encoding, and the result of a change."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

import msgspec
from msgspec.structs import replace

from podium.errors import ContentDamaged
from podium.ports.schedule_changes import ChangedSchedule
from podium.ports.store import CreatedRun
from podium.schedules.schedule import Schedule, Tick
from podium.stores import texts

_encode: Final = msgspec.json.Encoder().encode
schedule_of: Final = msgspec.json.Decoder(Schedule).decode
tick_of: Final = msgspec.json.Decoder(Tick).decode


def body_of(value: Schedule | Tick) -> bytes:
    return _encode(value)


def check_schedule(schedule: Schedule) -> None:
    """Refuse what some store could not keep."""
    texts.check_name("the tenant of a schedule", schedule.tenant_id)
    texts.check_name("schedule", schedule.schedule_id)
    texts.check_name("the pool of a schedule", schedule.definition.pool)
    body_of(schedule)


def changed(schedule: Schedule, ticks: Sequence[Tick], created: CreatedRun | None) -> ChangedSchedule:
    """The schedule as it is stored then, and its ticks with their numbers and the run."""
    numbered = [replace(tick, number=schedule.ticks + place) for place, tick in enumerate(ticks, start=1)]
    if created is not None and numbered:
        numbered[-1] = replace(numbered[-1], run_id=created.run.identity.run_id)
    kept = replace(schedule, revision=schedule.revision + 1, ticks=schedule.ticks + len(numbered))
    return ChangedSchedule(kept, created, tuple(numbered))


def checked_content(schedule_id: str, name: str, digest: bytes, content: bytes) -> bytes:
    if sha256(content).digest() != digest:
        raise ContentDamaged(schedule_id, name)
    return content
