"""Concise construction of runs and events for tests."""

from typing import Any
from uuid import UUID, uuid5

from podium.log.events import EventWrite, RunIdentity, encode_payload
from podium.log.ids import RunId
from podium.log.keys import key_v1, slot_of
from podium.log.plan_refs import PlanRef
from podium.log.runs import NewRun

_NAMESPACE = UUID("5b6fdb0c-3f0b-4d1b-8f0e-0f1d8a2f4c55")
NOON = "2026-01-01T12:00:00.000000Z"


def identity(run_id: str, **fields: str) -> RunIdentity:
    values = {
        "tenant_id": "default",
        "project_id": "default",
        "environment_id": "local",
        "plan_id": "nightly",
        "plan_version": "1.0.0",
        **fields,
    }
    return RunIdentity(run_id=RunId(run_id), **values)


def new_run(run_id: str, *, run: dict[str, str] | None = None, **fields: Any) -> NewRun:
    return NewRun(identity=identity(run_id, **(run or {})), **fields)


def plan_ref(uri: str = "https://plans.example.com/nightly.json") -> PlanRef:
    """A reference to the plan of `identity`."""
    return PlanRef(
        uri=uri,
        sha256="a" * 64,
        schema_version="v1.2",
        plan_id="nightly",
        plan_version="1.0.0",
        size_bytes=512,
        expires_at=NOON,
    )


def event(
    run_id: str,
    event_type: str,
    step_id: str | None = None,
    attempt: int = 1,
    *,
    subject: str | None = None,
    emitted_at: str = NOON,
    engine_attempt: int = 1,
    **payload: Any,
) -> EventWrite:
    """An event as its producer would write it; the same arguments always give the same event."""
    slot = slot_of(event_type, step_id=step_id, subject=subject)
    key = key_v1(run_id, slot, attempt, event_type, "1.0.0")
    return EventWrite(
        event_id=_uuid4(f"{key} {sorted(payload.items())!r}"),
        event_type=event_type,
        idempotency_key=key,
        emitted_at=emitted_at,
        step_id=step_id,
        logical_attempt_id=attempt,
        engine_attempt_id=engine_attempt,
        payload=encode_payload(payload),
    )


def _uuid4(name: str) -> str:
    """A UUID that looks random and is not."""
    return str(UUID(int=uuid5(_NAMESPACE, name).int, version=4))
