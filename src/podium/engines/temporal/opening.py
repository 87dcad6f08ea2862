"""Opening a run for a workflow execution: whose it is, what it has come to, and what it starts with."""

from typing import Final

from podium.engines.hosting import prepare_run
from podium.engines.parts import LocalParts
from podium.engines.start import start_facts
from podium.engines.temporal.messages import OpenedRun, RunArgs
from podium.log.ids import RunId
from podium.log.leases import Lease
from podium.log.runs import EngineRunRef, Run
from podium.log.transitions import TERMINAL, RunStatus
from podium.plan.loading import plan_bytes
from podium.plan.plan import Plan
from podium.runtime.checkpoints import encode_machine
from podium.runtime.lock import RunLocked
from podium.runtime.plan_file import load_plan
from podium.runtime.replaying import replayed

_NOT_STARTED: Final = (RunStatus.PENDING, RunStatus.APPROVED)


class Opening:
    def __init__(self, parts: LocalParts) -> None:
        self._parts = parts

    async def open(self, args: RunArgs, workflow_id: str, execution: str) -> OpenedRun:
        store = self._parts.store
        run = await store.get_run(RunId(args.run_id))
        if run.status in TERMINAL:
            return OpenedRun(run.identity, 0, b"", is_over=True)
        plan = await load_plan(store, self._parts.directory(args.run_id), run)
        lease = await self._claim(run, plan, f"temporal:{workflow_id}")
        engine = EngineRunRef(provider="temporal", workflow_id=workflow_id, provider_run_id=execution)
        await store.set_engine(run.identity.run_id, engine, fence=lease.fence)
        start = None
        if run.status in _NOT_STARTED:
            prepared = await prepare_run(self._parts, run, check=True, alone=False)
            start = start_facts(plan, prepared.asked.inputs, prepared.facts, prepared.host, engine)
        machine = await replayed(store, run.identity.run_id, plan, self._parts.values(args.run_id))
        return OpenedRun(
            run.identity,
            lease.fence.generation,
            plan_bytes(plan),
            encode_machine(machine) if machine.last_seq else None,
            start,
        )

    async def _claim(self, run: Run, plan: Plan, owner: str) -> Lease:
        """The run belongs to its execution, not to this process: it does not lapse."""
        slots = plan.concurrency.limit if plan.concurrency is not None else None
        lease = await self._parts.store.claim(run.identity.run_id, owner=owner, ttl=None, slots=slots)
        if lease is None:
            raise RunLocked(run.identity.run_id, None)
        return lease
