"""The one place that picks real parts."""

import os
import re
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from podium.configuration import configuration, seconds_from
from podium.errors import InvalidConfiguration, PodiumError
from podium.log.engines import CONDUCTOR, TEMPORAL
from podium.permissions import use_permissions
from podium.ports.artifacts import ArtifactBucket, ArtifactStore
from podium.ports.clock import Clock
from podium.ports.engine import Engine
from podium.ports.store import Store
from podium.text import credentials_in, reason_of, shortened, without_credentials

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from podium.access.actors import Actor
    from podium.access.audit import AuditKey
    from podium.access.policy import AccessPolicy, TrustedKey
    from podium.artifacts.address import S3Address
    from podium.artifacts.s3 import S3Artifacts
    from podium.buses.kafka_settings import KafkaConnection
    from podium.engines.conductor.connection import Connection as ConductorConnection
    from podium.engines.conductor.engine import ConductorEngine
    from podium.engines.conductor.names import Domain
    from podium.engines.conductor.worker import ConductorWorker
    from podium.engines.parts import LocalParts
    from podium.engines.temporal.connection import Connection
    from podium.engines.temporal.engine import TemporalEngine
    from podium.engines.temporal.names import Queues
    from podium.engines.temporal.worker import TemporalWorker
    from podium.log.runs import Run
    from podium.nodes.registry import NodeClass, NodeRegistry
    from podium.operations.access import Access
    from podium.operations.parts import Parts
    from podium.operations.rebuilding import RebuiltRun
    from podium.operations.signed_runs import SigningRules
    from podium.plan.plan import Plan
    from podium.ports.bus import EventBus
    from podium.ports.engine import EngineTrouble
    from podium.ports.events_in import EventSource
    from podium.ports.plan_source import PlanSource
    from podium.ports.provider import Provider, Providers
    from podium.ports.secrets import SecretLookup
    from podium.providers.prices import Price
    from podium.runtime.plan_loading import PlanLoader
    from podium.runtime.preflight import Readiness
    from podium.runtime.tasks.node_runtime import NodeRuntime
    from podium.runtime.tasks.recordings import Recordings


def system_clock() -> Clock:
    from podium.stores.sqlite.clock import BootClock

    return BootClock()


STORE_FILE: Final = "podium.db"


class UnknownBus(PodiumError):
    """The address of a bus that is not supported."""

    code = "UNKNOWN_BUS"


class UnknownStore(PodiumError):
    """A store was named in a way nobody knows."""

    code = "UNKNOWN_STORE"


def store_url(given: str | None, runs: Path | None = None) -> str:
    """What was given, else PODIUM_STORE, else the file where runs are kept."""
    return given or os.environ.get("PODIUM_STORE") or f"sqlite:{runs_folder(runs) / STORE_FILE}"


async def open_store(url: str, *, create: bool = False) -> Store:
    """The store behind a path (`runs/podium.db`, `sqlite:PATH`) or an address (`postgresql://...`)."""
    if url.startswith(("postgresql://", "postgres://")):
        try:
            from podium.stores.postgres import PostgresStore
        except ImportError as error:
            raise UnknownStore("PostgreSQL needs an extra: pip install 'podium[postgres]'") from error
        _check_credentials(url)
        try:
            return await PostgresStore.open(url)
        except ValueError as error:  # an address that cannot be parsed
            raise UnknownStore(
                f"the address {without_credentials(url)[:200]!r} cannot be used{_reason_without(url, error)}"
            ) from error
    if "://" in url:
        shown = without_credentials(repr(url))
        raise UnknownStore(f"unsupported store address {shown}: use a path, sqlite:PATH or postgresql://...")
    from podium.stores.sqlite import SqliteStore

    path = Path(url.removeprefix("sqlite:"))
    is_there = _store_exists(path)
    if not is_there and not create:
        raise UnknownStore(
            f"no store at {str(path)!r}; name one with --store or PODIUM_STORE{_rebuild_hint(path)}"
        )
    return await SqliteStore.open(path)


