"""The catalogs for nodes that register nodes, in any run: in `podium run`, in workers, and in a program.

They are those of the secrets PODIUM_CONSUL and PODIUM_REGISTRATION_DB, opened when a step first uses one;
`memory:` is a catalog that lives as long as the process. `podium registration serve` opens its own before it
starts.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from podium.wiring.plans import secret_lookup

MEMORY: Final = "memory:"


class _Later:
    """A catalog whose methods are coroutines; opened by the first call in an event loop."""

    def __init__(self, opening: Callable[[], Awaitable[Any]]) -> None:
        self._opening = opening
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened: Any = None
        self._lock = asyncio.Lock()

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*arguments: Any, **named: Any) -> Any:
            return await getattr(await self._catalog(), name)(*arguments, **named)

        return call

    async def _catalog(self) -> Any:
        """Raises what `open_service_catalog` and `open_registration_table` raise."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._lock, self._opened = loop, asyncio.Lock(), None
        async with self._lock:
            if self._opened is None:
                self._opened = await self._opening()
        return self._opened


def registration_ports() -> Mapping[Any, object]:
    from podium.ports.catalog import ProtocolProjectionReader, RegistrationTable, ServiceCatalog

    table = _Later(_table)
    return {ServiceCatalog: _Later(_services), RegistrationTable: table, ProtocolProjectionReader: table}


def _place() -> tuple[str, str]:
    """Environment and namespace for the topics of `podium run`."""
    return os.environ.get("PODIUM_ENV") or "local", os.environ.get("PODIUM_NAMESPACE") or "default"


async def _services() -> object:
    if secret_lookup().get("PODIUM_CONSUL") == MEMORY:
        from podium.catalogs.memory import MemoryServices

        return MemoryServices()
    from podium.wiring.catalogs import open_service_catalog

    return await open_service_catalog(None, *_place())


async def _table() -> object:
    if secret_lookup().get("PODIUM_REGISTRATION_DB") == MEMORY:
        from podium.catalogs.memory import MemoryTable

        return MemoryTable()
    from podium.wiring.catalogs import open_registration_table

    return await open_registration_table(None, owner="/".join(_place()))
