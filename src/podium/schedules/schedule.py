"""A schedule: a user's definition, and its progress.

`revision` rises with every change. A process that changes a schedule names the revision on which the change
was based, and a store refuses the change if it is not the current one: so each time is handled once.
"""

from enum import StrEnum
from hashlib import sha256
from typing import Any, Final, TypeAlias

import msgspec

from podium.log.ids import DEFAULT_ENVIRONMENT, DEFAULT_PROJECT
from podium.log.times import Timestamp, later

# The id of a schedule and a moment form a request id.
MAX_ID: Final = 96
MAX_WAITING: Final = 1_000
# For a schedule that has something to do besides its next time: always due.
ALWAYS: Final = ""


class Cron(msgspec.Struct, frozen=True, tag="cron", tag_field="kind", forbid_unknown_fields=True):
    """Five fields, read in a time zone."""

    expression: str
    timezone: str = "UTC"


class Every(msgspec.Struct, frozen=True, tag="every", tag_field="kind", forbid_unknown_fields=True):
    """`anchor` and every multiple of this many seconds after it."""

    seconds: int
    anchor: Timestamp


class Once(msgspec.Struct, frozen=True, tag="once", tag_field="kind", forbid_unknown_fields=True):
    at: Timestamp


Times: TypeAlias = Cron | Every | Once


class Overlap(StrEnum):
    """What to do at a time of a schedule while a run of an earlier time is open."""

    # Start no run.
    SKIP = "skip"
    # Start it afterwards, and all others in their order.
    QUEUE = "queue"
    # Start one run afterwards, for the first time in between.
    BUFFER_ONE = "buffer_one"
    # Cancel the open run, and start this one when it has ended.
    CANCEL_OTHER = "cancel_other"
    # Start it concurrently with the others.
    ALLOW = "allow"


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """A user's definition. Durations are in seconds."""

    times: Times
    plan_id: str
    plan_version: str
    plan_sha256: str
    inputs: dict[str, Any] = msgspec.field(default_factory=dict)
    pool: str = "default"
    workspace: str = "."
    project_id: str = DEFAULT_PROJECT
    environment_id: str = DEFAULT_ENVIRONMENT
    overlap: Overlap = Overlap.SKIP
    # Runs start up to this much later than their times, always by the same fraction of it.
    jitter: int = 0
    # How late a time may be handled. Older ones are missed.
    catch_up: int = 3_600
    start: Timestamp | None = None
    end: Timestamp | None = None


class Pause(msgspec.Struct, frozen=True):
    reason: str
    at: Timestamp
    by: str


class Backfill(msgspec.Struct, frozen=True, kw_only=True):
    """Past times for which runs are started, at most `concurrency` of them concurrently."""

    first: Timestamp
    until: Timestamp
    concurrency: int
    # The next one to start; None when all have been started.
    next_time: Timestamp | None
    started: int = 0
    open_runs: tuple[str, ...] = ()


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    tenant_id: str
    schedule_id: str
    definition: Definition
    created_at: Timestamp
    created_by: str
    revision: int = 1
    # The time that is handled next, without jitter; None when there is none left.
    next_time: Timestamp | None
    pause: Pause | None = None
    # Times that wait for the end of an open run.
    waiting: tuple[Timestamp, ...] = ()
    # Runs that were open at the last check; not counted for `allow`.
    open_runs: tuple[str, ...] = ()
    # How many ticks have been recorded.
    ticks: int = 0
    backfill: Backfill | None = None

    @property
    def due_at(self) -> Timestamp | None:
        """When it has to be checked; None: not automatically."""
        if self.pause is not None:
            return None
        if self.waiting or self.backfill is not None:
            return ALWAYS
        return self.starts_at(self.next_time) if self.next_time is not None else None

    def starts_at(self, time: Timestamp) -> Timestamp:
        """When the run for one of its times starts: delayed by its jitter."""
        return later(time, delay_of(self.tenant_id, self.schedule_id, self.definition.jitter))


def delay_of(tenant_id: str, schedule_id: str, jitter: int) -> int:
    """A schedule's fraction of the jitter, in seconds: always the same, so its times keep their order."""
    if jitter <= 0:
        return 0
    digest = sha256(f"{tenant_id}|{schedule_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % (jitter + 1)


class TickKind(StrEnum):
    SCHEDULED = "scheduled"
    BACKFILL = "backfill"
    # Requested by a person.
    TRIGGERED = "triggered"


class TickOutcome(StrEnum):
    STARTED = "started"
    # Because of the overlap policy.
    SKIPPED = "skipped"
    # Too late to be handled.
    MISSED = "missed"
    # The run could not be created.
    FAILED = "failed"


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one time of a schedule; for missed ones, for several consecutive times."""

    time: Timestamp
    kind: TickKind
    outcome: TickOutcome
    at: Timestamp
    # Set by the store.
    number: int = 0
    run_id: str | None = None
    code: str = ""
    message: str = ""
    # Of missed times: how many, and the last of them.
    count: int = 1
    until: Timestamp | None = None
