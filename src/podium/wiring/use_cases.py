"""The dependencies of `operations` in this process."""

import os
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from podium.configuration import configuration
from podium.ports.clock import Clock
from podium.ports.engine import Engine
from podium.ports.store import Store
from podium.ports.telemetry import SILENT, Telemetry
from podium.wiring.access import access_of, owns_everything
from podium.wiring.agents import all_providers
from podium.wiring.artifacts import artifact_bucket, payload_store
from podium.wiring.engines import local_engine, pool_creation
from podium.wiring.nodes import node_runtime
from podium.wiring.plans import secret_lookup, signing_rules
from podium.wiring.server_engines import engine_of, remove_executions_of, trouble_of
from podium.wiring.stores import system_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from podium.access.actors import Actor
    from podium.engines.pool_creation import PoolCreation
    from podium.operations.access import Access
    from podium.operations.on_limit import OnLimit
    from podium.operations.parts import Parts
    from podium.plan.plan import Plan
    from podium.ports.engine import RunRequest
    from podium.ports.provider import Providers
    from podium.ports.schedule_changes import PreparedRun
    from podium.ports.store import CreatedRun
    from podium.runtime.preflight import Readiness
    from podium.runtime.tasks.node_runtime import NodeRuntime
    from podium.runtime.tasks.recordings import Recordings


def open_telemetry(metrics: str | None, traces: str | None, notify: "Callable[[str], None]") -> Telemetry:
    """The telemetry of a serving process; imports nothing if there is none.

    Raises `ExtraMissing`, `InvalidConfiguration` and `MetricsUnavailable`.
    """
    if metrics is None and traces is None and not any(name.startswith("OTEL_") for name in os.environ):
        return SILENT
    from podium.telemetry.opening import open_telemetry

    return open_telemetry(metrics, traces, notify)


def server_telemetry(traces: str | None, notify: "Callable[[str], None]") -> Telemetry:
    """The telemetry of a server. Raises `ExtraMissing` and `InvalidConfiguration`."""
    from podium.telemetry.opening import server_telemetry

    return server_telemetry(traces, notify)


def use_case_parts(
    store: Store,
    runs: Path,
    notify: "Callable[[str], None]",
    *,
    engine: "Callable[[], Engine] | None" = None,
    recordings: "Recordings | None" = None,
    functions: "Mapping[str, Callable[..., Any]] | None" = None,
    providers: "Callable[[], Providers] | None" = None,
    nodes: "Callable[[], NodeRuntime] | None" = None,
    actor: "str | Actor | None" = None,
    telemetry: Telemetry = SILENT,
) -> "Parts":
    """The dependencies of `operations` in this process. `engine`: instead of the local one. `actor`: the
    caller, if the program knows it.
    """
    from podium.operations.parts import Parts

    clock = system_clock()
    access, is_owner = cache(partial(access_of, actor)), owns_everything(actor)
    engine = engine or partial(
        local_engine,
        store,
        clock,
        runs,
        recordings=recordings,
        functions=functions,
        providers=providers,
        nodes=nodes,
        telemetry=telemetry,
    )
    replays = recordings is not None and recordings.asks_no_one
    check = partial(
        check_run,
        replays=replays,
        functions=frozenset(functions or ()),
        providers=providers,
        nodes=nodes,
    )
    trouble = partial(trouble_of, store)
    creation = cache(partial(pool_creation, store, runs))
    return Parts(
        *(
            store if is_owner else _guarded(store, clock, access),
            clock,
            runs,
            cache(engine),
            payload_store,
            check,
            notify,
        ),
        bucket=artifact_bucket(),
        trouble_of=trouble,
        remove_executions=partial(remove_executions_of, store),
        engine_of=partial(engine_of, store, runs),
        signing=signing_rules,
        access=access,
        is_owner=is_owner,
        create_in_pool=partial(_create_in_pool, creation),
        prepare_for_pool=partial(_prepare_for_pool, creation),
        on_limit=_on_limit,
        workspace=Path.cwd(),
        telemetry=telemetry,
    )


def _on_limit() -> "OnLimit":
    return configuration().on_limit


async def _create_in_pool(creation: "Callable[[], PoolCreation]", request: "RunRequest") -> "CreatedRun":
    return await creation().create(request)


async def _prepare_for_pool(creation: "Callable[[], PoolCreation]", request: "RunRequest") -> "PreparedRun":
    return await creation().prepare(request)


def _guarded(store: Store, clock: Clock, access: "Callable[[], Access]") -> Store:
    from typing import cast

    from podium.operations.guarding import GuardedStore

    return cast("Store", GuardedStore(store, clock, access))


def check_run(
    plan: "Plan",
    workspace: Path,
    *,
    inputs: "Mapping[str, Any] | None" = None,
    replays: bool = False,
    functions: frozenset[str] = frozenset(),
    providers: "Callable[[], Providers] | None" = None,
    nodes: "Callable[[], NodeRuntime] | None" = None,
) -> "Readiness":
    """What is missing for a run of the plan here; the engine checks the same before it creates one."""
    from podium.plan.secret_inputs import secret_inputs
    from podium.runtime.preflight import Surroundings, check_needs

    secrets: Mapping[str, str] = secret_lookup()
    if inputs is not None and (declared := secret_inputs(plan.workflow)):
        from podium.runtime.secret_inputs import with_secret_inputs

        secrets = with_secret_inputs(secrets, declared, inputs)
    around = Surroundings(
        workspace,
        os.environ,
        secrets,
        providers or all_providers,
        replays=replays,
        functions=functions,
        bucket=artifact_bucket(),
        nodes=nodes or node_runtime,
    )
    return check_needs(plan, around)
