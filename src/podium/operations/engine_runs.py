"""A `WorkflowEngine` for callers that start runs and do not wait for them.

It is the same for every engine: what was asked for and what became of it are in the store. Only where a run is driven
differs, and the engine knows that.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from podium.errors import PodiumError, RunNotFound, RunRequestConflict
from podium.log.engines import EngineRunRef, local_ref
from podium.log.events import EventType
from podium.log.keys import key_v1
from podium.log.plan_refs import PlanRef
from podium.log.runs import Run
from podium.log.snapshots import RunStatusSnapshot
from podium.log.transitions import RunStatus
from podium.operations.cancel import cancel_run
from podium.operations.drive import ReadyRun
from podium.operations.inputs import check_inputs
from podium.operations.parts import Parts
from podium.operations.signals import ABOUT_A_STEP, send_signal
from podium.operations.start import check_signed, check_signed_run
from podium.plan.capabilities import CapabilityNotSupported, check_capabilities
from podium.ports.engine import RunContext, RunRequest, SignalRequest
from podium.runtime.plan_loading import PlanLoader
from podium.runtime.run_status import run_of_reference, status_of_reference

_NOT_STARTED = (RunStatus.PENDING, RunStatus.APPROVED)


class SignalDuplicate(PodiumError):
    """A signal id was used before, for another signal."""

    code = "SIGNAL_DUPLICATE"


class EngineRuns:
    """`begin`: lets a run begin, without waiting for it."""

    def __init__(
        self, parts: Parts, loader: Callable[[], PlanLoader], begin: Callable[[ReadyRun], Awaitable[None]]
    ) -> None:
        self._parts = parts
        self._loader = loader
        self._begin = begin

    async def start_run(self, plan_ref: PlanRef, context: RunContext) -> EngineRunRef:
        """Raises what `PlanLoader.fetch`, `check_capabilities` and `check_inputs` do, and `RunRequestConflict`."""
        provider = self._parts.engine().provider
        if context.target_adapter != provider:
            raise CapabilityNotSupported(
                f"run {context.run_id!r} is for the engine {context.target_adapter!r}, and this is {provider!r}; "
                "start it with the engine that it is for"
            )
        run = await self._existing(plan_ref, context) or await self._create(plan_ref, context)
        if run.status in _NOT_STARTED:
            await self._begin(ReadyRun(run.identity.run_id))
        return run.engine or local_ref(run.identity.run_id)

    async def cancel_run(self, engine_run_ref: EngineRunRef) -> None:
        run = await run_of_reference(self._parts.store, engine_run_ref)
        asked = await cancel_run(self._parts, run.identity.tenant_id, run.identity.run_id)
        if asked.ready is not None:
            await self._begin(asked.ready)  # no process drives it: it has to be driven to its end

    async def get_run_status(self, engine_run_ref: EngineRunRef) -> RunStatusSnapshot:
        return await status_of_reference(self._parts.store, self._parts.clock, engine_run_ref)

    async def signal(self, engine_run_ref: EngineRunRef, request: SignalRequest) -> None:
        """Raises `SignalDuplicate`, and what `send_signal` does."""
        run = await run_of_reference(self._parts.store, engine_run_ref)
        if await self._is_accepted(run, request):
            return
        await send_signal(
            self._parts.store,
            self._parts.clock,
            run.identity.tenant_id,
            run.identity.run_id,
            request.signal_type,
            request.payload,
            plan=await self._parts.plan_of(run) if request.signal_type in ABOUT_A_STEP else None,
            payloads=self._parts.values(run.identity.run_id),
            signal_id=request.signal_id,
        )

    # --- runs and signals that are there already ----------------------------------------------------

    async def _existing(self, plan_ref: PlanRef, context: RunContext) -> Run | None:
        try:
            run = await self._parts.store.runs.find(context.tenant_id, context.run_id)
        except RunNotFound:
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
        request = await check_signed(self._parts, request)
        return await self._parts.store.get_run(await self._parts.engine().create(request))

    async def _is_accepted(self, run: Run, request: SignalRequest) -> bool:
        identity = run.identity
        key = key_v1(identity.run_id, request.signal_id, 1, EventType.SIGNAL_ACCEPTED, identity.plan_version)
        for record in await self._parts.store.find(identity.run_id, [key]):
            earlier = msgspec.json.decode(record.payload)
            if (earlier["signalType"], earlier["payload"]) != (request.signal_type, request.payload):
                raise SignalDuplicate(
                    f"run {identity.run_id!r} has a signal {request.signal_id!r} with other content; use a new id for "
                    "each signal"
                )
            return True
        return False
