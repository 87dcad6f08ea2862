"""`podium token`: tokens for the HTTP server."""

import click
import msgspec

from podium.access.roles import Role
from podium.access.stored_tokens import StoredToken
from podium.cli.hints import say
from podium.cli.output import print_json, print_table
from podium.cli.storing import json_option, store_option, tenant_option, using_parts
from podium.log.times import Timestamp
from podium.operations.audit_times import later_moment_of
from podium.operations.parts import Parts
from podium.operations.printed_lists import tokens_table
from podium.operations.tokens import MadeToken, NewToken, add_token, list_tokens, remove_token
from podium.text import visible
from podium.wiring.stores import system_clock


@click.group()
def token() -> None:
    """Manage tokens for the HTTP server.

    A token belongs to one tenant and has roles there. It is shown once: the store keeps its SHA-256. With rules about
    access (`access` in the configuration) these commands need the role `owner` in the tenant.

    \b
    podium token add ci-bot --role operator --expires 90d
    podium token list
    podium token rm 3f2a9c0d1e4b5a67
    """


@token.command()
@click.argument("name")
@store_option
@tenant_option
@click.option(
    "--role",
    "roles",
    multiple=True,
    required=True,
    type=click.Choice([role.value for role in Role]),
    help="Repeatable.",
)
@click.option(
    "--project", "projects", multiple=True, help="Only runs of this project; repeatable. [default: all]"
)
@click.option(
    "--expires", metavar="TIME", help="In 90d, 12h or 30m, or at a moment like 2027-01-31. [default: never]"
)
@json_option
def add(
    name: str,
    store: str | None,
    tenant: str,
    roles: tuple[str, ...],
    projects: tuple[str, ...],
    expires: str | None,
    as_json: bool,
) -> None:
    """Make a token for a person or a program called NAME, and print it. It is not shown again.

    \b
    Examples:
      podium token add ci-bot --role operator --expires 90d
      podium token add alice --role engineer --role author --tenant acme
    """
    new = NewToken(
        name=name,
        tenant_id=tenant,
        roles=tuple(Role(role) for role in roles),
        projects=projects,
        expires_at=_expiry(expires),
    )

    async def work(parts: Parts) -> MadeToken:
        return await add_token(parts, new)

    made = using_parts(store, work, create=True)
    if as_json:
        print_json({"token": made.text, **_as_json(made.token)})
        return
    click.echo(made.text)
    say(
        f"token {made.token.token_id} for {visible(name)}: {', '.join(made.token.roles)} in tenant "
        f"{visible(tenant)}. Keep it: it is not shown again.",
        err=True,
    )


@token.command("list")
@store_option
@tenant_option
@json_option
def list_(store: str | None, tenant: str, as_json: bool) -> None:
    """List the tokens of a tenant, oldest first. The tokens themselves are not stored."""

    async def work(parts: Parts) -> list[StoredToken]:
        return await list_tokens(parts, tenant)

    found = using_parts(store, work)
    if as_json:
        print_json([_as_json(one) for one in found])
        return
    print_table(*tokens_table(found))


@token.command()
@click.argument("token_id", metavar="ID")
@store_option
@tenant_option
def rm(token_id: str, store: str | None, tenant: str) -> None:
    """Remove a token. From the next request on it does not work, and its sessions have ended."""

    async def work(parts: Parts) -> None:
        await remove_token(parts, tenant, token_id)

    using_parts(store, work)
    click.echo(f"removed token {visible(token_id)}")


def _expiry(text: str | None) -> Timestamp | None:
    if text is None:
        return None
    moment = later_moment_of(text, system_clock().now())
    if moment is None:
        raise click.UsageError(
            f"--expires '{visible(text)}' is not a time: write 90d, 12h or 30m from now, or a moment like 2027-01-31 "
            "or 2027-01-31T12:00Z."
        )
    return moment


def _as_json(one: StoredToken) -> dict[str, object]:
    fields: dict[str, object] = msgspec.to_builtins(one)
    return {name: value for name, value in fields.items() if name != "sha256"}