def check_store_name(path: Path) -> None:
    """SQLite takes names that are text only."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise UnknownStore(f"there can be no store at {str(path)!a}: its name is not valid UTF-8") from error


def _store_exists(path: Path) -> bool:
    """Raises `UnknownStore` for what can be no database file."""
    check_store_name(path)
    try:
        if path.is_dir():
            raise UnknownStore(
                f"{str(path)!r} is a folder, not a store; name the file, like {path / 'podium.db'}"
            )
        return path.exists()
    # A name that is too long or no text, a folder that may not be entered.
    except (OSError, ValueError) as error:
        raise UnknownStore(
            f"there can be no store at {shortened(str(path), 200)!r}: {reason_of(error)}"
        ) from error


def _rebuild_hint(path: Path) -> str:
    """A store that is missing beside run directories was lost."""
    from podium.operations.rebuilding import has_runs

    if not has_runs(path.parent):
        return ""
    return ". A lost one is rebuilt from the run directories there by `podium store rebuild`"


def _reason_without(url: str, error: ValueError) -> str:
    """Why it cannot be parsed. The reason may quote the password: with one, only what is commonly wrong is named."""
    if any(credentials_in(url)):
        return "; in a user name or password, write % as %25, @ as %40 and / as %2F"
    return f": {reason_of(error).strip()}"


async def rebuild_at(url: str, runs: Path) -> "list[RebuiltRun]":
    """Make a store from run directories, where there is none."""
    path = None if "://" in url else Path(url.removeprefix("sqlite:"))
    if path is None or path.exists():
        return await _rebuild_into(url, url, runs)
    # Beside its place until it is whole: what a crash leaves there is made again.
    building = _unfinished(path)
    try:
        rebuilt = await _rebuild_into(str(building), url, runs)
        path.hardlink_to(building)
    except FileExistsError as error:
        from podium.operations.rebuilding import StoreExists

        raise StoreExists(
            f"{url!r} was made by another process in the meantime; it is left as it is"
        ) from error
    finally:
        _unfinished(path)
    return rebuilt


async def _rebuild_into(building: str, url: str, runs: Path) -> "list[RebuiltRun]":
    from podium.operations.rebuilding import StoreExists, rebuild_store

    store = await open_store(building, create=True)
    try:
        await _may_rebuild(store)
        return await rebuild_store(store, runs, payload_store)
    except FileNotFoundError as error:
        raise UnknownStore(f"no run directories at {str(runs)!r}; name their folder with --runs") from error
    except StoreExists as error:
        raise StoreExists(
            f"{url!r} has runs already and is left as it is; to rebuild it all the same, move it away first: runs that "
            "are in it are rebuilt from their directories, too"
        ) from error
    finally:
        await store.close()


async def _may_rebuild(store: Store) -> None:
    if not _owns_everything(None):
        from podium.access.operations import MAINTAIN

        await access_of().require_everywhere(store, system_clock(), MAINTAIN)


def _unfinished(path: Path) -> Path:
    """Where a store is built, with nothing of an earlier try left there."""
    building = path.with_name(f".{path.name}.rebuilding")
    for suffix in ("", "-wal", "-shm", ".lock"):
        building.with_name(building.name + suffix).unlink(missing_ok=True)
    return building


def _check_credentials(url: str) -> None:
    """Refuse a password that is cut at its own `@`, `/`, `?` or `#`: the server's error would quote the rest of it."""
    place, _, rest = re.sub("[/?#]", "/", url.partition("://")[2]).partition("/")
    if place.count("@") > 1 or ("@" in rest and "@" not in place):
        raise UnknownStore(
            f"the address {without_credentials(url)} has special characters in its user name or password: "
            "write them percent-encoded, for instance %40 for @ and %2F for /"
        )


