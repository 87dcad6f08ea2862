"""Engines whose runs are executed by workers of a server: Temporal and Conductor."""

import os
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from podium.errors import InvalidConfiguration
from podium.log.engines import CONDUCTOR, TEMPORAL
from podium.ports.engine import Engine
from podium.ports.store import Store
from podium.wiring.engines import worker_parts
from podium.wiring.plans import plan_loader, signing_rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from podium.engines.conductor.connection import Connection as ConductorConnection
    from podium.engines.conductor.engine import ConductorEngine
    from podium.engines.conductor.names import Domain
    from podium.engines.conductor.worker import ConductorWorker
    from podium.engines.temporal.connection import Connection
    from podium.engines.temporal.engine import TemporalEngine
    from podium.engines.temporal.names import Queues
    from podium.engines.temporal.worker import TemporalWorker
    from podium.log.runs import Run
    from podium.operations.parts import Parts
    from podium.ports.engine import EngineTrouble


def temporal_engine(
    store: Store, runs: Path, url: str, connection: "Connection", *, shared_runs: bool
) -> "TemporalEngine":
    """`url`: that of the store. Raises `ExtraMissing`."""
    require_client(TEMPORAL)
    from podium.engines.temporal.engine import TemporalEngine

    return TemporalEngine(
        worker_parts(store, runs), connection, _queues(connection, url, runs, shared=shared_runs)
    )


def temporal_connection(address: str | None, namespace: str | None, queue: str | None) -> "Connection":
    """What is not given is taken from the environment, as for the commands."""
    from podium.engines.temporal import DEFAULT_ADDRESS, DEFAULT_NAMESPACE, DEFAULT_QUEUE
    from podium.engines.temporal.connection import Connection

    return Connection(
        address or os.environ.get("PODIUM_TEMPORAL_ADDRESS") or DEFAULT_ADDRESS,
        namespace or os.environ.get("PODIUM_TEMPORAL_NAMESPACE") or DEFAULT_NAMESPACE,
        queue or DEFAULT_QUEUE,
        api_key=os.environ.get("PODIUM_TEMPORAL_API_KEY") or None,
    )


def temporal_worker(
    store: Store, runs: Path, url: str, connection: "Connection", *, shared_runs: bool, drain: float
) -> "TemporalWorker":
    """`drain`: how many seconds running attempts have when it is stopped."""
    require_client(TEMPORAL)
    from podium.engines.temporal.worker import TemporalWorker
    from podium.operations.signed_runs import signed_plan_of

    queues = _queues(connection, url, runs, shared=shared_runs)
    parts = worker_parts(store, runs)
    plan_of = partial(signed_plan_of, plan_loader().plan_of, signing_rules, parts.clock)
    return TemporalWorker(parts, connection, queues, plan_of, drain=timedelta(seconds=drain))


def conductor_engine(
    store: Store, runs: Path, url: str, connection: "ConductorConnection", *, shared_runs: bool
) -> "ConductorEngine":
    """`url`: that of the store. Raises `ExtraMissing`."""
    require_client(CONDUCTOR)
    from podium.engines.conductor.engine import ConductorEngine

    return ConductorEngine(
        worker_parts(store, runs), connection, _domain(connection, url, runs, shared=shared_runs)
    )


def conductor_connection(
    url: str | None, queue: str | None, token: str | None = None
) -> "ConductorConnection":
    """What is not given is taken from the environment, as for the commands."""
    from podium.engines.conductor import DEFAULT_QUEUE, DEFAULT_URL
    from podium.engines.conductor.connection import Connection

    return Connection(
        url or os.environ.get("PODIUM_CONDUCTOR_URL") or DEFAULT_URL,
        queue or DEFAULT_QUEUE,
        token or os.environ.get("PODIUM_CONDUCTOR_TOKEN") or None,
    )


def conductor_worker(
    parts: "Parts",
    runs: Path,
    url: str,
    connection: "ConductorConnection",
    *,
    shared_runs: bool,
    slots: int,
    decides: bool,
    drain: float,
) -> "ConductorWorker":
    """`drain`: how many seconds running attempts have when it is stopped. Changes on Conductor's page are
    signals by the user who runs the worker.
    """
    require_client(CONDUCTOR)
    from podium.engines.conductor.worker import ConductorWorker
    from podium.operations.engine_wishes import send_wish
    from podium.operations.signed_runs import signed_plan_of

    local = worker_parts(parts.store, runs)
    plan_of = partial(signed_plan_of, plan_loader().plan_of, signing_rules, local.clock)
    return ConductorWorker(
        local,
        connection,
        _domain(connection, url, runs, shared=shared_runs),
        plan_of,
        partial(send_wish, parts),
        slots=slots,
        decides=decides,
        drain=timedelta(seconds=drain),
    )


