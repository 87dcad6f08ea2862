"""Events on their way to a bus."""

from functools import lru_cache
from typing import Final

import msgspec

from podium.errors import InvalidEvent
from podium.log.events import EventRecord, EventType, is_event_type
from podium.log.ids import RunId, check_id
from podium.log.times import Timestamp

# Key in the payload of a step's end for what the step publishes. Quotes inside a JSON text are escaped, so
# these bytes are always a key.
_MESSAGES_KEY: Final = b'"publishes"'


def may_have_messages(event_type: str, payload: bytes) -> bool:
    """Whether an event may hold messages for other topics, without decoding it. False is reliable, True is
    not.
    """
    return event_type == EventType.STEP_COMPLETED and _MESSAGES_KEY in payload


# The bus of notifications, which the processes that drive runs deliver themselves.
NOTIFICATIONS: Final = "podium-notify"


class BusFilter(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
    """Which events a bus receives: those of the types, plans and tenants named here; empty means all."""

    event_types: tuple[str, ...] = ()
    plans: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    # Only ends of steps that publish something.
    messages_only: bool = False

    def wants(self, tenant_id: str, plan_id: str, event_type: str, payload: bytes) -> bool:
        if self.tenants and tenant_id not in self.tenants:
            return False
        if self.event_types and event_type not in self.event_types:
            return False
        if self.plans and plan_id not in self.plans:
            return False
        return not self.messages_only or may_have_messages(event_type, payload)


ALL_EVENTS: Final = BusFilter()


def bus_filter(
    event_types: tuple[str, ...] = (),
    plans: tuple[str, ...] = (),
    *,
    tenants: tuple[str, ...] = (),
    messages_only: bool = False,
) -> BusFilter:
    """A filter with its parts sorted, so that equal filters compare equal. Raises `InvalidEvent`."""
    for event_type in event_types:
        if not is_event_type(event_type):
            raise InvalidEvent(f"event type {event_type[:60]!a} is not in PascalCase")
    for plan in plans:
        check_id("plan_id", plan)
    for tenant in tenants:
        check_id("tenant_id", tenant)
    return BusFilter(
        event_types=tuple(sorted(set(event_types))),
        plans=tuple(sorted(set(plans))),
        tenants=tuple(sorted(set(tenants))),
        messages_only=messages_only,
    )


def encode_filter(wanted: BusFilter) -> str:
    return msgspec.json.encode(wanted).decode() if wanted != ALL_EVENTS else ""


@lru_cache(maxsize=64)
def decode_filter(text: str) -> BusFilter:
    """Cached: called for every append while there is a bus."""
    return msgspec.json.decode(text, type=BusFilter) if text else ALL_EVENTS


class OutboxClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim by one relay on a run's undelivered events, to publish them in order of `run_seq`."""

    bus: str
    run_id: RunId
    generation: int
    # How often delivery of the first event has failed so far.
    failures: int
    records: tuple[EventRecord, ...]


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An event that a bus did not accept; kept until a user retries or drops it."""

    bus: str
    run_id: RunId
    run_seq: int
    event_type: str
    failures: int
    error: str
    died_at: Timestamp


class OutboxLine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Delivery status of one run's events, for display."""

    bus: str
    run_id: RunId
    waiting: int
    first_seq: int
    failures: int
    next_at: Timestamp | None
    error: str
