"""Opens a run for a workflow execution: it belongs to the execution, not to a process, until the run has
ended.
"""

from podium.engines.opening import Claimant, NotItsExecution, NotOpened, Opening, PlanOf
from podium.engines.parts import LocalParts
from podium.engines.temporal.messages import OpenedRun, RunArgs
from podium.engines.temporal.names import run_id_of
from podium.log.engines import TEMPORAL
from podium.log.ids import RunId
from podium.plan.loading import plan_bytes
from podium.runtime import holders


class ExecutionOpening:
    def __init__(self, parts: LocalParts, plan_of: PlanOf) -> None:
        self._store = parts.store
        self._opening = Opening(parts, plan_of, TEMPORAL)

    async def open(self, args: RunArgs, workflow_id: str) -> OpenedRun:
        run = await self._store.get_run(RunId(args.run_id))
        if run_id_of(workflow_id) != run.identity.run_id:
            # Anyone with access to the server can start an execution with any name, for any run.
            raise NotItsExecution(f"execution {workflow_id!r} is not the one of run {run.identity.run_id!r}")
        opened = await self._opening.open(run, Claimant(holders.workflow_owner(TEMPORAL, workflow_id)))
        if isinstance(opened, NotOpened):
            waits = opened is NotOpened.WAITS_FOR_APPROVAL
            return OpenedRun(run.identity, 0, b"", is_over=not waits, waits_for_approval=waits)
        machine = opened.machine
        return OpenedRun(
            run.identity,
            opened.lease.fence.generation,
            plan_bytes(opened.plan),
            machine.checkpoint() if machine.last_seq else None,
            opened.start,
        )

    async def close(self, run_id: str, workflow_id: str) -> None:
        """The run has ended: its slot is free."""
        owner = holders.workflow_owner(TEMPORAL, workflow_id)
        held = await self._store.held_lease(RunId(run_id))
        if held is not None and held.lease.owner == owner:
            await self._store.release(held.lease)
