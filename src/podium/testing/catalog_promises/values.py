"""Rows and services for testing a catalog."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any
from uuid import UUID

from podium.ports.catalog import (
    NodeDescription,
    Projection,
    Registration,
    Renewal,
    Service,
    ServiceCatalog,
    TableChange,
)

# Text that breaks statements, documents, addresses and terminals that are built by concatenation.
HOSTILE_TEXT = "'\";-- \\ %s {0} ${HOME} </script>\r\n\t\0\x1b[31m é\u2028\u202e\ufeff😀 ../../etc"
T0 = datetime(2026, 1, 1, tzinfo=UTC)


def promise(test: Callable[[Any, Any], Awaitable[None]]) -> Callable[[Any, Any], None]:
    """Turn an asynchronous test into one that pytest can call. Its fixture keeps its name, and is closed at
    the end.
    """

    @wraps(test)
    def run(self: Any, *given: Any, **named: Any) -> None:
        async def whole() -> None:
            try:
                await test(self, *given, **named)
            finally:
                for catalog in (*given, *named.values()):
                    await catalog.close()

        asyncio.run(whole())

    return run


async def listed(services: ServiceCatalog) -> list[Service]:
    """All pages."""
    return [one async for page in services.services() for one in page]


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def node_id(number: int = 1) -> UUID:
    return UUID(int=number)


def service(number: int = 1, **fields: Any) -> Service:
    values: dict[str, Any] = {
        "node_id": node_id(number),
        "name": "onex-effect",
        "tags": ("a",),
        "meta": {"k": "v"},
    }
    return Service.model_validate(values | fields)


def node(number: int = 1, **fields: Any) -> NodeDescription:
    values: dict[str, Any] = {
        "node_id": node_id(number),
        "node_type": "effect",
        "node_version": "1.0.0",
        "capabilities": {"nested": {"list": [1, None, "é\u2028'\""]}},
        "endpoints": {"health": "http://node/health"},
        "metadata": {"zero": 0, "text": ""},
        "correlation_id": UUID(int=77),
        "epoch": 2**63 - 1,
        "timestamp": at(0) + timedelta(microseconds=1),
    }
    return NodeDescription.model_validate(values | fields)


def projection(number: int = 1, *, description: NodeDescription | None = None, **fields: Any) -> Projection:
    found = description or node(number, epoch=1)
    values: dict[str, Any] = {"node": found, "state": "ACTIVE", "seen_at": found.timestamp}
    return Projection.model_validate(values | fields)


def change(
    row: Projection,
    expected: int = 0,
    *,
    change_id: str = "run/step",
    status: str | None = None,
    **fields: Any,
) -> TableChange:
    values: dict[str, Any] = {"change_id": change_id, "projection": row, "expected_revision": expected}
    if status is not None:
        values["registration"] = Registration.model_validate({"node": row.node, "status": status})
    return TableChange.model_validate(values | fields)


def renewal(number: int = 1, *, epoch: int = 1, seconds: float, deadline: float) -> Renewal:
    return Renewal(node_id=node_id(number), epoch=epoch, timestamp=at(seconds), deadline=at(deadline))
