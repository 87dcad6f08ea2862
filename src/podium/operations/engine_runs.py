"""A `WorkflowEngine` for callers that start runs and do not wait for them.

It is the same for every engine: requests and results are in the store. Only the place where a run is driven
differs, which the engine knows.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

from podium.errors import RunRequestConflict
from podium.log.engines import EngineRunRef, local_ref
from podium.log.plan_refs import PlanRef
from podium.log.runs import Run
from podium.log.snapshots import RunStatusSnapshot
from podium.log.transitions import NOT_STARTED
from podium.operations.cancel import cancel_run
from podium.operations.drive import ReadyRun
from podium.operations.inputs import check_inputs
from podium.operations.parts import Parts
from podium.operations.runs import known_run
from podium.operations.signals import request_signal
from podium.operations.start import check_signed_run, may_start, start_run
from podium.plan.capabilities import CapabilityNotSupported, check_capabilities
from podium.ports.engine import RunContext, RunRequest, SignalRequest
from podium.runtime.plan_loading import PlanLoader
from podium.runtime.run_status import run_of_reference, status_of_reference


class EngineRuns:
    """`begin`: lets a run start, without waiting for it."""

    def __init__(
        self, parts: Parts, loader: Callable[[], PlanLoader], begin: Callable[[ReadyRun], Awaitable[None]]
    ) -> None:
        self._parts = parts
        self._loader = loader
        self._begin = begin

    async def start_run(self, plan_ref: PlanRef, context: RunContext) -> EngineRunRef:
        """Raises what `PlanLoader.fetch`, `check_capabilities` and `check_inputs` raise, and
        `RunRequestConflict`.
        """
        provider = self._parts.engine().provider
        if context.target_adapter != provider:
            raise CapabilityNotSupported(
                f"run {context.run_id!r} is for the engine {context.target_adapter!r}, and this is {provider!r}; "
                "start it with the engine that it is for"
            )
        await may_start(self._parts, context.tenant_id)
        run = await self._existing(plan_ref, context) or await self._create(plan_ref, context)
        if run.status in NOT_STARTED:
            await self._begin(ReadyRun(run.identity.run_id))
        return run.engine or local_ref(run.identity.run_id)

    async def cancel_run(self, engine_run_ref: EngineRunRef) -> None:
        run = await self._referred(engine_run_ref)
        asked = await cancel_run(self._parts, run.identity.tenant_id, run.identity.run_id)
        if asked.ready is not None:
            await self._begin(asked.ready)  # no process drives it: it has to be driven to its end

    async def get_run_status(self, engine_run_ref: EngineRunRef) -> RunStatusSnapshot:
        await self._referred(engine_run_ref)
        return await status_of_reference(self._parts.store, self._parts.clock, engine_run_ref)

    async def signal(self, engine_run_ref: EngineRunRef, request: SignalRequest) -> None:
        """Raises what `request_signal` raises."""
        run = await self._referred(engine_run_ref)
        tenant_id, run_id = run.identity.tenant_id, run.identity.run_id
        sent = await request_signal(self._parts, tenant_id, run_id, request)
        if sent.new_run is not None and sent.to_drive:
            await self._begin(ReadyRun(sent.new_run))

    # --- runs and signals that are there already ----------------------------------------------------

    async def _referred(self, engine_run_ref: EngineRunRef) -> Run:
        """Raises `RunNotFound`, also for a run that the actor may not see, and `OtherEngine`."""
        if not self._parts.is_owner:
            from podium.operations.guarding import referred_run

            await referred_run(self._parts, engine_run_ref.run_id)
        return await run_of_reference(self._parts.store, engine_run_ref)

    async def _existing(self, plan_ref: PlanRef, context: RunContext) -> Run | None:
        run = await known_run(self._parts, context.tenant_id, context.run_id)
        if run is None:
            return None
        if run.plan_sha256 != plan_ref.sha256 or run.provider != context.target_adapter:
            raise RunRequestConflict(
                f"run {context.run_id!r} exists with another plan or on another engine; use another run id"
            )
        await check_signed_run(self._parts, run)
        return run

    async def _create(self, plan_ref: PlanRef, context: RunContext) -> Run:
        found, workspace = await self._loader().fetch(plan_ref), Path.cwd()
        check_capabilities(found.plan, context.target_adapter)
        inputs = check_inputs(context.inputs, found.plan.workflow)
        await self._parts.require_needs(found.plan, workspace)
        request = RunRequest(
            found.plan,
            inputs,
            context.run_id,
            workspace=workspace,
            tenant_id=context.tenant_id,
            project_id=context.project_id,
            environment_id=context.environment_id,
            plan_ref=found.ref,
            plan_content=found.content,
            signatures=context.signatures,
        )
        return await self._parts.store.get_run((await start_run(self._parts, request)).run_id)
