"""Podium as a library: the use cases of `operations` for Python programs.

    import podium
    result = podium.run("flow.yaml", inputs={"city": "Oslo"})

    async with podium.open("runs/podium.db") as p:
        run = await p.start(podium.Workflow.load("flow.yaml"), run_id="nightly-1")
        result = await run.wait()

A run that fails is a result. An invalid workflow or input, a run that another process drives and a store that does not
answer raise the `PodiumError` whose code the command line prints. Nothing here is shared between two calls of `open`.
"""

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, Unpack
from uuid import uuid4

from podium.errors import RunRequestConflict
from podium.language.diagnostics import Diagnostic, Severity
from podium.language.reader import MAX_BYTES
from podium.log.engines import CONDUCTOR, LOCAL, TEMPORAL
from podium.log.ids import DEFAULT_TENANT, RunId, check_id
from podium.log.transitions import RunStatus
from podium.operations.blocking import blocking
from podium.operations.drive import LOOK_SECONDS, OnDriving, ReadyRun, Watch, drive
from podium.operations.explaining import Explanation
from podium.operations.functions import registered
from podium.operations.inputs import InvalidInput, check_inputs
from podium.operations.parts import Parts
from podium.operations.results import Event, Result, events_from, read_result
from podium.operations.resume import Replacement, resume_run
from podium.operations.runs import known_run
from podium.operations.start import may_start, start_run
from podium.operations.workflows import require_workflow
from podium.plan.canonical import canonical_sha256
from podium.plan.loading import plan_bytes
from podium.plan.plan import Plan
from podium.ports.engine import (
    LEFT,
    Driving,
    Engine,
    Notice,
    RunEnded,
    RunRequest,
    SignalRequest,
    WorkflowEngine,
)
from podium.ports.provider import Provider
from podium.ports.store import Store
from podium.wiring import (
    conductor_connection,
    installed_providers,
    node_registry,
    nodes_with,
    open_store,
    providers_with,
    recordings_in,
    runs_folder,
    server_engine,
    store_url,
    temporal_connection,
    use_case_parts,
    use_configured_folders,
)

if TYPE_CHECKING:
    from podium.access.actors import Actor
    from podium.nodes.registry import NodeClass