def server_engine(
    store: Store, runs: Path, url: str, connection: "Connection | ConductorConnection", *, shared_runs: bool
) -> Engine:
    """The engine for the server of a connection."""
    from podium.engines.temporal.connection import Connection

    if isinstance(connection, Connection):
        return temporal_engine(store, runs, url, connection, shared_runs=shared_runs)
    return conductor_engine(store, runs, url, connection, shared_runs=shared_runs)


def require_client(engine: str) -> None:
    from podium.runtime.extras import ExtraMissing, has_extra, install_hint

    if not has_extra(engine):
        raise ExtraMissing(f"the engine {engine!r} needs its client: {install_hint(engine)}")


def _domain(connection: "ConductorConnection", url: str, runs: Path, *, shared: bool) -> "Domain":
    import socket

    from podium.engines.conductor.names import Domain
    from podium.engines.shared_runs import mark_of

    if not shared:
        return Domain.of_host(connection.queue, socket.gethostname())
    _require_shared_store(url)
    return Domain.of_shared_runs(connection.queue, mark_of(runs))


def _require_shared_store(url: str) -> None:
    if not url.startswith(("postgresql://", "postgres://")):
        raise InvalidConfiguration(
            "--shared-runs needs a store that all workers reach: a SQLite file is on one host; use PostgreSQL"
        )


def _queues(connection: "Connection", url: str, runs: Path, *, shared: bool) -> "Queues":
    import socket

    from podium.engines.shared_runs import mark_of
    from podium.engines.temporal.names import Queues

    if shared:
        _require_shared_store(url)
    if not url.startswith(("postgresql://", "postgres://")):
        return Queues.beside_store(connection.queue, socket.gethostname(), Path(url.removeprefix("sqlite:")))
    if shared:
        return Queues.of_shared_runs(connection.queue, mark_of(runs))
    return Queues.of_host(connection.queue, socket.gethostname())


def engine_of(store: Store, runs: Path, run: "Run") -> "Engine | None":
    """The engine of a run on a server; None for a run of this machine."""
    connection = connection_of(run)
    if connection is None:
        return None
    require_client(run.provider)
    from podium.engines.temporal.connection import Connection

    if isinstance(connection, Connection):
        from podium.engines.temporal.engine import TemporalEngine
        from podium.engines.temporal.names import Queues

        queues = Queues.of_run(run)
        return TemporalEngine(worker_parts(store, runs), connection, queues) if queues is not None else None
    from podium.engines.conductor.engine import ConductorEngine
    from podium.engines.conductor.names import Domain

    domain = Domain.of_run(run)
    return ConductorEngine(worker_parts(store, runs), connection, domain) if domain is not None else None


def connection_of(run: "Run", secret: str | None = None) -> "Connection | ConductorConnection | None":
    """The connection to the server on which a run was started; None for a run of this machine.

    `secret`: the API key or token, by default that of the environment.
    """
    facts = run.engine_facts
    if not facts:
        return None
    if run.provider == CONDUCTOR:
        from podium.engines.conductor.connection import Connection as ConductorConnection

        token = secret or os.environ.get("PODIUM_CONDUCTOR_TOKEN") or None
        return ConductorConnection.of_facts(facts, token)
    from podium.engines.temporal.connection import Connection

    return Connection.of_facts(facts, secret or os.environ.get("PODIUM_TEMPORAL_API_KEY") or None)


async def trouble_of(store: Store, run: "Run") -> "Sequence[EngineTrouble]":
    """Asks the server that is named in the run's row."""
    from podium.runtime.extras import has_extra

    connection = connection_of(run)
    if connection is None or not has_extra(run.provider):
        return ()
    from podium.engines.temporal.connection import Connection

    if isinstance(connection, Connection):
        from podium.engines.temporal.trouble import trouble_of

        return await trouble_of(run, connection, store)
    from podium.engines.conductor.trouble import trouble_of as trouble_on_conductor

    return await trouble_on_conductor(run, connection, await store.store_id())


async def remove_executions_of(store: Store, run: "Run") -> None:
    """Temporal removes its executions itself, after the retention period of the namespace."""
    from podium.engines.conductor.connection import Connection

    connection = connection_of(run)
    if not isinstance(connection, Connection):
        return
    require_client(run.provider)
    from podium.engines.conductor.removing import remove_executions

    await remove_executions(run, connection, await store.store_id())
