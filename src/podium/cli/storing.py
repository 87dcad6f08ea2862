"""What commands that use a store have in common: its options, and opening and closing it around the work."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias, TypeVar

import click

from podium.model.ids import DEFAULT_TENANT
from podium.ports.store import Store
from podium.wiring import open_store, store_url, use_configured_permissions

Command: TypeAlias = Callable[..., Any]
T = TypeVar("T")
# What a column of a database can hold.
MAX_NUMBER: Final = 2**63 - 1


def store_option(command: Command) -> Command:
    return click.option(
        "--store",
        "store",
        metavar="URL",
        help="The store: a path or postgresql://... [default: PODIUM_STORE, else runs/podium.db]",
    )(command)


def tenant_option(command: Command) -> Command:
    return click.option("--tenant", default=DEFAULT_TENANT, show_default=True, help="Whose runs.")(command)


def json_option(command: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(command)


def using_store(url: str | None, work: Callable[[Store], Awaitable[T]], *, create: bool = False) -> T:
    """Open the store, do the work, close the store."""

    if create:
        use_configured_permissions()

    async def run() -> T:
        store = await open_store(store_url(url), create=create)
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())
