"""Exports a complete run from a store, and imports it into another.

An export is a text file of JSON lines: the first says what it is and which run it contains, then there is a
line for each event, then one for each content: plan, workflow file, values too large for an event. It can be
read without Podium, kept for years, and imported again; an open run continues where it is imported. Events
keep their ids, keys and contents; the importing store assigns the sequence numbers, in the same order.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from podium.errors import PodiumError
from podium.log.envelope import encode_envelope
from podium.log.events import EventType, EventWrite
from podium.log.ids import DEFAULT_TENANT
from podium.log.payloads import RunQueued, read_as
from podium.log.runs import NewRun, RunQuery
from podium.log.transitions import OPEN
from podium.operations.parts import Parts
from podium.ports.store import NO_CONTENTS, CreatedRun, Store
from podium.runtime.restoring import files_to_keep
from podium.runtime.run_file import facts_of, new_run
from podium.runtime.rundir import RunDirectory
from podium.runtime.spilling import MakeFolder
from podium.text import shortened

if TYPE_CHECKING:
    from podium.access.audit import AuditDraft

FORMAT: Final = "podium-run-2"
# Without contents: the plan of such a run is in its directory only.
_EARLIER: Final = "podium-run-1"


_PAGE: Final = 200
# Parts of a path, and not names.
_NO_NAMES: Final = frozenset({"", ".", ".."})
# Runs that continue; the others are only read.


class InvalidExport(PodiumError):
    """A file that is not an export of a run, or is incomplete."""

    code = "INVALID_EXPORT"


class _Header(msgspec.Struct, frozen=True):
    """Fields besides the facts of the run."""

    format: str
    events: int
    contents: int = 0


class EventLine(msgspec.Struct, kw_only=True, rename="camel"):
    """An event in an export, or in `logs/events.jsonl`."""

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


class _ContentLine(msgspec.Struct, kw_only=True, rename="camel"):
    name: str
    sha256: str
    # As base64.
    content: bytes


async def export_with_files(parts: Parts, tenant_id: str, run_id: str) -> AsyncIterator[bytes]:
    """The lines of an export. For a run of an earlier version, contents are in its directory only."""
    await parts.store.runs.find(tenant_id, run_id)
    directory = parts.directory(run_id)
    beside = {} if directory.is_lost else await files_to_keep(directory, parts.payloads)
    async for line in export_run(parts.store, tenant_id, run_id, beside):
        yield line


async def export_run(
    store: Store, tenant_id: str, run_id: str, beside: Mapping[str, bytes] = NO_CONTENTS
) -> AsyncIterator[bytes]:
    """The lines of an export. `beside`: contents that are used if the store has none for the run."""
    run = await store.runs.find(tenant_id, run_id)
    kept = await store.list_kept(run.identity.run_id)
    number = len(kept) or len(beside)
    header = _Header(FORMAT, run.head, number)
    yield msgspec.json.encode({**facts_of(run), **msgspec.structs.asdict(header)}) + b"\n"
    after = 0
    while after < run.head:
        records = await store.read(run.identity.run_id, after=after)
        for record in records:
            if record.run_seq <= run.head:
                yield encode_envelope(record) + b"\n"
        after = records[-1].run_seq
    for one in kept:
        yield _content_line(one.name, await store.kept(run.identity.run_id, one.name))
    if not kept:
        for name, content in beside.items():
            yield _content_line(name, content)


def _content_line(name: str, content: bytes) -> bytes:
    line = _ContentLine(name=name, sha256=sha256(content).hexdigest(), content=content)
    return msgspec.json.encode(line) + b"\n"


async def keep_open_runs(store: Store, runs: Path, folder: MakeFolder) -> None:
    """Copy plans and large values of earlier versions' runs, which are in run directories only, into the
    store.
    """
    query = RunQuery(statuses=OPEN, limit=_PAGE)
    while True:
        page = await store.runs.page(DEFAULT_TENANT, query)
        for run in page.runs:
            directory = RunDirectory(runs, run.identity.run_id)
            if not directory.is_lost and not await store.list_kept(run.identity.run_id):
                await store.keep(run.identity.run_id, await files_to_keep(directory, folder))
        if page.cursor is None:
            return
        query = msgspec.structs.replace(query, cursor=page.cursor)


class Export(NamedTuple):
    new: NewRun
    events: Sequence[EventLine]
    contents: Mapping[str, bytes]

    @property
    def event_types(self) -> list[str]:
        return [line.event_type for line in self.events]


async def put_run(parts: Parts, lines: Sequence[bytes]) -> CreatedRun:
    """Import a run into the tenant that it was exported from. Raises what `read_export`, `Parts.require` and
    `check_import` raise.
    """
    export = read_export(lines)
    identity = export.new.identity
    await parts.require("run.import", identity.tenant_id, records=False)
    if not parts.is_owner:
        from podium.operations.import_checks import check_import

        new = await check_import(parts, export.new, export.event_types, export.contents)
        export = export._replace(new=new)
    audit = parts.accepted("run.import", identity.tenant_id, identity.run_id)
    return await store_export(parts.store, export, audit)


async def store_export(store: Store, export: Export, audit: "Sequence[AuditDraft]" = ()) -> CreatedRun:
    """In one transaction: all of it or nothing. To repeat it is harmless."""
    writes = [write_of(line) for line in export.events]
    return await store.create_run(export.new, writes, export.contents, audit=audit)


def read_export(lines: Iterable[bytes]) -> Export:
    """Raises `InvalidExport`."""
    head, *rest = [line for line in lines if line.strip()] or [b""]
    header = check_header(head)
    try:
        new = new_run(msgspec.json.decode(head))
        events = [msgspec.json.decode(line, type=EventLine) for line in rest[: header.events]]
        contents = [msgspec.json.decode(line, type=_ContentLine) for line in rest[header.events :]]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _no_export(error) from error
    _check_complete(header, new.identity.run_id, events, contents)
    kept = {one.name: one.content for one in contents}
    return Export(with_approval(new, events, kept), events, kept)


def with_approval(new: NewRun, events: Sequence[EventLine], contents: Mapping[str, bytes]) -> NewRun:
    """With the approval that the log or the plan requires; the other parts can be edited."""
    from podium.operations.import_checks import with_approval_of_plan

    new = msgspec.structs.replace(new, needs_approval=new.needs_approval or asks_for_approval(events))
    return with_approval_of_plan(new, [line.event_type for line in events], contents)


def asks_for_approval(events: Iterable[EventLine]) -> bool:
    """Whether the log says that the run waits for an approval; the header of an export can be edited."""
    return any(
        line.event_type == EventType.RUN_QUEUED and read_as(RunQueued, bytes(line.payload))[0].needs_approval
        for line in events
    )


def check_header(line: bytes) -> _Header:
    """The first line of an export, which says what it is; raises `InvalidExport`."""
    try:
        header = msgspec.json.decode(line, type=_Header)
        new_run(msgspec.json.decode(line))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _no_export(error) from error
    if header.format not in (FORMAT, _EARLIER):
        raise InvalidExport(
            f"exports of format {header.format!r} cannot be read; this Podium reads {FORMAT!r} and {_EARLIER!r}"
        )
    return header


def _no_export(error: Exception) -> InvalidExport:
    return InvalidExport(f"this is not an export of a run: {error}; make one with `podium export RUN`")


def _check_complete(
    header: _Header, run_id: str, events: list[EventLine], contents: list[_ContentLine]
) -> None:
    if len(events) != header.events or any(line.run_id != run_id for line in events):
        raise InvalidExport(f"the export is not complete: {len(events)} of {header.events} events are in it")
    if len(contents) != header.contents:
        raise InvalidExport(
            f"the export is not complete: {len(contents)} of {header.contents} contents are in it"
        )
    for one in contents:
        if not set(one.name.split("/")).isdisjoint(_NO_NAMES):
            raise InvalidExport(f"the content {shortened(one.name)!a} leads out of the run; remove it")
        if sha256(one.content).hexdigest() != one.sha256:
            raise InvalidExport(
                f"the export is damaged: {one.name!r} has another SHA-256 than it should have"
            )


def write_of(line: EventLine) -> EventWrite:
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
