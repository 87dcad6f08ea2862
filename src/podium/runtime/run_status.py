"""Queries about a run by a caller that has only an engine's reference. The store answers, for every engine."""

from podium.log.engines import EngineRunRef
from podium.log.runs import Run
from podium.log.snapshots import RunStatusSnapshot, status_snapshot
from podium.ports.clock import Clock
from podium.ports.store import Store
from podium.runtime.alerts import Alerting
from podium.runtime.other_engines import OtherEngine
from podium.runtime.projecting import Projecting


async def run_of_reference(store: Store, engine: EngineRunRef) -> Run:
    """The run with its tenant, project, environment and plan. Raises `RunNotFound`, and `OtherEngine` if the
    run belongs to another.
    """
    run = await store.get_run(engine.run_id)
    if run.provider != engine.provider:
        raise OtherEngine(run)
    return run


async def status_of_reference(store: Store, clock: Clock, engine: EngineRunRef) -> RunStatusSnapshot:
    run = await run_of_reference(store, engine)
    projecting = Projecting(store, clock, Alerting(store, clock), on_demand=True)
    return status_snapshot(run, (await projecting.catch_up(run.identity.run_id)).summary)
