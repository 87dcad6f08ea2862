"""What commands that use a store have in common: its options, and opening and closing it around the work."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import click

from podium.cli.hints import given_runs, print_notice, remember_place
from podium.cli.paths import GivenPath
from podium.log.ids import DEFAULT_TENANT
from podium.ports.store import Store
from podium.ports.telemetry import SILENT, Telemetry
from podium.wiring.stores import open_store, runs_folder, store_url, use_configured_permissions
from podium.wiring.use_cases import use_case_parts

if TYPE_CHECKING:
    from podium.operations.parts import Parts

Command: TypeAlias = Callable[..., Any]
T = TypeVar("T")
# What a column of a database can hold.
MAX_NUMBER: Final = 2**63 - 1


def store_option(command: Command) -> Command:
    """`--store` and `--runs`. The first reaches the command as `store`, the second by `given_runs()`."""
    store = click.option(
        "--store",
        "store",
        metavar="URL",
        callback=_store_given,
        help="The store: a path or postgresql://... [default: PODIUM_STORE, else podium.db where runs are kept]",
    )
    runs = click.option(
        "--runs",
        type=GivenPath(file_okay=False),
        # Before --store, which depends on it.
        is_eager=True,
        expose_value=False,
        callback=_runs_given,
        help="Where runs are kept. [default: PODIUM_RUNS, else runs]",
    )
    return runs(store(command))


def _runs_given(_context: click.Context, _option: click.Parameter, value: Path | None) -> Path | None:
    remember_place("--runs", value)
    return value


def _store_given(_context: click.Context, _option: click.Parameter, value: str | None) -> str:
    remember_place("--store", value)
    return store_url(value, given_runs())


def tenant_option(command: Command) -> Command:
    return click.option(
        "--tenant", default=DEFAULT_TENANT, show_default=True, callback=_tenant_given, help="Whose runs."
    )(command)


def _tenant_given(_context: click.Context, _option: click.Parameter, value: str) -> str:
    remember_place("--tenant", value if value != DEFAULT_TENANT else None)
    return value


def json_option(command: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(command)


def using_store(url: str | None, work: Callable[[Store], Awaitable[T]], *, create: bool = False) -> T:
    """Open the store, do the work, close the store. What is written meanwhile (a copy, an export) is private, too."""
    use_configured_permissions()

    async def run() -> T:
        store = await open_store(store_url(url), create=create)
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())


def using_parts(
    url: str | None,
    work: "Callable[[Parts], Awaitable[T]]",
    *,
    create: bool = False,
    telemetry: Telemetry = SILENT,
) -> T:
    """The same for use cases: they ask whether they are allowed, and need more than the store."""
    folder = runs_folder(given_runs())

    def parts(opened: Store) -> "Parts":
        return use_case_parts(opened, folder, print_notice, telemetry=telemetry)

    return using_store(url, lambda opened: work(parts(opened)), create=create)