def runs_folder(given: Path | None, *, default: Path = Path("runs")) -> Path:
    """Where runs are kept: what was given, else PODIUM_RUNS, else `runs`."""
    if given is not None:
        return given
    named = os.environ.get("PODIUM_RUNS") or str(default)
    if "://" in named:
        raise InvalidConfiguration(f"PODIUM_RUNS is the address {shortened(named, 200)!r}; name a folder")
    return Path(named)


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
        lease=_seconds(lease, "PODIUM_LEASE", LEASE),
        lock_wait=_seconds(lock_wait, "PODIUM_LOCK_WAIT", LOCK_WAIT),
        outage=_seconds(outage, "PODIUM_STORE_OUTAGE", OUTAGE),
        artifacts=payload_store,
        bucket=artifact_bucket(),
        artifact_outage=_seconds(None, "PODIUM_ARTIFACT_OUTAGE", ARTIFACT_OUTAGE),
        providers=providers or all_providers,
        recordings=recordings,
        inline=dict(functions or {}),
        nodes=nodes or node_runtime,
    )


def temporal_engine(
    store: Store, runs: Path, url: str, connection: "Connection", *, shared_runs: bool
) -> "TemporalEngine":
    """`url`: of the store. Raises `ExtraMissing`."""
    _require_client(TEMPORAL)
    from podium.engines.temporal.engine import TemporalEngine

    return TemporalEngine(
        _worker_parts(store, runs), connection, _queues(connection, url, runs, shared=shared_runs)
    )


def temporal_connection(address: str | None, namespace: str | None, queue: str | None) -> "Connection":
    """What is not given comes from the environment, as for the commands."""
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
    _require_client(TEMPORAL)
    from podium.engines.temporal.worker import TemporalWorker
    from podium.operations.signed_runs import signed_plan_of

    queues = _queues(connection, url, runs, shared=shared_runs)
    parts = _worker_parts(store, runs)
    plan_of = partial(signed_plan_of, plan_loader().plan_of, signing_rules, parts.clock)
    return TemporalWorker(parts, connection, queues, plan_of, drain=timedelta(seconds=drain))


def conductor_engine(
    store: Store, runs: Path, url: str, connection: "ConductorConnection", *, shared_runs: bool
) -> "ConductorEngine":
    """`url`: of the store. Raises `ExtraMissing`."""
    _require_client(CONDUCTOR)
    from podium.engines.conductor.engine import ConductorEngine

    return ConductorEngine(
        _worker_parts(store, runs), connection, _domain(connection, url, runs, shared=shared_runs)
    )


def conductor_connection(
    url: str | None, queue: str | None, token: str | None = None
) -> "ConductorConnection":
    """What is not given comes from the environment, as for the commands."""
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
    """`drain`: how many seconds running attempts have when it is stopped. Changes on Conductor's page are signals of
    whoever runs the worker."""
    _require_client(CONDUCTOR)
    from podium.engines.conductor.worker import ConductorWorker
    from podium.operations.engine_wishes import send_wish
    from podium.operations.signed_runs import signed_plan_of

    local = _worker_parts(parts.store, runs)
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
    """The engine of the server that a connection leads to."""
    from podium.engines.temporal.connection import Connection

    if isinstance(connection, Connection):
        return temporal_engine(store, runs, url, connection, shared_runs=shared_runs)
    return conductor_engine(store, runs, url, connection, shared_runs=shared_runs)


def _require_client(engine: str) -> None:
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


def _worker_parts(store: Store, runs: Path) -> "LocalParts":
    from podium.engines.local import LEASE, LOCK_WAIT
    from podium.engines.parts import LocalParts
    from podium.runtime.outages import OUTAGE
    from podium.runtime.run_artifacts import OUTAGE as ARTIFACT_OUTAGE
    from podium.runtime.run_artifacts import parts_of

    bucket, outage = artifact_bucket(), _seconds(None, "PODIUM_ARTIFACT_OUTAGE", ARTIFACT_OUTAGE)
    return LocalParts(
        store=store,
        clock=system_clock(),
        runs=runs,
        secrets=secret_lookup(),
        inline={},
        lease=_seconds(None, "PODIUM_LEASE", LEASE),
        lock_wait=_seconds(None, "PODIUM_LOCK_WAIT", LOCK_WAIT),
        outage=_seconds(None, "PODIUM_STORE_OUTAGE", OUTAGE),
        artifacts=payload_store,
        bucket=bucket,
        bucket_of=parts_of(bucket, store, outage),
        providers=all_providers,
        recordings=None,
        nodes=node_runtime,
    )


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
) -> "Parts":
    """What `operations` work with in this process. `engine`: another one than the local one. `actor`: who asks, if a
    program knows that."""
    from podium.operations.parts import Parts

    clock = system_clock()
    access, is_owner = cache(partial(access_of, actor)), _owns_everything(actor)
    engine = engine or partial(
        local_engine,
        store,
        clock,
        runs,
        recordings=recordings,
        functions=functions,
        providers=providers,
        nodes=nodes,
    )
    replays = recordings is not None and recordings.asks_no_one
    check = partial(
        check_run,
        replays=replays,
        functions=frozenset(functions or ()),
        providers=providers,
        nodes=nodes,
    )
    trouble = partial(_trouble_of, store)
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
        remove_executions=partial(_remove_executions, store),
        engine_of=partial(_engine_of, store, runs),
        signing=signing_rules,
        access=access,
        is_owner=is_owner,
    )


