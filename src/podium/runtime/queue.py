"""Starts the runs that wait: the reconciler of the run queue.

It keeps no state. The store hands out a run together with its lease, so two reconcilers never start one run, and a
reconciler that dies in between loses nothing: the lease lapses and the run is handed out again.

No command reaches this yet: `podium run` starts its own run. The server, which accepts runs and starts them later,
needs it.
"""

import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Literal, NamedTuple

from podium.log.ids import RunId
from podium.ports.store import Claimed, Leases

logger = logging.getLogger(__name__)


class Dequeued(NamedTuple):
    """What became of one run that was to start; SKIPPED: somebody else has it now."""

    run_id: RunId
    status: Literal["STARTED", "FAILED", "SKIPPED"]


async def dequeue_and_start(
    queue: Leases,
    start: Callable[[Claimed], Awaitable[bool]],
    *,
    owner: str,
    ttl: timedelta,
    most: int = 100,
) -> list[Dequeued]:
    """Start every run that may start now. `start` records RunStarted under the lease it is given; False: not ours."""
    done: list[Dequeued] = []
    while len(done) < most:
        claimed = await queue.claim_next(owner=owner, ttl=ttl)
        if claimed is None:
            break
        run_id = claimed.run.identity.run_id
        try:
            started = await start(claimed)
        except Exception:
            logger.exception("run %s could not be started", run_id)
            # Not released: the run is handed out again when the lease lapses, not at once and for ever.
            done.append(Dequeued(run_id, "FAILED"))
        else:
            done.append(Dequeued(run_id, "STARTED" if started else "SKIPPED"))
    return done
