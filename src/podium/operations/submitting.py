"""Submits a run to a pool: shared by HTTP, schedules and hooks.

The caller chooses what happens if a limit is reached: `queue` keeps the run waiting, `reject` refuses it and
says when to try again, `delay` starts it later.
"""

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec

from podium.errors import PodiumError, RunRefused
from podium.log.ids import DEFAULT_POOL, check_id
from podium.log.runs import Backpressure, Run, RunQuery
from podium.log.times import Timestamp, moment, timestamp
from podium.log.transitions import NOT_STARTED, TERMINAL
from podium.operations.on_limit import OnLimit
from podium.operations.parts import Parts
from podium.operations.start import may_start, prepared_request
from podium.ports.engine import RunRequest

_MIN_WAIT: Final = 1
_MAX_WAIT: Final = 3600
# Used if no runs have ended yet, so that there is no basis for an estimate.
_DEFAULT_WAIT: Final = 30
# How many of the newest ended runs are used to estimate how often one ends.
_ENDS: Final = 20
_MIN_ENDS: Final = 2
_MAX_PRIORITY: Final = 1000
_EXAMPLE: Final = "2026-01-01T09:00:00Z"


class Outcome(StrEnum):
    # It starts as soon as a worker has a free slot.
    CREATED = "created"
    # The same request was made before: this is its run.
    DUPLICATE = "duplicate"
    # A limit is reached: it waits.
    QUEUED = "queued"
    # It starts later.
    DELAYED = "delayed"


class InvalidSubmission(PodiumError):
    code = "INVALID_SUBMISSION"


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    run: Run
    outcome: Outcome
    # For a run that waits: its position within its tenant and pool.
    position: int | None = None
    # The limit that is reached, in words.
    limit: str | None = None


async def submit_run(
    parts: Parts,
    request: RunRequest,
    *,
    on_limit: OnLimit = OnLimit.QUEUE,
    start_at: datetime | None = None,
) -> Submitted:
    """Create a run of a pool, or find the one that this request created before. It is durable when this
    returns.

    Raises `RunRefused` with `on_limit: reject`, `ConcurrencyLimit` if its plan says `on_conflict: reject`,
    `RunRequestConflict`, `InvalidSubmission`, and what `may_start` and `prepared_request` raise.
    """
    request = _checked(request, on_limit, start_at)
    await may_start(parts, request.tenant_id)
    request = await prepared_request(parts, request)
    try:
        created = await parts.create_in_pool(request)
    except RunRefused as refused:
        wait = await _wait_seconds(parts, request)
        if on_limit is OnLimit.REJECT:
            raise RunRefused(refused.limit, wait) from refused
        later = timestamp(parts.clock.now() + timedelta(seconds=wait))
        delayed = msgspec.structs.replace(request, backpressure=Backpressure.DELAY, start_at=later)
        created = await parts.create_in_pool(delayed)
    return await _submitted(parts, created.run, is_duplicate=created.duplicate)


async def _submitted(parts: Parts, run: Run, *, is_duplicate: bool) -> Submitted:
    run_id = run.identity.run_id
    limit, position = None, None
    if run.status in NOT_STARTED:
        limit = await parts.store.held_back_by(run_id)
        position = await parts.store.queue_position(run_id)
    outcome = Outcome.CREATED
    if is_duplicate:
        outcome = Outcome.DUPLICATE
    elif run.start_at is not None and run.start_at > timestamp(parts.clock.now()):
        outcome = Outcome.DELAYED
    elif limit is not None:
        outcome = Outcome.QUEUED
    return Submitted(run=run, outcome=outcome, position=position, limit=limit)


async def _wait_seconds(parts: Parts, request: RunRequest) -> int:
    """The estimated time until a slot is free: as many runs have to end as wait before this one, plus one."""
    ended = RunQuery(statuses=frozenset(TERMINAL), limit=_ENDS)
    page = await parts.store.runs.page(request.tenant_id, ended)
    ends = sorted(moment(run.updated_at) for run in page.runs)
    loads = await parts.store.pool_loads(request.tenant_id)
    waiting = sum(one.waiting for one in loads if one.pool == request.pool)
    return wait_seconds(ends, waiting)


def wait_seconds(ends: Sequence[datetime], waiting: int) -> int:
    """Estimated from when runs ended, and how many wait."""
    if len(ends) < _MIN_ENDS:
        return _DEFAULT_WAIT
    interval = (ends[-1] - ends[0]).total_seconds() / (len(ends) - 1)
    return min(_MAX_WAIT, max(_MIN_WAIT, math.ceil(interval * (waiting + 1))))


def _checked(request: RunRequest, on_limit: OnLimit, start_at: datetime | None) -> RunRequest:
    pool = request.pool or DEFAULT_POOL
    check_id("pool", pool)
    if request.priority is not None and abs(request.priority) > _MAX_PRIORITY:
        raise InvalidSubmission(
            f"priority {request.priority} is not possible: use a number from -{_MAX_PRIORITY} to {_MAX_PRIORITY}",
            "priority",
            f"a number from -{_MAX_PRIORITY} to {_MAX_PRIORITY}",
        )
    if start_at is None:
        # To be delayed it has to be refused first.
        backpressure = Backpressure.QUEUE if on_limit is OnLimit.QUEUE else Backpressure.REJECT
        return msgspec.structs.replace(request, pool=pool, backpressure=backpressure)
    if start_at.tzinfo is None:
        raise InvalidSubmission(
            f"a start time needs a time zone: for example {_EXAMPLE}", "start_at", f"a moment like {_EXAMPLE}"
        )
    if on_limit is OnLimit.REJECT:
        raise InvalidSubmission(
            "a run with a start time cannot be rejected because of a limit, which counts when that time has come; "
            "use onLimit queue or delay",
            "on_limit",
            "queue, delay",
        )
    return msgspec.structs.replace(
        request, pool=pool, backpressure=Backpressure.DELAY, start_at=_in_utc(start_at)
    )


def _in_utc(start_at: datetime) -> Timestamp:
    try:
        return timestamp(start_at)
    except OverflowError as error:
        raise InvalidSubmission(
            f"start time {start_at.isoformat()} is not between the years 1 and 9999 in UTC",
            "start_at",
            f"a moment like {_EXAMPLE}",
        ) from error