def _owns_everything(actor: "str | Actor | None") -> bool:
    """There are no rules. A token has to be looked at all the same: it is refused where none is configured."""
    return configuration().access is None and (actor is not None or not os.environ.get("PODIUM_TOKEN"))


def _guarded(store: Store, clock: Clock, access: "Callable[[], Access]") -> Store:
    from typing import cast

    from podium.operations.guarding import GuardedStore

    return cast("Store", GuardedStore(store, clock, access))


def _engine_of(store: Store, runs: Path, run: "Run") -> "Engine | None":
    """The engine of a run on a server; None of one of this machine."""
    connection = connection_of(run)
    if connection is None:
        return None
    _require_client(run.provider)
    from podium.engines.temporal.connection import Connection

    if isinstance(connection, Connection):
        from podium.engines.temporal.engine import TemporalEngine
        from podium.engines.temporal.names import Queues

        queues = Queues.of_run(run)
        return TemporalEngine(_worker_parts(store, runs), connection, queues) if queues is not None else None
    from podium.engines.conductor.engine import ConductorEngine
    from podium.engines.conductor.names import Domain

    domain = Domain.of_run(run)
    return ConductorEngine(_worker_parts(store, runs), connection, domain) if domain is not None else None


def access_of(actor: "str | Actor | None" = None) -> "Access":
    """Who asks in this process, and what they may do: without rules everything, else what the configuration says."""
    from podium.operations.access import Access
    from podium.operations.actors import identify

    settings = configuration().access
    known = identify(access_policy(), os.environ, actor)
    if settings is None:
        from podium.access.deciding import OwnerAuthoriser

        return Access(known, OwnerAuthoriser())
    from podium.access.deciding import RoleAuthoriser

    tenants = frozenset(settings.policy.tenants)
    return Access(known, RoleAuthoriser(settings.policy), configured_audit_key(), tenants)


def access_policy() -> "AccessPolicy | None":
    """The rules of the configuration; None if there are none."""
    settings = configuration().access
    return settings.policy if settings is not None else None


def connection_of(run: "Run", secret: str | None = None) -> "Connection | ConductorConnection | None":
    """To the server that a run was started on; None of a run of this machine.

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


async def _trouble_of(store: Store, run: "Run") -> "Sequence[EngineTrouble]":
    """The server is asked that the run's row names."""
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


async def _remove_executions(store: Store, run: "Run") -> None:
    """Temporal removes those of its own, after the retention of the namespace."""
    from podium.engines.conductor.connection import Connection

    connection = connection_of(run)
    if not isinstance(connection, Connection):
        return
    _require_client(run.provider)
    from podium.engines.conductor.removing import remove_executions

    await remove_executions(run, connection, await store.store_id())


def check_run(
    plan: "Plan",
    workspace: Path,
    *,
    replays: bool = False,
    functions: frozenset[str] = frozenset(),
    providers: "Callable[[], Providers] | None" = None,
    nodes: "Callable[[], NodeRuntime] | None" = None,
) -> "Readiness":
    """What is missing for a run of the plan here; the engine asks the same before it makes one."""
    from podium.runtime.preflight import Surroundings, check_needs

    around = Surroundings(
        workspace,
        os.environ,
        secret_lookup(),
        providers or all_providers,
        replays=replays,
        functions=functions,
        bucket=artifact_bucket(),
        nodes=nodes or node_runtime,
    )
    return check_needs(plan, around)


