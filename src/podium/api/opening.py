"""Opening a store, and the functions that open one, run a workflow and close it again."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from podium.api.options import (
    Functions,
    OpenOptions,
    Providers,
    ResumeOptions,
    ResumeRunOptions,
    RunOptions,
    StartOptions,
)
from podium.api.podium import Podium
from podium.api.session import Session, log
from podium.api.workflows import Workflow
from podium.log.engines import CONDUCTOR, LOCAL, TEMPORAL
from podium.log.ids import DEFAULT_TENANT, check_id
from podium.operations.blocking import blocking
from podium.operations.functions import registered
from podium.operations.parts import Parts
from podium.operations.results import Result
from podium.ports.engine import Engine
from podium.ports.store import Store
from podium.wiring.agents import providers_with, recordings_in
from podium.wiring.nodes import nodes_with
from podium.wiring.server_engines import conductor_connection, server_engine, temporal_connection
from podium.wiring.stores import open_store, runs_folder, store_url, use_configured_folders
from podium.wiring.use_cases import use_case_parts

if TYPE_CHECKING:
    from podium.access.actors import Actor
    from podium.nodes.registry import NodeClass


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
        recordings = recordings_in(_path(record), _path(replay), continues=True)
        connected = await open_store(where, create=True)
        parts = use_case_parts(
            connected,
            folder,
            log.warning,
            engine=elsewhere(connected, folder, where) if engine != LOCAL else None,
            recordings=recordings,
            functions=calls,
            providers=providers_with(providers) if providers else None,
            nodes=nodes_with(nodes) if nodes else None,
            actor=actor,
        )
        if actor is not None or not parts.is_owner:
            await _identified(parts)
        parts.engine()  # imported now: decisions must be valid at the moment in which the run is driven
        async with Podium(Session(parts, where, tenant), tuple(providers or ()), nodes) as podium:
            yield podium

    return opened()


async def _identified(parts: Parts) -> None:
    """Refuse an unknown actor before anything else."""
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
    """The options that are declared in `kind`."""
    return {name: value for name, value in options.items() if name in kind.__annotations__}


def _runs_of(store: str | Path | None, runs: str | Path | None) -> Path:
    if runs is None and store is not None and "://" not in str(store):
        return runs_folder(None, default=Path(str(store).removeprefix("sqlite:")).parent)
    return runs_folder(_path(runs))


def _path(given: str | Path | None) -> Path | None:
    return Path(given) if given is not None else None
