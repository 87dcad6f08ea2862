"""Runs of other engines: this process reads and signals them, and never drives them.

Two drivers of one run would start its steps twice. The engine of a run is in its row, from its creation on,
so the answer does not depend on a lease.
"""

from podium.errors import PodiumError
from podium.log.engines import LOCAL
from podium.log.runs import Run
from podium.log.transitions import TERMINAL
from podium.runtime.holders import describe, pool_owner, workflow_owner


class OtherEngine(PodiumError):
    """The run belongs to another engine than the local one."""

    code = "OTHER_ENGINE"

    def __init__(self, run: Run) -> None:
        run_id, workflow = run.identity.run_id, describe(owner_of(run))
        if run.status in TERMINAL:
            message = (
                f"run {run_id!r} was driven by {workflow}, so it cannot be reopened here; `podium rerun {run_id}` "
                "starts a new run"
            )
        else:
            message = (
                f"run {run_id!r} is driven by {workflow}, so it is not driven here; a worker of that engine continues "
                f"it. `podium why {run_id}` shows what it waits for"
            )
        super().__init__(message)


def is_elsewhere(run: Run) -> bool:
    """Whether other processes than its starter's execute it: workers of another engine, or workers of a pool."""
    return run.provider != LOCAL or run.pool is not None


def check_local(run: Run) -> None:
    """Raises `OtherEngine`."""
    if is_elsewhere(run):
        raise OtherEngine(run)


def owner_of(run: Run) -> str:
    """The owner of a run that is elsewhere; for another engine, the holder of its lease."""
    if run.pool is not None:
        return pool_owner(run.pool)
    if run.engine is None:
        return LOCAL
    return workflow_owner(run.engine.provider, run.engine.workflow_id)
