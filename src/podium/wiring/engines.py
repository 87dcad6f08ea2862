"""The engines that drive runs in this process."""

import os
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from podium.configuration import configuration, seconds_from, secret_sources
from podium.ports.clock import Clock
from podium.ports.engine import Engine
from podium.ports.store import Store
from podium.ports.telemetry import SILENT, Telemetry
from podium.wiring.agents import all_providers
from podium.wiring.artifacts import artifact_bucket, payload_store
from podium.wiring.nodes import node_runtime
from podium.wiring.plans import secret_lookup, secrets_of_worker
from podium.wiring.stores import system_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from podium.engines.parts import LocalParts
    from podium.engines.pool_creation import PoolCreation
    from podium.engines.run_host import HostView, RunHost
    from podium.ports.provider import Providers
    from podium.runtime.tasks.node_runtime import NodeRuntime
    from podium.runtime.tasks.recordings import Recordings
    from podium.secrets.configured import ConfiguredSecrets


def local_engine(
    store: Store,
    clock: Clock,
    runs: Path,
    *,
    lease: float | None = None,
    lock_wait: float | None = None,
    outage: float | None = None,
    recordings: "Recordings | None" = None,
    functions: "Mapping[str, Callable[..., Any]] | None" = None,
    providers: "Callable[[], Providers] | None" = None,
    nodes: "Callable[[], NodeRuntime] | None" = None,
    telemetry: Telemetry = SILENT,
) -> Engine:
    """Durations in seconds, else PODIUM_LEASE, PODIUM_LOCK_WAIT and PODIUM_STORE_OUTAGE, else the engine's own.

    `functions`: those of this process that Python steps call by name.
    """
    from podium.engines.local import LEASE, LOCK_WAIT, LocalEngine
    from podium.runtime.outages import OUTAGE
    from podium.runtime.run_artifacts import OUTAGE as ARTIFACT_OUTAGE

    return LocalEngine(
        store,
        clock,
        runs,
        secrets=secret_lookup(),
        lease=seconds_or(lease, "PODIUM_LEASE", LEASE),
        lock_wait=seconds_or(lock_wait, "PODIUM_LOCK_WAIT", LOCK_WAIT),
        outage=seconds_or(outage, "PODIUM_STORE_OUTAGE", OUTAGE),
        artifacts=payload_store,
        bucket=artifact_bucket(),
        artifact_outage=seconds_or(None, "PODIUM_ARTIFACT_OUTAGE", ARTIFACT_OUTAGE),
        artifact_ages=configuration().retention,
        providers=providers or all_providers,
        recordings=recordings,
        inline=dict(functions or {}),
        nodes=nodes or node_runtime,
        telemetry=telemetry,
    )


def worker_parts(store: Store, runs: Path) -> "LocalParts":
    from podium.engines.local import LEASE, LOCK_WAIT
    from podium.engines.parts import LocalParts
    from podium.runtime.outages import OUTAGE
    from podium.runtime.run_artifacts import OUTAGE as ARTIFACT_OUTAGE
    from podium.runtime.run_artifacts import parts_of

    bucket, outage = artifact_bucket(), seconds_or(None, "PODIUM_ARTIFACT_OUTAGE", ARTIFACT_OUTAGE)
    return LocalParts(
        store=store,
        clock=system_clock(),
        runs=runs,
        secrets=secrets_of_worker(),
        inline={},
        lease=seconds_or(None, "PODIUM_LEASE", LEASE),
        lock_wait=seconds_or(None, "PODIUM_LOCK_WAIT", LOCK_WAIT),
        outage=seconds_or(None, "PODIUM_STORE_OUTAGE", OUTAGE),
        artifacts=payload_store,
        bucket=bucket,
        bucket_of=parts_of(bucket, store, outage),
        artifact_ages=configuration().retention,
        providers=all_providers,
        recordings=None,
        nodes=node_runtime,
    )


async def waiting_notifications(store: Store, runs: Path) -> int:
    """Deliver what waits in a store; returns how many could not be delivered now."""
    from podium.engines.deliveries import Deliveries

    deliveries = Deliveries(worker_parts(store, runs), None)
    deliveries.wake()
    return await deliveries.deliver_waiting()


def pool_creation(store: Store, runs: Path) -> "PoolCreation":
    """Creates runs for the workers of pools. One per process, because it caches plans."""
    from podium.engines.pool_creation import PoolCreation

    return PoolCreation(worker_parts(store, runs))


def run_host(
    store: Store,
    runs: Path,
    *,
    pool: str,
    other_pools: "Sequence[str]" = (),
    tenants: frozenset[str] | None = None,
    slots: int | None = None,
    view: "HostView | None" = None,
    nodes: "Callable[[], NodeRuntime] | None" = None,
    telemetry: Telemetry = SILENT,
    shares: frozenset[str] | None = None,
) -> "RunHost":
    """Drives runs of pools in this process. `nodes`: instead of the installed ones.

    `shares`: the environment of this process belongs to no tenant, except for these variables and what the
    configuration says; None: it belongs to all.
    """
    from podium.engines.run_host import SLOTS, RunHost

    parts = replace(worker_parts(store, runs), telemetry=telemetry)
    if shares is not None:
        parts = _with_little_environment(parts, shares)
    if nodes is not None:
        parts = replace(parts, nodes=nodes)
    return RunHost(
        parts,
        pool=pool,
        other_pools=other_pools,
        tenants=tenants,
        slots=SLOTS if slots is None else slots,
        view=view,
    )


def _with_little_environment(parts: "LocalParts", shares: frozenset[str]) -> "LocalParts":
    from podium.configuration import configuration
    from podium.configuration.workers import WorkerSettings

    settings = configuration().workers or WorkerSettings()
    if not settings.inherit_environment:
        parts = replace(parts, shown_variables=shares)
    values = {name: os.environ[name] for name in shares if name in os.environ}
    return replace(parts, secrets_of=_secrets_of_tenants(settings.secrets_from_environment, values))


def _secrets_of_tenants(
    owners: frozenset[str], shared: dict[str, str]
) -> "Callable[[str], ConfiguredSecrets]":
    """`owners`: the tenants to which the environment belongs; `shared`: the part of it that the others get."""
    from podium.secrets.configured import ConfiguredSecrets

    @cache
    def of(tenant_id: str) -> ConfiguredSecrets:
        variables = None if tenant_id in owners else shared
        return ConfiguredSecrets(lambda: secret_sources(tenant_id), variables, reads_files=False)

    return of


def seconds_or(given: float | None, variable: str, default: timedelta) -> timedelta:
    if given is not None:
        return timedelta(seconds=given)
    return timedelta(seconds=seconds_from(variable, default.total_seconds()))
