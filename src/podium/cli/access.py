"""`podium access`: who may do what."""

import click
import msgspec

from podium.cli.output import print_json, print_table
from podium.cli.storing import json_option
from podium.operations.access_view import AccessView, all_operations, describe_access
from podium.text import visible
from podium.wiring.access import access_of, access_policy


@click.group()
def access() -> None:
    """See who may do what."""


@access.command()
@click.option("--actor", metavar="NAME", help="Another actor. [default: the caller]")
@click.option("--tenant", help="Only this one. [default: all in which the actor has a role]")
@json_option
def check(actor: str | None, tenant: str | None, as_json: bool) -> None:
    """Show who the caller is, how that is known, and what they may do in which tenant.

    Without rules (`access` in the configuration file) the user of this machine may do everything. Operations on the
    whole store (store.*, worker.serve) have to be allowed in every tenant.

    \b
    podium access check
    podium access check --actor alice --tenant acme
    """
    view = describe_access(access_of(), access_policy(), actor, tenant)
    if as_json:
        print_json(msgspec.to_builtins(view))
        return
    _print(view)


def _print(view: AccessView) -> None:
    known = f" (known by: {view.method})" if view.method is not None else ""
    click.echo(f"actor   {visible(view.actor)}{known}")
    if not view.has_rules:
        click.echo("rules   none: the user of this machine may do everything")
        return
    if not view.tenants:
        click.echo("rules   no role in any tenant: nothing is allowed")
        return
    for tenant, found in view.tenants.items():
        click.echo(f"tenant  {visible(tenant)}: {', '.join(found.roles) or 'no role'}")
    rows = [
        (one.name, one.role.value, *(_yes(found.operations[one.name]) for found in view.tenants.values()))
        for one in all_operations()
    ]
    print_table(("operation", "needs", *view.tenants), rows)


def _yes(allowed: bool) -> str:
    return "yes" if allowed else "no"
