"""What lists show of runs besides their rows: steps, cost and failures, from their latest projections."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from podium.errors import RunNotFound
from podium.log.runs import Run
from podium.log.snapshots import RunSummary
from podium.log.times import timestamp
from podium.log.transitions import TERMINAL
from podium.operations.parts import Parts
from podium.runtime.alerts import Alerting
from podium.runtime.projecting import LAG_ALERT_SECONDS, Projecting

_STALE_AFTER: Final = timedelta(seconds=LAG_ALERT_SECONDS)


class Summaries(NamedTuple):
    by_run: dict[str, RunSummary]
    # The projector is behind: an open run has had an event for more than five seconds that is not in its
    # summary.
    is_stale: bool


async def summaries_of(parts: Parts, runs: Sequence[Run]) -> Summaries:
    """For the runs of one page. Ended runs that were never projected are projected now, once."""
    found = await parts.store.load_summaries([run.identity.run_id for run in runs])
    by_run = {str(one.run.run_id): one for one in found if one.run is not None}
    alerting = Alerting(parts.store, parts.clock, telemetry=parts.telemetry)
    projecting = Projecting(parts.store, parts.clock, alerting, on_demand=True)
    late = timestamp(parts.clock.now() - _STALE_AFTER)
    is_stale = False
    for run in runs:
        run_id = run.identity.run_id
        summary = by_run.get(run_id)
        if summary is not None and summary.last_event_seq >= run.head:
            continue
        if run.status in TERMINAL or summary is None:
            try:
                by_run[run_id] = (await projecting.catch_up(run_id)).summary
            except RunNotFound:
                continue  # removed since
        elif run.updated_at < late:
            is_stale = True
    return Summaries(by_run, is_stale)