# What JSON leaves as it is and YAML does not take.
_NOT_IN_YAML: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow that has been checked completely and can be run."""

    name: str
    plan: Plan
    source: bytes
    warnings: tuple[Diagnostic, ...] = ()

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        workspace: str | Path | None = None,
        providers: Sequence[str] = (),
        nodes: "Sequence[NodeClass]" = (),
    ) -> "Workflow":
        """Read a file. Raises `InvalidWorkflow` with every problem at its position, and OSError.

        `providers`: names that will be given to `open` or `run`, besides those built in or installed. `nodes`: the same
        for the nodes of a contract.
        """
        with Path(path).open("rb") as file:
            # One byte more than may be read is enough to see that a file is too large.
            content = file.read(MAX_BYTES + 1)
        return cls._read(content, str(path), workspace, providers, nodes)

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        name: str = "<text>",
        workspace: str | Path | None = None,
        providers: Sequence[str] = (),
        nodes: "Sequence[NodeClass]" = (),
    ) -> "Workflow":
        """Read YAML text. Files that it names are looked for in the workspace."""
        # Half of a surrogate pair is reported with its position, like any other byte that is not UTF-8.
        return cls._read(text.encode(errors="surrogatepass"), name, workspace, providers, nodes)

    @classmethod
    def from_dict(
        cls,
        workflow: Mapping[str, Any],
        *,
        name: str = "<dict>",
        workspace: str | Path | None = None,
        providers: Sequence[str] = (),
    ) -> "Workflow":
        """Made of plain data. Positions in messages are those in the same data written as indented JSON."""
        try:
            text = json.dumps(workflow, indent=2, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidInput(
                f"the workflow is not plain data: {error}; use dict, list, str, int, float, bool and None"
            ) from error
        text = _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
        return cls.parse(text, name=name, workspace=workspace, providers=providers)

    @classmethod
    def _read(
        cls,
        content: bytes,
        name: str,
        workspace: str | Path | None,
        providers: Sequence[str],
        nodes: "Sequence[NodeClass]",
    ) -> "Workflow":
        def known() -> tuple[str, ...]:
            return (*providers, *installed_providers())

        folder = Path(workspace) if workspace is not None else None
        reading = require_workflow(
            content,
            name,
            workspace=folder,
            installed_providers=known,
            nodes=node_registry(nodes) if nodes else None,
        )
        assert reading.plan is not None
        warnings = tuple(one for one in reading.diagnostics if one.severity is Severity.WARNING)
        return cls(reading.plan.metadata.name, reading.plan, content, warnings)


Functions: TypeAlias = Mapping[str, Callable[..., Any]]
Providers: TypeAlias = Mapping[str, Provider]


class OpenOptions(TypedDict, total=False):
    """What `open` takes."""

    store: str | Path | None
    runs: str | Path | None
    functions: Functions | None
    providers: Providers | None
    nodes: "Sequence[NodeClass]"
    record: str | Path | None
    replay: str | Path | None
    engine: Literal["local", "temporal", "conductor"]
    address: str
    namespace: str
    url: str
    queue: str
    shared_runs: bool
    tenant: str
    actor: "str | Actor | None"


class StartOptions(TypedDict, total=False):
    """What `Podium.start` takes."""

    inputs: Mapping[str, Any] | None
    run_id: str | None
    if_exists: Literal["error", "resume"]
    workspace: str | Path | None
    needs_approval: bool
    no_wait: bool
    signature: str | Path | None


class ResumeOptions(TypedDict, total=False):
    """What `Podium.resume` takes."""

    workflow: Workflow | str | Path | None
    force: bool
    budgets: Sequence[str]
    workspace: str | Path | None
    no_wait: bool
    signature: str | Path | None


class RunOptions(OpenOptions, StartOptions, total=False):
    """What `run` takes."""


class ResumeRunOptions(OpenOptions, ResumeOptions, total=False):
    """What `resume` takes."""


def _read_signatures(file: str | Path | None) -> bytes | None:
    """Raises OSError."""
    if file is None:
        return None
    from podium.access.signatures import MAX_BYTES as MAX_SIGNATURE_BYTES

    with Path(file).open("rb") as opened:
        return opened.read(MAX_SIGNATURE_BYTES + 1)


_log: Final = logging.getLogger("podium")


@dataclass(frozen=True, slots=True)
class AcceptedSignal:
    """What `Run.signal` returns."""

    signal_id: str
    # It had been accepted before: nothing was done now.
    duplicate: bool
    # Of RETRY_RUN: the run that it has created.
    new_run_id: str | None = None


class Run:
    """A run of an opened store. `start`, `resume` and `rerun` give one that is driven here, `get` any other."""

    def __init__(self, podium: "Podium", run_id: RunId) -> None:
        self.run_id = str(run_id)
        self._podium = podium
        self._parts = podium._parts
        self._task: asyncio.Task[RunEnded] | None = None
        self._driving: Driving | None = None
        # How often the tasks that wait for it were cancelled.
        self._interrupts = 0
        # Set, and replaced by a new one, whenever there may be something new in the log.
        self._changed = asyncio.Event()
        # Whether the program has learnt how it ended.
        self._is_known = False

    def __repr__(self) -> str:
        return f"<podium.Run {self.run_id!r}>"

    async def events(self, *, after: int = 0) -> AsyncIterator[Event]:
        """Its events from the first on, or from `after` on, until it has ended. To stop reading cancels nothing."""
        while True:
            changed, is_over = self._changed, await self._is_over()
            async for event in events_from(self._parts.store, RunId(self.run_id), after):
                after = event.seq
                yield event
            if is_over:
                return
            await self._next_change(changed)

    async def wait(self) -> Result:
        """Wait until it has ended. Cancelling the task that waits for a run driven here cancels the run, as Ctrl-C
        does `podium run`: steps are ended, `finally` runs, and then the task is cancelled. Cancelled twice, the run is
        killed. A run that another process drives is not touched.
        """
        if self._task is None:
            while not await self._is_over():
                await self._next_change(self._changed)
            return await self._podium._result(RunId(self.run_id), None)
        was_cancelled = False
        while not self._task.done():
            try:
                await asyncio.wait({self._task})
            except asyncio.CancelledError:
                was_cancelled = True
                self._interrupt()
        self._is_known = True
        if was_cancelled:
            raise asyncio.CancelledError
        ended = self._task.result()
        return await self._podium._result(ended.run_id, ended)

    async def why(self) -> Explanation:
        """What it waits for, until when, and what one can do about it; of one that has ended, why it did."""
        from podium.operations.explaining import explain

        return await explain(self._parts, self._podium._tenant, self.run_id)

    async def plan_sha256(self) -> str:
        """The SHA-256 of its plan, which an approval of the plan has to name."""
        return (await self._parts.store.get_run(RunId(self.run_id))).plan_sha256

    async def status(self) -> str:
        """PENDING, APPROVED, RUNNING, PAUSED, COMPLETED, FAILED or CANCELLED."""
        return (await self._parts.store.get_run(RunId(self.run_id))).status.value

    async def pause(self, reason: str | None = None) -> None:
        """Running steps finish, no new ones start."""
        await self._signal("PAUSE", reason=reason)

    async def resume(self) -> None:
        """Continue after `pause`. An interrupted run is continued by `Podium.resume`."""
        await self._signal("RESUME")

    async def cancel(self, reason: str | None = None) -> None:
        """Ask for its end: steps are ended, `finally` runs. `wait` tells when it has ended."""
        from podium.operations.cancel import cancel_run

        asked = await cancel_run(self._parts, self._podium._tenant, self.run_id, reason=reason)
        if asked.ready is not None and self._task is None:
            self._begin(asked.ready)

    async def approve(
        self,
        step: str | None = None,
        *,
        form: Mapping[str, Any] | None = None,
        plan_sha256: str | None = None,
        reason: str | None = None,
        by: str | None = None,
    ) -> None:
        """Say yes to an approval step, which may be left out if only one waits. `by` is recorded as a claim.

        `plan_sha256`: of a run that waits for the approval of its plan: the plan that is approved.
        """
        answers = dict(form) if form is not None else None
        await self._signal(
            "APPROVE", stepId=step, form=answers, planSha256=plan_sha256, reason=reason, claimedBy=by
        )

    async def reject(
        self,
        step: str | None = None,
        *,
        reason: str | None = None,
        to: str | None = None,
        by: str | None = None,
    ) -> None:
        """Say no to an approval step, or to the plan of a run that waits for its approval: then it never starts.

        `to`: go back to this step instead of failing.
        """
        await self._signal("REJECT", stepId=step, reason=reason, to=to, claimedBy=by)

    async def retry_step(self, step: str, *, force: bool = False) -> None:
        """Start the next attempt of a step now. `force`: also of one that has completed."""
        await self._signal("RETRY_STEP", stepId=step, force=force or None)

    async def skip_step(self, step: str, *, reason: str | None = None) -> None:
        await self._signal("SKIP_STEP", stepId=step, reason=reason)

    async def signal(
        self,
        signal_type: str,
        payload: Mapping[str, Any] | None = None,
        *,
        signal_id: str | None = None,
        reason: str | None = None,
    ) -> "AcceptedSignal":
        """Send any signal, as `podium signal` does. Raises the `PodiumError` of a refusal.

        `signal_id`: an id of yours; the same id with the same content is one signal, however often it is sent.
        `reason`: the same as `reason` in the payload. The new run of a RETRY_RUN is driven here.
        """
        from podium.operations.signals import request_signal

        body = dict(payload or {})
        if reason is not None and body.setdefault("reason", reason) != reason:
            raise InvalidInput("the payload has another `reason`; give it once")
        request = SignalRequest(signal_id=signal_id or str(uuid4()), signal_type=signal_type, payload=body)
        sent = await request_signal(self._parts, self._podium._tenant, self.run_id, request)
        if sent.new_run is not None and sent.to_drive:
            await self._podium._begin(ReadyRun(sent.new_run))
        return AcceptedSignal(sent.signal_id, sent.duplicate, sent.new_run)

    async def _signal(self, signal_type: str, **payload: Any) -> None:
        from podium.operations.signals import signal_run

        await signal_run(self._parts, self._podium._tenant, self.run_id, signal_type, **payload)

    # --- driving ----------------------------------------------------------------------------------

    def _begin(self, ready: ReadyRun, *, no_wait: bool = False) -> None:
        watch = Watch(
            observers=[self._has_changed],
            interrupts=self._interruptible,
            no_wait=no_wait,
            notify=_log_notice,
        )
        self._task = asyncio.create_task(drive(self._parts, ready, watch), name=f"podium-{self.run_id}")
        self._task.add_done_callback(self._has_changed)
        self._podium._runs.append(self)

    async def _is_ours(self) -> None:
        """Wait until this process drives the run. Raises what keeps it from that."""
        assert self._task is not None
        try:
            while self._driving is None and not self._task.done():
                await self._changed.wait()
        except asyncio.CancelledError:
            # It has waited for another process: there is nothing to be cancelled in the run.
            self._task.cancel()
            raise
        if self._driving is None:
            self._is_known = True
            self._task.result()

    def _interruptible(self) -> AbstractContextManager[OnDriving | None]:
        def on_driving(driving: Driving) -> None:
            self._driving = driving
            self._has_changed()
            if self._interrupts:
                driving.cancel("interrupted", force=self._interrupts > 1)

        return nullcontext(on_driving)

    def _interrupt(self) -> None:
        self._interrupts += 1
        if self._driving is not None:
            self._driving.cancel("interrupted", force=self._interrupts > 1)

    async def _is_over(self) -> bool:
        if self._task is not None:
            return self._task.done()
        run = await self._parts.store.get_run(RunId(self.run_id))
        return run.status in (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED)

    @property
    def _task_is_done(self) -> bool:
        return self._task is None or self._task.done()

    def _has_changed(self, _what: object = None) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _next_change(self, changed: asyncio.Event) -> None:
        if self._task is not None:
            await changed.wait()
        else:
            await asyncio.sleep(LOOK_SECONDS)


class Podium:
    """An opened store. Runs that it starts are driven in this event loop; leaving it waits for them, or cancels them if
    an exception leaves it."""

    def __init__(
        self,
        parts: Parts,
        store: str,
        providers: Sequence[str] = (),
        tenant: str = DEFAULT_TENANT,
        nodes: "Sequence[NodeClass]" = (),
    ) -> None:
        self._parts = parts
        self._store = store
        self._tenant = tenant
        # The names of those that the program brings.
        self._providers = providers
        self._nodes = nodes
        self._runs: list[Run] = []

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
        given = check_inputs(inputs or {}, flow.plan.workflow)
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
        run = Run(self, ready.run_id)
        run._begin(ready, no_wait=no_wait)
        if ready.followed_from is None:
            await run._is_ours()
        return run

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
        from podium.wiring import plan_loader

        return EngineRuns(self._parts, plan_loader, self._begin)

    async def _begin(self, ready: ReadyRun) -> None:
        """Without waiting for it. Here, unless it is driven elsewhere."""
        is_here = any(run.run_id == ready.run_id and not run._task_is_done for run in self._runs)
        if not is_here and not await self._parts.engine().begin(ready.run_id):
            Run(self, ready.run_id)._begin(ready)

    async def get(self, run_id: str) -> Run:
        """A run of the store, whichever process drives it. Raises `RunNotFound`."""
        found = await self._parts.store.runs.find(self._tenant, run_id)
        return Run(self, found.identity.run_id)

    async def __aenter__(self) -> "Podium":
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        try:
            await self._end_runs(interrupt=error is not None)
        finally:
            await self._parts.store.close()
        if error is None:
            for run in self._runs:
                if run._task is not None and not run._is_known:
                    run._task.result()

    async def _end_runs(self, *, interrupt: bool) -> None:
        was_cancelled = False
        while open_runs := [run for run in self._runs if run._task is not None and not run._task.done()]:
            if interrupt:
                for run in open_runs:
                    run._interrupt()
            try:
                await asyncio.wait([run._task for run in open_runs if run._task is not None])
            except asyncio.CancelledError:
                was_cancelled = interrupt = True
        if was_cancelled:
            raise asyncio.CancelledError

    async def _start(self, request: RunRequest, *, no_wait: bool) -> Run:
        ready = await start_run(self._parts, request, notify=_log_notice)
        run = Run(self, ready.run_id)
        run._begin(ready, no_wait=no_wait)
        return run

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
            return Run(self, run.identity.run_id)
        return await self.resume(run_id, no_wait=no_wait)

    def _workflow(self, workflow: Workflow | str | Path, workspace: str | Path | None) -> Workflow:
        if isinstance(workflow, Workflow):
            return workflow
        return Workflow.load(workflow, workspace=workspace, providers=self._providers, nodes=self._nodes)

    async def _result(self, run_id: RunId, ended: RunEnded | None) -> Result:
        left = ended.reason if ended is not None and ended.event_type == LEFT else None
        return await read_result(self._parts, run_id, partial(_read_log, self._store, run_id), left=left)


def open(  # noqa: A001 - called `podium.open`
    store: str | Path | None = None,
    *,
    runs: str | Path | None = None,
    functions: Functions | None = None,
    providers: Providers | None = None,
    nodes: "Sequence[NodeClass]" = (),
    record: str | Path | None = None,
    replay: str | Path | None = None,
    engine: Literal["local", "temporal", "conductor"] = LOCAL,
    address: str | None = None,
    namespace: str | None = None,
    url: str | None = None,
    queue: str | None = None,
    shared_runs: bool = False,
    tenant: str = DEFAULT_TENANT,
    actor: "str | Actor | None" = None,
) -> AbstractAsyncContextManager[Podium]:
    """Open a store, to be used in `async with`.

    `store`: a path or `postgresql://...`, by default PODIUM_STORE, else `podium.db` where runs are kept. `runs`: where
    runs are kept, by default PODIUM_RUNS, else the folder of a store that is a file, else `runs`.
    `functions`: what Python steps call by name. `providers`: who answers agent steps, by the name that workflows use.
    `nodes`: node classes that contracts may name, besides those that are installed.
    `record`, `replay`: a folder to which answers of agents go, or from which they come.
    `engine`: "temporal" runs workflows on a Temporal server, by default the one that PODIUM_TEMPORAL_ADDRESS and
    PODIUM_TEMPORAL_NAMESPACE name, "conductor" on a Conductor server, by default that of PODIUM_CONDUCTOR_URL.
    `address`, `namespace`, `url`, `queue` and `shared_runs` are the options of `podium run`.
    `tenant`: whose runs. `actor`: for whom the program acts, a name or an `Actor`; by default the holder of
    PODIUM_TOKEN, else the user that the process runs as. Rules about access decide by this name.
    """
    check_id("tenant_id", tenant)
    if engine != LOCAL and (functions or providers or nodes or record or replay):
        raise ValueError(
            "functions, providers, nodes, record and replay need engine='local': workers do not have them"
        )
    if record is not None and replay is not None:
        raise ValueError("record asks agents and replay does not: give one of them")
    calls = registered(functions or {})

    if (url is not None and engine == TEMPORAL) or ((address or namespace) and engine == CONDUCTOR):
        raise ValueError("url is for engine='conductor', address and namespace are for engine='temporal'")

    def elsewhere(connected: Store, folder: Path, where: str) -> Callable[[], Engine]:
        connection = (
            conductor_connection(url, queue)
            if engine == CONDUCTOR
            else temporal_connection(address, namespace, queue)
        )
        return partial(server_engine, connected, folder, where, connection, shared_runs=shared_runs)

    @asynccontextmanager
    async def opened() -> AsyncIterator[Podium]:
        folder = _runs_of(store, runs)
        where = store_url(str(store) if store is not None else None, folder)
        use_configured_folders()
        recordings = recordings_in(_path(record), _path(replay), goes_on=True)
        connected = await open_store(where, create=True)
        parts = use_case_parts(
            connected,
            folder,
            _log.warning,
            engine=elsewhere(connected, folder, where) if engine != LOCAL else None,
            recordings=recordings,
            functions=calls,
            providers=providers_with(providers) if providers else None,
            nodes=nodes_with(nodes) if nodes else None,
            actor=actor,
        )
        if actor is not None or not parts.is_owner:
            await _identified(parts)
        parts.engine()  # loaded now: what is decided about a run holds at the moment in which it is driven
        async with Podium(parts, where, tuple(providers or ()), tenant, nodes) as podium:
            yield podium

    return opened()


async def _identified(parts: Parts) -> None:
    """An actor who is not known is refused before anything else."""
    try:
        parts.access()
    except BaseException:
        await parts.store.close()
        raise


async def run_async(workflow: Workflow | str | Path, **options: Unpack[RunOptions]) -> Result:
    """Run a workflow and wait for its end. Cancelling the task cancels the run (see `Run.wait`)."""
    async with open(**_of(OpenOptions, options)) as podium:
        return await (await podium.start(workflow, **_of(StartOptions, options))).wait()


async def resume_async(run_id: str, **options: Unpack[ResumeRunOptions]) -> Result:
    """Resume a run and wait for its end."""
    async with open(**_of(OpenOptions, options)) as podium:
        return await (await podium.resume(run_id, **_of(ResumeOptions, options))).wait()


def run(workflow: Workflow | str | Path, **options: Unpack[RunOptions]) -> Result:
    """Run a workflow and wait for its end; blocks. Takes all that `Podium.start` and `open` take.

    Ctrl-C cancels the run, waits for its end and raises KeyboardInterrupt. Inside a running event loop (a notebook) it
    works in a thread of its own, and the loop waits for it: use `run_async` or `open` where that must not be.
    """
    return blocking(lambda: run_async(workflow, **options))


def resume(run_id: str, **options: Unpack[ResumeRunOptions]) -> Result:
    """Resume a run and wait for its end; blocks, as `run` does. Takes all that `Podium.resume` and `open` take."""
    return blocking(lambda: resume_async(run_id, **options))


def _of(kind: Any, options: Mapping[str, Any]) -> Any:
    """Those of the options that are declared there."""
    return {name: value for name, value in options.items() if name in kind.__annotations__}


def _runs_of(store: str | Path | None, runs: str | Path | None) -> Path:
    if runs is None and store is not None and "://" not in str(store):
        return runs_folder(None, default=Path(str(store).removeprefix("sqlite:")).parent)
    return runs_folder(_path(runs))


def _path(given: str | Path | None) -> Path | None:
    return Path(given) if given is not None else None


def _sha256(plan: Plan) -> str:
    return sha256(plan_bytes(plan)).hexdigest()


async def _read_log(url: str, run_id: RunId) -> list[Event]:
    store = await open_store(url)
    try:
        return [event async for event in events_from(store, run_id)]
    finally:
        await store.close()


def _log_notice(notice: Notice) -> None:
    _log.warning(notice.text)
