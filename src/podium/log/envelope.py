"""An event as one JSON object: what buses, exports and `podium events --json` show."""

from typing import Any

import msgspec

from podium.log.events import EventRecord


def envelope(record: EventRecord) -> dict[str, Any]:
    """The record with its payload as JSON; the keys are those of the contract."""
    shown: dict[str, Any] = {
        "runId": record.run.run_id,
        "runSeq": record.run_seq,
        "eventId": record.event_id,
        "eventType": record.event_type,
        "tenantId": record.run.tenant_id,
        "projectId": record.run.project_id,
        "environmentId": record.run.environment_id,
        "planId": record.run.plan_id,
        "planVersion": record.run.plan_version,
        "logicalAttemptId": record.logical_attempt_id,
        "engineAttemptId": record.engine_attempt_id,
        "idempotencyKey": record.idempotency_key,
        "emittedAt": record.emitted_at,
        "persistedAt": record.persisted_at,
        "payload": msgspec.Raw(record.payload),
    }
    if record.step_id is not None:
        shown["stepId"] = record.step_id
    return shown


def encode_envelope(record: EventRecord) -> bytes:
    """One line of JSON. The payload is included byte for byte as it was written."""
    return msgspec.json.encode(envelope(record))
