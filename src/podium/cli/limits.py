"""`podium limits` and `podium queue`: how many runs may be in progress, and which runs wait."""

import click
import msgspec

from podium.cli.output import print_json, print_table
from podium.cli.storing import MAX_NUMBER, json_option, store_option, tenant_option, using_parts
from podium.operations.limits import SCOPES, list_limits, remove_limit, set_limit, show_queue
from podium.operations.printed_lists import limits_table, queue_table

_SCOPE = click.Choice(SCOPES)


@click.group()
def limits() -> None:
    """Limit how many runs of a tenant, project, plan or concurrency key are in progress, on all workers together.

    A run is in progress from its start to its end, also while it waits for a person or a timer.

    \b
    podium limits set tenant 100
    podium limits set plan nightly 1
    podium limits rm plan nightly
    """


@limits.command("set")
@click.argument("scope", type=_SCOPE)
@click.argument("name_and_limit", nargs=-1, required=True, metavar="[NAME] LIMIT")
@tenant_option
@store_option
def set_(scope: str, name_and_limit: tuple[str, ...], tenant: str, store: str | None) -> None:
    """Set a limit; 0 starts no more runs. The scope tenant has no NAME."""
    *names, text = name_and_limit
    if len(names) > 1 or not (text.isascii() and text.isdigit()) or int(text) > MAX_NUMBER:
        raise click.UsageError("give the scope, the name of what is limited, and a number: plan nightly 3")
    name = names[0] if names else None
    limit = using_parts(store, lambda parts: set_limit(parts, tenant, scope, name, int(text)), create=True)
    click.echo(f"at most {limit.most} runs of {limit.scope} {limit.name!r} are in progress")


@limits.command("list")
@tenant_option
@store_option
@json_option
def list_(tenant: str, store: str | None, as_json: bool) -> None:
    """List limits."""
    found = using_parts(store, lambda parts: list_limits(parts, tenant))
    if as_json:
        print_json([{"scope": one.scope, "name": one.name, "limit": one.most} for one in found])
        return
    print_table(*limits_table(found))


@limits.command()
@click.argument("scope", type=_SCOPE)
@click.argument("name", required=False)
@tenant_option
@store_option
def rm(scope: str, name: str | None, tenant: str, store: str | None) -> None:
    """Remove a limit."""
    using_parts(store, lambda parts: remove_limit(parts, tenant, scope, name))
    click.echo("removed")


@click.command()
@click.option("--pool", help="List the runs that wait in this pool, in the order in which they start.")
@click.option("--after", default="", metavar="RUN", help="With --pool: continue after this run.")
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True, help="With --pool.")
@tenant_option
@store_option
@json_option
def queue(pool: str | None, after: str, limit: int, tenant: str, store: str | None, as_json: bool) -> None:
    """See what waits in pools."""
    found = using_parts(store, lambda parts: show_queue(parts, tenant, pool, after=after, limit=limit))
    if as_json:
        print_json(msgspec.to_builtins(found))
    else:
        print_table(*queue_table(found, pool))
