"""`podium tenant`: tenants that were created or closed."""

import click
import msgspec

from podium.access.tenants import TenantState
from podium.cli.output import print_json, print_table
from podium.cli.storing import json_option, store_option, using_parts
from podium.log.ids import DEFAULT_TENANT
from podium.operations.parts import Parts
from podium.operations.printed_lists import tenants_table
from podium.operations.tenants import close_tenant, list_tenants, open_tenant
from podium.text import visible


@click.group()
def tenant() -> None:
    """Manage tenants.

    A tenant needs no creation: one that was never closed is open. In a closed tenant no token works and nothing starts;
    runs that are under way finish. Its audit log stays. With rules about access these commands need the role `owner`
    in the tenant `default`.

    \b
    podium tenant list
    podium tenant close acme
    podium tenant open acme
    """


@tenant.command("list")
@store_option
@json_option
def list_(store: str | None, as_json: bool) -> None:
    """List the tenants that were created or closed."""

    async def work(parts: Parts) -> list[TenantState]:
        return await list_tenants(parts, DEFAULT_TENANT)

    found = using_parts(store, work)
    if as_json:
        print_json([msgspec.to_builtins(one) for one in found])
        return
    print_table(*tenants_table(found))


@tenant.command("open")
@click.argument("tenant_id", metavar="TENANT")
@store_option
def open_(tenant_id: str, store: str | None) -> None:
    """Create a tenant, or reopen a closed one: its tokens work again, and its queued runs start."""

    async def work(parts: Parts) -> None:
        await open_tenant(parts, tenant_id)

    using_parts(store, work, create=True)
    click.echo(f"tenant {visible(tenant_id)} is open")


@tenant.command()
@click.argument("tenant_id", metavar="TENANT")
@store_option
def close(tenant_id: str, store: str | None) -> None:
    """Close a tenant: no token of it works and nothing starts in it, from now on."""

    async def work(parts: Parts) -> None:
        await close_tenant(parts, tenant_id)

    using_parts(store, work, create=True)
    click.echo(f"tenant {visible(tenant_id)} is closed")