def node_registry(classes: "Sequence[NodeClass]" = ()) -> "NodeRegistry":
    """The nodes that are installed here, and those of the program."""
    from podium.nodes.registry import NodeRegistry

    return NodeRegistry(classes)


def nodes_with(classes: "Sequence[NodeClass]") -> "Callable[[], NodeRuntime]":
    """A runtime for them, made once."""
    from podium.runtime.tasks.node_runtime import NodeRuntime

    return cache(lambda: NodeRuntime(node_registry(classes), system_clock()))


@cache
def node_runtime() -> "NodeRuntime":
    """The nodes that are installed here. One for the process, so that all runs share the breakers."""
    return nodes_with(())()


@cache
def secret_lookup() -> "SecretLookup":
    """Secrets by name. One for the process, so that the checks before a run and the run ask a source once."""
    from podium.secrets.configured import ConfiguredSecrets

    return ConfiguredSecrets(lambda: configuration().secrets)


def signing_rules() -> "SigningRules | None":
    """Whose signatures of plans are needed; None if the configuration has no rules."""
    access = configuration().access
    if access is None:
        return None
    from podium.operations.signed_runs import SigningRules

    return SigningRules(access.policy, lambda uri: plan_loader().fetch_signatures(uri))


def trusted_keys(content: bytes | None = None, name: str = "") -> "Mapping[str, TrustedKey]":
    """The keys that may sign plans: those that the configuration lists, or a file with this content."""
    if content is not None:
        from podium.configuration.access_keys import read_keys_file

        return read_keys_file(content, name)
    access = configuration().access
    return access.policy.keys if access is not None else {}


@cache
def plan_source() -> "PlanSource":
    """Published plans, in the places that the configuration allows."""
    from podium.plan.locations import PlanPlaces
    from podium.plan_sources.places import PlacesOfPlans

    return PlacesOfPlans(lambda: configuration().plans or PlanPlaces())


@cache
def plan_loader() -> "PlanLoader":
    """Fetches and verifies published plans; one for the process, so that each is fetched once."""
    from podium.log.times import timestamp
    from podium.runtime.plan_loading import PlanLoader

    clock = system_clock()
    return PlanLoader(plan_source(), lambda: timestamp(clock.now()))


def recordings_in(record: Path | None, replay: Path | None, *, goes_on: bool) -> "Recordings | None":
    """Where answers of agents are kept, or come from. `goes_on`: what was recorded before stays."""
    if record is None and replay is None:
        return None
    from podium.runtime.tasks.recordings import Recorder, Replay

    if record is not None:
        return Recorder(record, goes_on=goes_on)
    assert replay is not None
    return Replay(replay)


@cache
def all_providers() -> "Providers":
    """Who answers agent steps."""
    from podium.providers.directory import ProviderDirectory

    return ProviderDirectory(_prices)


def providers_with(given: "Mapping[str, Provider]") -> "Callable[[], Providers]":
    """All providers; those given take the place of others of the same name."""

    def providers() -> "Providers":
        from podium.providers.directory import ProviderDirectory

        return ProviderDirectory(_prices, given)

    return providers


def installed_providers() -> tuple[str, ...]:
    """Names of the providers that other packages bring."""
    from podium.providers.registry import installed_names

    return installed_names()


def _prices() -> "Mapping[str, Price]":
    """What tokens cost, by model: what the configuration says."""
    from podium.providers.prices import prices_from

    return prices_from(configuration().prices)


def use_configured_permissions() -> None:
    """Files of this process are private, unless the configuration says `permissions: umask`."""
    use_permissions(configuration().permissions)


def use_configured_folders() -> None:
    """The same inside another program: new folders are private, and the umask of the program stays as it is."""
    if configuration().permissions == "umask":
        use_permissions("umask")


