"""Rows of the database as values of the model, and the corresponding pieces of SQL."""

from collections.abc import Iterable
from typing import Any, Final

from podium.errors import InvalidId, RunNotFound
from podium.log.events import EventRecord, RunIdentity
from podium.log.ids import check_id
from podium.log.runs import Run
from podium.log.transitions import RunStatus
from podium.stores.engine_refs import engine_of
from podium.stores.labels import labels_of
from podium.stores.plan_refs import plan_ref_of

RUN: Final = (
    "r.number, r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version, r.run_request_id, "
    "r.status, r.head, r.priority, r.concurrency_key, r.plan_sha256, r.inputs_sha256, r.created_at, r.updated_at, "
    "r.start_at, r.provider, r.workflow_id, r.provider_run_id, r.engine_ref, r.metadata, r.plan_ref, "
    "r.needs_approval, r.pool, r.concurrency_limit, r.labels"
)
EVENT: Final = (
    "e.run_seq, e.event_id::text, e.event_type, e.step_id, e.logical_attempt_id, e.engine_attempt_id, "
    "e.idempotency_key, e.emitted_at, e.persisted_at, e.payload"
)
IDENTITY: Final = "r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version"

_FORM: Final = """'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'"""


def as_text(moment: str) -> str:
    """The SQL that formats a timestamptz as Podium writes moments; sessions are in UTC."""
    return f"to_char({moment}, {_FORM})"


NOW: Final = as_text("clock_timestamp()")
# When a lease lapses; NULL: never.
EXPIRES: Final = f"CASE WHEN isfinite(expires_at) THEN {as_text('expires_at')} END"


def run_of(row: tuple[Any, ...]) -> tuple[int, Run]:
    """From the columns of `RUN`: the run's number, and the run."""
    (number, run_id, tenant_id, project_id, environment_id, plan_id, plan_version, *rest) = row
    (request_id, status, head, priority, concurrency_key, plan_sha256, inputs_sha256, *rest) = rest
    (
        created_at,
        updated_at,
        start_at,
        provider,
        workflow_id,
        provider_run_id,
        engine_ref,
        metadata,
        plan_ref,
        needs_approval,
        pool,
        concurrency_limit,
        labels,
    ) = rest
    identity = identity_of((run_id, tenant_id, project_id, environment_id, plan_id, plan_version))
    return number, Run(
        identity=identity,
        run_request_id=request_id,
        status=RunStatus(status),
        head=head,
        priority=priority,
        concurrency_key=concurrency_key,
        plan_sha256=plan_sha256,
        inputs_sha256=inputs_sha256,
        created_at=created_at,
        updated_at=updated_at,
        start_at=start_at,
        engine=engine_of(run_id, (provider, workflow_id, provider_run_id, engine_ref)),
        metadata=metadata,
        plan_ref=plan_ref_of(plan_ref),
        needs_approval=needs_approval,
        pool=pool,
        concurrency_limit=concurrency_limit,
        labels=labels_of(labels),
    )


def identity_of(row: tuple[Any, ...]) -> RunIdentity:
    run_id, tenant_id, project_id, environment_id, plan_id, plan_version = row
    return RunIdentity(
        run_id=run_id,
        tenant_id=tenant_id,
        project_id=project_id,
        environment_id=environment_id,
        plan_id=plan_id,
        plan_version=plan_version,
    )


def records_of(run: RunIdentity, rows: Iterable[tuple[Any, ...]]) -> list[EventRecord]:
    return [
        EventRecord(
            run, seq, event_id, kind, step_id, logical, engine, key.hex(), emitted_at, persisted_at, payload
        )
        for seq, event_id, kind, step_id, logical, engine, key, emitted_at, persisted_at, payload in rows
    ]


def askable(run_id: str) -> str:
    """A run id that can be used in a query. An invalid id matches no run, and PostgreSQL would not even
    accept some texts.
    """
    try:
        check_id("run_id", run_id)
    except InvalidId as error:
        raise RunNotFound(run_id) from error
    return run_id
