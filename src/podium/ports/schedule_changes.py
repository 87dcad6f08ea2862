"""What is stored together with a schedule. Imported with the first schedule: most processes have none."""

from typing import TYPE_CHECKING, Final

import msgspec

from podium.log.events import EventWrite
from podium.log.runs import NewRun
from podium.log.times import Timestamp
from podium.ports.store import CreatedRun
from podium.schedules.schedule import Schedule, Tick

if TYPE_CHECKING:
    from podium.access.audit import AuditDraft

# Only the newest ones are kept.
MAX_TICKS: Final = 20_000


class PreparedRun(msgspec.Struct, frozen=True):
    """A run to be created: the arguments of `EventLog.create_run`."""

    new: NewRun
    writes: tuple[EventWrite, ...]
    contents: dict[str, bytes]
    audit: "tuple[AuditDraft, ...]" = ()


class ChangedSchedule(msgspec.Struct, frozen=True):
    """The schedule as it is stored now, and the run that was created with it or earlier by the same request."""

    schedule: Schedule
    created: CreatedRun | None = None
    # The ticks as recorded, with their numbers and the run.
    ticks: tuple[Tick, ...] = ()


class DueAfter(msgspec.Struct, frozen=True):
    """The position at which a list of due schedules continues."""

    due_at: Timestamp
    tenant_id: str
    schedule_id: str