async def open_bus(address: str, topic: str | None = None) -> "EventBus":
    """The bus behind an address: `jsonl:FILE`, `jsonl:FOLDER/` or `kafka://HOST:PORT`.

    Its name says all that tells it from others: two files, or two topics for events, are two buses. Raises
    `UnknownBus`, `ExtraMissing`, `BusRefused`, `BusUnavailable` and `TopicRefused`.
    """
    kind, _, rest = address.partition(":")
    if kind == "jsonl" and rest.endswith("/"):
        from podium.buses.json_topics import JsonTopicsBus

        folder = Path(rest).absolute()
        topics = JsonTopicsBus(folder, f"jsonl:{folder}/" + (f"#{topic}" if topic else ""), topic)
        topics.check()
        return topics
    if kind == "jsonl" and rest:
        if topic is not None:
            raise UnknownBus(
                f"the file {rest!r} has no topics; leave --topic out, or name a folder: {address}/"
            )
        from podium.buses.jsonl import JsonLinesBus

        path = Path(rest).absolute()
        bus = JsonLinesBus(path, f"jsonl:{path}")
        bus.check()
        return bus
    connection = _kafka_connection(address, topic)
    from podium.buses.kafka import KafkaBus

    kafka = KafkaBus(connection)
    try:
        await kafka.check()
    except BaseException:
        await kafka.close()
        raise
    return kafka


def open_source(address: str, topic: str, group: str) -> "EventSource":
    """A member of a group that reads a topic. Raises `UnknownBus`, `ExtraMissing` and `BusRefused`."""
    kind, _, rest = address.partition(":")
    if kind == "jsonl" and rest:
        from podium.buses.json_topics import JsonTopicsSource

        return JsonTopicsSource(Path(rest).absolute(), topic, group)
    connection = _kafka_connection(address, topic)
    from podium.buses.kafka_source import KafkaSource

    return KafkaSource(connection, topic, group)


def has_topics(address: str) -> bool:
    """Whether steps can publish to topics there."""
    return not address.startswith("jsonl:") or address.endswith("/")


def _kafka_connection(address: str, topic: str | None) -> "KafkaConnection":
    """Before anything of Kafka is imported: the package may be missing."""
    from podium.buses.kafka_settings import KafkaConnection, parse_address

    try:
        parsed = parse_address(address, topic)
    except ValueError as error:
        shown = shortened(without_credentials(address), 200)
        raise UnknownBus(f"unsupported bus {shown!r}: {error}") from None
    return KafkaConnection(parsed, secret_lookup())


def relay_claim() -> timedelta:
    """How long a relay that does not answer keeps the events of a run from other relays."""
    from podium.runtime.relay import CLAIM_TTL

    return _seconds(None, "PODIUM_LEASE", CLAIM_TTL)


def configured_audit_key() -> "AuditKey | None":
    """The key that seals audit records (`access.audit_key`); None if no rules are configured."""
    settings = configuration().access
    if settings is None:
        return None
    from podium.operations.audit_keys import read_audit_key

    return read_audit_key(settings.audit_key)


def payload_store(folder: Path) -> ArtifactStore:
    """Where a run keeps values that are too large for an event."""
    from podium.artifacts.local import LocalArtifacts

    return LocalArtifacts(folder)


def artifact_bucket() -> ArtifactBucket | None:
    """Where what steps leave is copied to, if the configuration names a bucket."""
    address = configuration().artifacts
    return _bucket_at(address) if address is not None else None


@cache
def _bucket_at(address: "S3Address") -> ArtifactBucket:
    """One for the process, so that the checks before a run and the run ask it once."""
    from podium.artifacts.bucket import S3Bucket

    return S3Bucket(address, _open_s3)


def _open_s3(address: "S3Address") -> "S3Artifacts":
    from podium.runtime.extras import ExtraMissing, install_hint

    try:
        from podium.artifacts.s3 import S3Artifacts
    except ImportError as error:
        raise ExtraMissing(
            f"`artifacts: {address}` in the configuration file: {install_hint('s3')}"
        ) from error
    return S3Artifacts(address.bucket, prefix=address.prefix)


def _seconds(given: float | None, variable: str, default: timedelta) -> timedelta:
    if given is not None:
        return timedelta(seconds=given)
    return timedelta(seconds=seconds_from(variable, default.total_seconds()))
