"""Shared by commands that use a store: its options, and opening and closing it around the work."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import click

from podium.cli.completed_by import completed_by
from podium.cli.hints import given_place, given_runs, print_notice, remember_place
from podium.cli.paths import GivenPath
from podium.log.ids import DEFAULT_TENANT, RunId
from podium.ports.store import Store
from podium.ports.telemetry import SILENT, Telemetry
from podium.wiring.stores import open_store, runs_folder, store_url, use_configured_permissions
from podium.wiring.use_cases import use_case_parts

if TYPE_CHECKING:
    from podium.operations.parts import Parts

Command: TypeAlias = Callable[..., Any]
T = TypeVar("T")
# Limit of an integer column in a database.
MAX_NUMBER: Final = 2**63 - 1


def store_option(command: Command) -> Command:
    """`--store` and `--runs`. The command gets the first as `store`, the second from `given_runs()`."""
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
        # Processed before --store, which depends on it.
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
        "--tenant",
        default=DEFAULT_TENANT,
        show_default=True,
        callback=_tenant_given,
        help="Tenant to act for.",
    )(command)


def _tenant_given(_context: click.Context, _option: click.Parameter, value: str) -> str:
    remember_place("--tenant", value if value != DEFAULT_TENANT else None)
    return value


def json_option(command: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(command)


def using_store(url: str | None, work: Callable[[Store], Awaitable[T]], *, create: bool = False) -> T:
    """Open the store, do the work, close the store. Files written in between (a copy, an export) are private,
    too.
    """
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
    """The same for use cases, which check permissions and need more than the store."""
    _say_which_store()
    folder = runs_folder(given_runs())

    def parts(opened: Store) -> "Parts":
        return use_case_parts(opened, folder, print_notice, telemetry=telemetry)

    return using_store(url, lambda opened: work(parts(opened)), create=create)


def _say_which_store() -> None:
    """Commands that can ask a server do so if PODIUM_SERVER names one, and never get here then."""
    is_named = given_place("--store") is not None or given_runs() is not None or "PODIUM_STORE" in os.environ
    if os.environ.get("PODIUM_SERVER") and not is_named:
        print_notice(
            "PODIUM_SERVER is set, but this command does not ask servers: it uses the store of this machine; "
            "name it with --store, or leave PODIUM_SERVER out"
        )


def run_argument(command: Command) -> Command:
    """RUN: an id, the start of one, or `last`. `using_run` determines the run."""
    return click.argument("run_id", metavar="RUN", shell_complete=completed_by("complete_run"))(command)


def using_run(url: str | None, tenant: str, name: str, work: "Callable[[Parts, RunId], Awaitable[T]]") -> T:
    """The same for operations on one run, with its id."""

    async def resolved(parts: "Parts") -> T:
        from podium.operations.run_names import resolve_run

        return await work(parts, await resolve_run(parts, tenant, name))

    return using_parts(url, resolved)
