"""An opened store: start, resume and find runs."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from podium.api.runs import Run
from podium.api.session import Drive, Session, log_notice
from podium.api.workflows import Workflow
from podium.errors import RunRequestConflict
from podium.log.transitions import RunStatus
from podium.operations.inputs import SOURCES, check_inputs
from podium.operations.resume import Replacement, resume_run
from podium.operations.runs import known_run
from podium.operations.start import may_start, start_run
from podium.plan.canonical import canonical_sha256
from podium.plan.loading import plan_bytes
from podium.plan.plan import Plan
from podium.ports.engine import RunRequest, WorkflowEngine

if TYPE_CHECKING:
    from podium.nodes.registry import NodeClass


class Podium:
    """An opened store. Runs that it starts are driven in this event loop; leaving it waits for them, or cancels them if
    an exception leaves it."""

    def __init__(
        self, session: Session, providers: Sequence[str] = (), nodes: "Sequence[NodeClass]" = ()
    ) -> None:
        self._session = session
        self._parts = session.parts
        self._tenant = session.tenant
        # The names of those that the program provides.
        self._providers = providers
        self._nodes = nodes

    async def start(
        self,
        workflow: Workflow | str | Path,
        *,
        inputs: Mapping[str, Any] | None = None,
        run_id: str | None = None,
        if_exists: Literal["error", "resume"] = "error",
        workspace: str | Path | None = None,
        needs_approval: bool = False,
        no_wait: bool = False,
        signature: str | Path | None = None,
    ) -> Run:
        """Create a run and drive it in the background. Raises `PodiumError` for everything known beforehand.

        `if_exists`: "resume" continues the run with this id, if it has been created with the same workflow and inputs;
        one that has completed is returned as it is. `workspace`: where commands run, by default the current folder.
        `needs_approval`: it starts only when its plan was approved (`Run.approve`), also if the workflow does not ask
        for it. `no_wait`: leave the run as soon as only a person can make progress. `signature`: a file that
        `podium sign` wrote.
        """
        flow = self._workflow(workflow, workspace)
        given = check_inputs(inputs or {}, flow.plan.workflow, sources=SOURCES)
        await may_start(self._parts, self._tenant)
        if if_exists == "resume" and run_id is not None:
            existing = await self._existing(run_id, flow, given, no_wait=no_wait)
            if existing is not None:
                return existing
        folder = Path(workspace) if workspace is not None else Path.cwd()
        await self._parts.require_needs(flow.plan, folder)
        request = RunRequest(
            flow.plan,
            given,
            run_id,
            flow.source,
            folder,
            self._tenant,
            needs_approval=needs_approval,
            signatures=_read_signatures(signature),
        )
        return await self._start(request, no_wait=no_wait)

    async def resume(
        self,
        run_id: str,
        *,
        workflow: Workflow | str | Path | None = None,
        force: bool = False,
        budgets: Sequence[str] = (),
        workspace: str | Path | None = None,
        no_wait: bool = False,
        signature: str | Path | None = None,
    ) -> Run:
        """Continue a run that was interrupted, paused, cancelled, has failed or is out of budget, and drive it here.

        `workflow`, `force`, `budgets` (`"usd=5"`), `workspace` and `signature` (of the workflow) are those of
        `podium resume`. Raises `RunLocked` if another process drives the run; one that it has paused continues there,
        and is followed.
        """
        from podium.operations.budgets import parse_budget

        flow = self._workflow(workflow, workspace) if workflow is not None else None
        ready = await resume_run(
            self._parts,
            self._tenant,
            run_id,
            workflow=Replacement(flow.plan, flow.source, force, _read_signatures(signature))
            if flow is not None
            else None,
            budgets=parse_budget(budgets) if budgets else None,
            workspace=Path(workspace) if workspace is not None else None,
        )
        drive = Drive(self._session, ready.run_id)
        drive.begin(ready, no_wait=no_wait)
        if ready.followed_from is None:
            await drive.started()
        return Run(self._session, drive)

    async def rerun(
        self,
        run_id: str,
        *,
        from_step: str | None = None,
        new_id: str | None = None,
        no_wait: bool = False,
        signature: str | Path | None = None,
    ) -> Run:
        """A new run of what was run before, from a step on or from the start. The earlier run stays as it is."""
        from podium.operations.rerunning import rerun_request

        signatures = _read_signatures(signature)
        request = await rerun_request(
            self._parts, self._tenant, run_id, from_step, new_id, signatures=signatures
        )
        return await self._start(request, no_wait=no_wait)

    @property
    def engine(self) -> WorkflowEngine:
        """For programs that start runs of published plans and do not wait for them."""
        from podium.operations.engine_runs import EngineRuns
        from podium.wiring.plans import plan_loader

        return EngineRuns(self._parts, plan_loader, self._session.begin)

    async def get(self, run_id: str) -> Run:
        """A run of the store, whichever process drives it. Raises `RunNotFound`."""
        found = await self._parts.store.runs.find(self._tenant, run_id)
        return Run(self._session, Drive(self._session, found.identity.run_id))

    async def __aenter__(self) -> "Podium":
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        try:
            await self._session.end(interrupt=error is not None)
        finally:
            await self._parts.store.close()
        if error is None:
            for drive in self._session.drives:
                drive.raise_unknown_error()

    async def _start(self, request: RunRequest, *, no_wait: bool) -> Run:
        ready = await start_run(self._parts, request, notify=log_notice)
        drive = Drive(self._session, ready.run_id)
        drive.begin(ready, no_wait=no_wait)
        return Run(self._session, drive)

    async def _existing(
        self, run_id: str, flow: Workflow, inputs: Mapping[str, Any], *, no_wait: bool
    ) -> Run | None:
        run = await known_run(self._parts, self._tenant, run_id)
        if run is None:
            return None
        if (run.plan_sha256, run.inputs_sha256) != (_sha256(flow.plan), canonical_sha256(dict(inputs))):
            raise RunRequestConflict(
                f"run {run_id!r} exists and was started with another workflow or other inputs; continue it with "
                f"`resume({run_id!r})`, or `resume({run_id!r}, workflow=...)` with this one, or use another id"
            )
        if run.status is RunStatus.COMPLETED:
            return Run(self._session, Drive(self._session, run.identity.run_id))
        return await self.resume(run_id, no_wait=no_wait)

    def _workflow(self, workflow: Workflow | str | Path, workspace: str | Path | None) -> Workflow:
        if isinstance(workflow, Workflow):
            return workflow
        return Workflow.load(workflow, workspace=workspace, providers=self._providers, nodes=self._nodes)


def _read_signatures(file: str | Path | None) -> bytes | None:
    """Raises OSError."""
    if file is None:
        return None
    from podium.access.signatures import MAX_BYTES as MAX_SIGNATURE_BYTES

    with Path(file).open("rb") as opened:
        return opened.read(MAX_SIGNATURE_BYTES + 1)


def _sha256(plan: Plan) -> str:
    return sha256(plan_bytes(plan)).hexdigest()
