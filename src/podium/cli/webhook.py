"""`podium webhook`: send the events of runs to other systems."""

from typing import Any

import click
import msgspec

from podium.cli.hints import say
from podium.cli.output import print_json, print_table
from podium.cli.storing import json_option, store_option, tenant_option, using_parts
from podium.operations.hooks import webhooks
from podium.operations.hooks.webhooks import NamedWebhook, WebhookOrder
from podium.operations.printed_lists import webhooks_table
from podium.wiring.webhooks import web_receivers


@click.group()
def webhook() -> None:
    """Send the events of runs to other systems, signed. Workers deliver them: `podium worker`.

    \b
    podium webhook add chat --url https://chat.example.com/podium --secret CHAT_HOOK --event RunFailed
    podium webhook list
    """


@webhook.command()
@click.argument("name", metavar="NAME")
@click.option("--url", required=True, help="Where events are posted to: an https address.")
@click.option(
    "--secret", required=True, metavar="REF", help="The name of the secret that deliveries are signed with."
)
@click.option(
    "--event",
    "events",
    multiple=True,
    metavar="TYPE",
    help="Only events of this type, like RunFailed; repeat it for more.",
)
@click.option("--plan", "plans", multiple=True, metavar="PLAN", help="Only events of runs of this plan.")
@store_option
@tenant_option
@json_option
def add(
    name: str,
    url: str,
    secret: str,
    events: tuple[str, ...],
    plans: tuple[str, ...],
    store: str | None,
    tenant: str,
    as_json: bool,
) -> None:
    """Post events of runs to an address, from now on: at least once, those of a run in order."""
    order = WebhookOrder(url=url, secret=secret, events=events, plans=plans)
    receivers = web_receivers()
    added = using_parts(
        store, lambda parts: webhooks.add_webhook(parts, receivers, tenant, name, order), create=True
    )
    if as_json:
        print_json(_json(added))
    else:
        say(f"webhook {name} added; a worker delivers to it: `podium worker`")


@webhook.command("list")
@store_option
@tenant_option
@json_option
def list_(store: str | None, tenant: str, as_json: bool) -> None:
    """List webhooks, with what is wrong with those that fail."""
    found = using_parts(store, lambda parts: webhooks.list_webhooks(parts, tenant))
    if as_json:
        print_json([_json(one) for one in found])
        return
    print_table(*webhooks_table(found))


def _json(named: NamedWebhook) -> dict[str, Any]:
    return {"name": named.name, "state": named.state, **msgspec.to_builtins(named.webhook)}


@webhook.command()
@click.argument("name", metavar="NAME")
@store_option
@tenant_option
def rm(name: str, store: str | None, tenant: str) -> None:
    """Remove a webhook, with what it has not got yet."""
    using_parts(store, lambda parts: webhooks.remove_webhook(parts, tenant, name))
    say(f"webhook {name} removed")
