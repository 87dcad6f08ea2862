"""What is stored together with a schedule. Loaded with the first schedule: most processes have none."""

from typing import TYPE_CHECKING, Final

import msgspec

from podium.log.events import EventWrite
from podium.log.runs import NewRun
from podium.log.times import Timestamp
from podium.ports.store import CreatedRun
from podium.schedules.schedule import Schedule, Tick

if TYPE_CHECKING:
    from podium.access.audit import AuditDraft

# The newest ones are kept.
MAX_TICKS: Final = 20_000


class PreparedRun(msgspec.Struct, frozen=True):
    """A run that is to be created: what `EventLog.create_run` takes."""

    new: NewRun
    writes: tuple[EventWrite, ...]
    contents: dict[str, bytes]
    audit: "tuple[AuditDraft, ...]" = ()


class ChangedSchedule(msgspec.Struct, frozen=True):
    """As it is stored now, and the run that was created with it, or that the same request made before."""

    schedule: Schedule
    created: CreatedRun | None = None
    # As they were recorded, with their numbers and the run.
    ticks: tuple[Tick, ...] = ()


class DueAfter(msgspec.Struct, frozen=True):
    """Where a list of due schedules continues."""

    due_at: Timestamp
    tenant_id: str
    schedule_id: str
