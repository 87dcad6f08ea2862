"""Take a run out of a store and put it into another, whole.

An export is a text file of JSON lines: the first says what it is and whose run, each further one is an event. It can
be read without Podium, kept for years, and imported again. Events keep their ids, keys and contents; the sequence
numbers are given by the store that takes them, in the same order.
"""

from collections.abc import AsyncIterator, Iterable
from typing import Any, Final

import msgspec

from podium.core.envelope import encode_envelope
from podium.errors import PodiumError
from podium.model.events import EventWrite, RunIdentity
from podium.model.runs import NewRun, Run
from podium.ports.store import CreatedRun, Store

FORMAT: Final = "podium-run-1"


class InvalidExport(PodiumError):
    """A file that is no export of a run, or not all of it."""

    code = "INVALID_EXPORT"


class _Header(msgspec.Struct, kw_only=True, rename="camel"):
    format: str
    run: RunIdentity
    run_request_id: str
    priority: int
    concurrency_key: str | None
    plan_sha256: str
    inputs_sha256: str
    metadata: dict[str, Any]
    events: int


class _Line(msgspec.Struct, kw_only=True, rename="camel"):
    run_id: str
    run_seq: int
    event_id: str
    event_type: str
    logical_attempt_id: int
    engine_attempt_id: int
    idempotency_key: str
    emitted_at: str
    payload: msgspec.Raw
    step_id: str | None = None


async def export_run(store: Store, tenant_id: str, run_id: str) -> AsyncIterator[bytes]:
    """The lines of an export."""
    run = await store.runs.find(tenant_id, run_id)
    yield msgspec.json.encode(_header(run)) + b"\n"
    after = 0
    while after < run.head:
        records = await store.read(run.identity.run_id, after=after)
        for record in records:
            if record.run_seq <= run.head:
                yield encode_envelope(record) + b"\n"
        after = records[-1].run_seq


async def import_run(store: Store, lines: Iterable[bytes]) -> CreatedRun:
    """Put an exported run into a store, in one transaction: all of it or nothing. To repeat it is harmless."""
    head, *rest = [line for line in lines if line.strip()] or [b""]
    try:
        header = msgspec.json.decode(head, type=_Header)
        events = [msgspec.json.decode(line, type=_Line) for line in rest]
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise InvalidExport(
            f"this is no export of a run: {error}; make one with `podium export RUN`"
        ) from error
    if header.format != FORMAT:
        raise InvalidExport(
            f"exports of format {header.format!r} cannot be read; this Podium reads {FORMAT!r}"
        )
    if len(events) != header.events or any(line.run_id != header.run.run_id for line in events):
        raise InvalidExport(f"the export is not complete: {len(events)} of {header.events} events are in it")
    new = NewRun(
        identity=header.run,
        run_request_id=header.run_request_id,
        plan_sha256=header.plan_sha256,
        inputs_sha256=header.inputs_sha256,
        concurrency_key=header.concurrency_key,
        priority=header.priority,
        metadata=msgspec.json.encode(header.metadata),
    )
    return await store.create_run(new, [_write(line) for line in events])


def _header(run: Run) -> _Header:
    return _Header(
        format=FORMAT,
        run=run.identity,
        run_request_id=run.run_request_id,
        priority=run.priority,
        concurrency_key=run.concurrency_key,
        plan_sha256=run.plan_sha256,
        inputs_sha256=run.inputs_sha256,
        metadata=msgspec.json.decode(run.metadata),
        events=run.head,
    )


def _write(line: _Line) -> EventWrite:
    return EventWrite(
        event_id=line.event_id,
        event_type=line.event_type,
        idempotency_key=line.idempotency_key,
        emitted_at=line.emitted_at,
        step_id=line.step_id,
        logical_attempt_id=line.logical_attempt_id,
        engine_attempt_id=line.engine_attempt_id,
        payload=bytes(line.payload),
    )
