"""Runs as a store knows them: their tenant, their status, and how to find them."""

from enum import StrEnum
from typing import Any, Final

import msgspec

from podium.errors import InvalidEvent
from podium.log.engines import LOCAL, EngineRunRef, check_engine_ref
from podium.log.events import RunIdentity, check_identity, check_payload
from podium.log.ids import check_id
from podium.log.labels import check_labels
from podium.log.plan_refs import PlanRef, check_plan_ref
from podium.log.times import Timestamp
from podium.log.transitions import RunStatus

MAX_CONCURRENCY: Final = 10_000


class Backpressure(StrEnum):
    """What to do with a run if a limit is reached: refuse it, queue it, or delay it."""

    REJECT = "REJECT"
    QUEUE = "QUEUE"
    DELAY = "DELAY"


class RunFacts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Facts about a run besides its events; the same in a store, in `run.json` and in an export."""

    identity: RunIdentity
    # If None, the run id is used, so that creating a run again with the same id is harmless, too.
    run_request_id: str | None = None
    plan_sha256: str = ""
    inputs_sha256: str = ""
    concurrency_key: str | None = None
    priority: int = 0
    # Where an engine other than the local one executes it.
    engine: EngineRunRef | None = None
    # JSON of the caller; stored, but never read by a store.
    metadata: bytes = b"{}"
    # In a request: when the run was created in the store that it comes from.
    created_at: Timestamp | None = None
    # Where its plan was published, if it was.
    plan_ref: PlanRef | None = None
    # Does not start before RunApproved.
    needs_approval: bool = False
    # The pool whose workers execute it; without one the process that started it drives it.
    pool: str | None = None
    # How many runs of pools with its concurrency key may be in progress; older ones take precedence.
    concurrency_limit: int | None = None
    # For finding it again; no decision depends on them.
    labels: dict[str, str] = {}


class NewRun(RunFacts, frozen=True, kw_only=True, rename="camel"):
    """A request for a run. Two requests with the same `run_request_id` (and the same plan) are one run."""

    backpressure: Backpressure = Backpressure.QUEUE
    # For DELAY: not before this moment.
    start_at: Timestamp | None = None
    # Refused if the pools have as many open runs with its concurrency key as its limit allows.
    is_exclusive: bool = False


class Run(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A run's row. `status` and `head` change only together with the events that change them."""

    identity: RunIdentity
    run_request_id: str
    status: RunStatus
    # The highest run_seq so far.
    head: int
    priority: int
    concurrency_key: str | None
    plan_sha256: str
    inputs_sha256: str
    created_at: Timestamp
    updated_at: Timestamp
    start_at: Timestamp | None
    engine: EngineRunRef | None
    metadata: bytes
    plan_ref: PlanRef | None = None
    needs_approval: bool = False
    pool: str | None = None
    concurrency_limit: int | None = None
    labels: dict[str, str] = {}

    @property
    def waits_for_approval(self) -> bool:
        """Whether the run must not start before a person has approved its plan."""
        return self.needs_approval and self.status is RunStatus.PENDING

    @property
    def provider(self) -> str:
        """The engine that executes it."""
        return self.engine.provider if self.engine is not None else LOCAL

    @property
    def engine_facts(self) -> dict[str, Any]:
        """What its engine stored with it when it was created: its server and queues."""
        facts = msgspec.json.decode(self.metadata).get(self.provider)
        return facts if isinstance(facts, dict) else {}


class RunQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs of a tenant to list, newest first: those that meet all conditions.

    `cursor` is the end of the previous page.
    """

    project_id: str | None = None
    environment_id: str | None = None
    plan_id: str | None = None
    pool: str | None = None
    statuses: frozenset[RunStatus] = frozenset()
    # Names with their values; a run may have further labels.
    labels: tuple[tuple[str, str], ...] = ()
    # Part of the id of the run, of its plan or of its request; case does not matter.
    text: str | None = None
    # The start of the run's id.
    id_prefix: str | None = None
    # From the first of these moments, inclusive, to the second, exclusive.
    created_from: Timestamp | None = None
    created_before: Timestamp | None = None
    limit: int = 50
    cursor: str | None = None


class RunPage(msgspec.Struct, frozen=True, kw_only=True):
    """May have fewer runs than requested, even none, although more follow: a store examines a bounded number
    of runs for each page.
    """

    runs: tuple[Run, ...]
    # None on the last page.
    cursor: str | None


def matches(row: Run, query: RunQuery) -> bool:
    """Whether the run meets the conditions of a query."""
    run = row.identity
    return (
        query.project_id in (None, run.project_id)
        and query.environment_id in (None, run.environment_id)
        and query.plan_id in (None, run.plan_id)
        and query.pool in (None, row.pool)
        and (not query.statuses or row.status in query.statuses)
        and all(row.labels.get(name) == value for name, value in query.labels)
        and (query.text is None or _mentions(row, query.text.lower()))
        and (query.id_prefix is None or run.run_id.startswith(query.id_prefix))
        and (query.created_from is None or row.created_at >= query.created_from)
        and (query.created_before is None or row.created_at < query.created_before)
    )


def _mentions(row: Run, text: str) -> bool:
    run = row.identity
    return any(text in one.lower() for one in (run.run_id, run.plan_id, row.run_request_id))


def check_new_run(new: NewRun) -> None:
    """Refuse a request that no store may keep; all stores apply the same rule."""
    check_identity(new.identity)
    if new.run_request_id is not None:
        check_id("run_request_id", new.run_request_id)
    if new.engine is not None:
        check_engine_ref(new.engine, new.identity.run_id)
    if new.concurrency_key is not None:
        check_id("concurrency_key", new.concurrency_key)
    if new.pool is not None:
        check_id("pool", new.pool)
        if new.engine is not None:
            raise InvalidEvent("a run of another engine is in no pool")
    if new.concurrency_limit is not None:
        _check_limit(new, new.concurrency_limit)
    if new.is_exclusive:
        _check_exclusive(new)
    if not -1000 <= new.priority <= 1000:
        raise InvalidEvent(f"priority {new.priority} is not between -1000 and 1000")
    if (new.backpressure is Backpressure.DELAY) != (new.start_at is not None):
        raise InvalidEvent("start_at is for DELAY, and DELAY needs it")
    check_payload(new.metadata)
    check_labels(new.labels)
    if new.plan_ref is not None:
        _check_plan_ref(new, new.plan_ref)


def _check_exclusive(new: NewRun) -> None:
    if new.concurrency_limit is None:
        raise InvalidEvent("is_exclusive is for a run with a concurrency_limit")


def _check_limit(new: NewRun, limit: int) -> None:
    if new.concurrency_key is None or new.pool is None:
        raise InvalidEvent("concurrency_limit is for a run in a pool that has a concurrency key")
    if not 1 <= limit <= MAX_CONCURRENCY:
        raise InvalidEvent(f"concurrency_limit {limit} is not between 1 and {MAX_CONCURRENCY}")


def _check_plan_ref(new: NewRun, ref: PlanRef) -> None:
    check_plan_ref(ref)
    named = (new.identity.plan_id, new.identity.plan_version, new.plan_sha256)
    if (ref.plan_id, ref.plan_version, ref.sha256) != named:
        raise InvalidEvent(
            f"the plan reference of run {new.identity.run_id!r} is that of another plan: {ref.plan_id} "
            f"{ref.plan_version} with sha256 {ref.sha256}"
        )


def request_id_of(new: NewRun) -> str:
    return new.run_request_id if new.run_request_id is not None else new.identity.run_id
