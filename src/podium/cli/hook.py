"""`podium hook`: let other systems start runs by signed requests."""

import json
from typing import Any

import click
import msgspec

from podium.cli.hints import say
from podium.cli.output import print_json, print_table
from podium.cli.reading import read_file
from podium.cli.storing import json_option, store_option, tenant_option, using_parts
from podium.hooks.endpoint import DEFAULT_RATE, MAX_RATE
from podium.operations.hooks import defining
from podium.operations.hooks.defining import HookOrder, NamedHook
from podium.operations.printed_lists import hooks_table
from podium.text import visible


@click.group()
def hook() -> None:
    """Let other systems start runs by signed requests to the server.

    \b
    podium hook add deploy --plan release@1.4.0 --secret DEPLOY_HOOK
    """


@hook.command()
@click.argument("name", metavar="NAME")
@click.option("--plan", required=True, metavar="ID@VERSION", help="A plan that was published on the server.")
@click.option(
    "--secret", required=True, metavar="REF", help="The name of the secret that deliveries are signed with."
)
@click.option("--schema", metavar="FILE", help="A JSON Schema for the bodies of deliveries.")
@click.option(
    "--body-input",
    metavar="INPUT",
    help="The input that gets the whole body. [default: the body has the inputs]",
)
@click.option("--pool", default="default", show_default=True, metavar="NAME", help="Whose workers run it.")
@click.option(
    "--rate",
    default=DEFAULT_RATE,
    show_default=True,
    type=click.IntRange(1, MAX_RATE),
    help="Deliveries a minute.",
)
@store_option
@tenant_option
@json_option
def add(
    name: str,
    plan: str,
    secret: str,
    schema: str | None,
    body_input: str | None,
    pool: str,
    rate: int,
    store: str | None,
    tenant: str,
    as_json: bool,
) -> None:
    """Start a run of a published plan for each delivery to /api/v1/hooks/NAME/deliveries."""
    order = HookOrder(
        plan=plan,
        secret=secret,
        schema=_schema(schema) if schema is not None else None,
        body_input=body_input,
        pool=pool,
        rate=rate,
    )
    added = using_parts(store, lambda parts: defining.add_hook(parts, tenant, name, order))
    if as_json:
        print_json(_json(added))
    else:
        say(f"hook {name} added: deliveries to /api/v1/hooks/{name}/deliveries start runs of {visible(plan)}")


def _schema(file: str) -> dict[str, Any]:
    name, content = read_file(file)
    try:
        found = json.loads(content)
    except ValueError as error:
        raise click.UsageError(f"'{visible(name)}' is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise click.UsageError(f"'{visible(name)}' is not a JSON Schema: write an object.")
    return found


@hook.command("list")
@store_option
@tenant_option
@json_option
def list_(store: str | None, tenant: str, as_json: bool) -> None:
    """List hooks."""
    found = using_parts(store, lambda parts: defining.list_hooks(parts, tenant))
    if as_json:
        print_json([_json(one) for one in found])
        return
    print_table(*hooks_table(found))


def _json(named: NamedHook) -> dict[str, Any]:
    return {"name": named.name, **msgspec.to_builtins(named.hook)}


@hook.command()
@click.argument("name", metavar="NAME")
@store_option
@tenant_option
def rm(name: str, store: str | None, tenant: str) -> None:
    """Remove a hook. Its runs stay."""
    using_parts(store, lambda parts: defining.remove_hook(parts, tenant, name))
    say(f"hook {name} removed")
