"""`podium workers`: the workers of pools."""

import click
import msgspec

from podium.cli.output import print_json, print_table
from podium.cli.storing import json_option, store_option, tenant_option, using_parts
from podium.operations.fleet import drain_worker, list_workers
from podium.operations.printed_lists import workers_table


@click.group()
def workers() -> None:
    """See which workers serve a tenant, and stop one."""


@workers.command("list")
@tenant_option
@store_option
@json_option
def list_(tenant: str, store: str | None, as_json: bool) -> None:
    """List workers: what they serve, and when they were last seen."""
    found = using_parts(store, lambda parts: list_workers(parts, tenant))
    if as_json:
        print_json(msgspec.to_builtins(found))
        return
    print_table(*workers_table(found))


@workers.command()
@click.argument("worker_id", metavar="WORKER")
@tenant_option
@store_option
def drain(worker_id: str, tenant: str, store: str | None) -> None:
    """Stop a worker: it starts nothing more, and running steps have the time of its --drain to end."""
    worker = using_parts(store, lambda parts: drain_worker(parts, tenant, worker_id))
    click.echo(f"worker {worker.id} on {worker.host} drains; {worker.running} runs are in progress there")
