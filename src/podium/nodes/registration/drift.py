"""Compares the expected entries of a registration in the catalogs with the actual ones. Pure.

A side that has not been applied yet is left to the next run and does not count as a difference.
"""

from enum import StrEnum

from podium.nodes.intents import ModelConsulRegistrationIntent
from podium.nodes.registration.fsm import TERMINAL, State
from podium.nodes.registration.wanted import wanted_intents
from podium.ports.catalog import Projection, Registration, Service


class Drift(StrEnum):
    CONSUL_MISSING = "consul_missing"
    CONSUL_DIFFERS = "consul_differs"
    # Its registration has ended.
    CONSUL_EXTRA = "consul_extra"
    # No projection has the node.
    CONSUL_UNKNOWN = "consul_unknown"
    TABLE_MISSING = "table_missing"
    TABLE_DIFFERS = "table_differs"
    TABLE_UNKNOWN = "table_unknown"


def expected_service(row: Projection) -> Service | None:
    """None: it should not exist."""
    (intent,) = wanted_intents(row, row.node.correlation_id, ("consul",))
    assert isinstance(intent, ModelConsulRegistrationIntent)
    if intent.operation == "deregister":
        return None
    wanted = intent.payload
    return Service(node_id=row.node_id, name=wanted.service_name, tags=wanted.tags, meta=wanted.meta)


def consul_drift(row: Projection | None, found: Service | None) -> Drift | None:
    if row is None:
        return Drift.CONSUL_UNKNOWN if found is not None else None
    if not row.consul_applied:
        return None
    expected = expected_service(row)
    if expected is None:
        return Drift.CONSUL_EXTRA if found is not None else None
    if found is None:
        return Drift.CONSUL_MISSING
    return Drift.CONSUL_DIFFERS if found != expected else None


def table_drift(row: Projection | None, found: Registration | None) -> Drift | None:
    if row is None:
        return Drift.TABLE_UNKNOWN if found is not None else None
    if not row.postgres_applied:
        return None
    if State(row.state) in TERMINAL:
        is_left = found is not None and found.status == "registered"
        return Drift.TABLE_DIFFERS if is_left else None
    if found is None:
        return Drift.TABLE_MISSING
    is_same = found.status == "registered" and found.node == row.node
    return None if is_same else Drift.TABLE_DIFFERS
