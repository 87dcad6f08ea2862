"""The events of a run on a server, as records of a log."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from podium.client import Event, printed_calls
from podium.log.events import EventRecord, RunIdentity

if TYPE_CHECKING:
    from podium.client import Client


def remote_events(client: "Client", run_id: str, after: int, *, follow: bool) -> Iterator[EventRecord]:
    """After number `after`; with `follow` until the run has ended."""
    identity = identity_of(client, run_id)
    found = client.follow(run_id, after) if follow else _pages(client, run_id, after)
    return (record_of(event, identity) for event in found)


def identity_of(client: "Client", run_id: str) -> RunIdentity:
    details = client.ask(printed_calls.run_details(run_id, limit=1))["details"]
    return msgspec.convert(details, RunIdentity)


def record_of(event: Event, identity: RunIdentity) -> EventRecord:
    return EventRecord(
        identity,
        event.run_seq,
        event.event_id,
        event.event_type,
        event.step_id,
        event.logical_attempt_id,
        event.engine_attempt_id,
        event.idempotency_key,
        event.emitted_at,
        event.persisted_at,
        msgspec.json.encode(event.payload),
    )


def _pages(client: "Client", run_id: str, after: int) -> Iterator[Event]:
    following: int | None = after
    while following is not None:
        page = client.events(run_id, following, limit=500)
        yield from page.events
        following = page.next
