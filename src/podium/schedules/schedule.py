"""A schedule: what a user defined, and how far it has come.

`revision` rises with every change. A process that changes a schedule names the revision that it decided on, and a store
refuses the change if it is not the current one: so each of its times is acted on once.
"""

from enum import StrEnum
from hashlib import sha256
from typing import Any, Final, TypeAlias

import msgspec

from podium.log.ids import DEFAULT_ENVIRONMENT, DEFAULT_PROJECT
from podium.log.times import Timestamp, later

# The id of a schedule and a moment make a request id.
MAX_ID: Final = 96
MAX_WAITING: Final = 1_000
# Of a schedule that has something to do other than at its next time: always due.
ALWAYS: Final = ""


class Cron(msgspec.Struct, frozen=True, tag="cron", tag_field="kind", forbid_unknown_fields=True):
    """Five fields, read in a time zone."""

    expression: str
    timezone: str = "UTC"


class Every(msgspec.Struct, frozen=True, tag="every", tag_field="kind", forbid_unknown_fields=True):
    """`anchor` and every so many seconds after it."""

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
    # Start one afterwards, the first of those that came in between.
    BUFFER_ONE = "buffer_one"
    # Cancel the open run, and start this one when it has ended.
    CANCEL_OTHER = "cancel_other"
    # Start it beside the others.
    ALLOW = "allow"


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """What a user wants. Durations are in seconds."""

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
    # Runs start up to so much later than their times, always by the same part of it.
    jitter: int = 0
    # How late a time may be acted on. What is older is missed.
    catch_up: int = 3_600
    start: Timestamp | None = None
    end: Timestamp | None = None


class Pause(msgspec.Struct, frozen=True):
    reason: str
    at: Timestamp
    by: str


class Backfill(msgspec.Struct, frozen=True, kw_only=True):
    """Times of the past that are made up for, at most `concurrency` of their runs at the same time."""

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
    # The time that is acted on next, without jitter; None when there is none left.
    next_time: Timestamp | None
    pause: Pause | None = None
    # Times that wait for the end of an open run.
    waiting: tuple[Timestamp, ...] = ()
    # Runs that were open when the schedule was last looked at; none are counted for `allow`.
    open_runs: tuple[str, ...] = ()
    # How many ticks have been recorded.
    ticks: int = 0
    backfill: Backfill | None = None

    @property
    def due_at(self) -> Timestamp | None:
        """When it has to be looked at; None: not by itself."""
        if self.pause is not None:
            return None
        if self.waiting or self.backfill is not None:
            return ALWAYS
        return self.starts_at(self.next_time) if self.next_time is not None else None

    def starts_at(self, time: Timestamp) -> Timestamp:
        """When the run of one of its times starts: later by its jitter."""
        return later(time, delay_of(self.tenant_id, self.schedule_id, self.definition.jitter))


def delay_of(tenant_id: str, schedule_id: str, jitter: int) -> int:
    """The part of the jitter that a schedule has, in seconds: always the same, so its times keep their order."""
    if jitter <= 0:
        return 0
    digest = sha256(f"{tenant_id}|{schedule_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % (jitter + 1)


class TickKind(StrEnum):
    SCHEDULED = "scheduled"
    BACKFILL = "backfill"
    # Asked for by a person.
    TRIGGERED = "triggered"


class TickOutcome(StrEnum):
    STARTED = "started"
    # The overlap policy says so.
    SKIPPED = "skipped"
    # Too late to be acted on.
    MISSED = "missed"
    # The run could not be created.
    FAILED = "failed"


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one time of a schedule; of several that follow one another if they were missed."""

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
