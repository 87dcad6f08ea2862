"""`podium schema`: JSON Schemas for editors."""

import json

import click


@click.group()
def schema() -> None:
    """Print JSON Schemas for editors.

    An editor that knows the schema completes keys and marks mistakes while you type.
    """


@schema.command()
def workflow() -> None:
    """The schema of workflow files.

    \b
    Save it, and name it in the first line of a workflow:
      podium schema workflow > workflow.schema.json
      # yaml-language-server: $schema=workflow.schema.json
    """
    from podium.language.json_schema import workflow_schema

    click.echo(json.dumps(workflow_schema(), indent=2))


@schema.command()
def contract() -> None:
    """The schema of node contract files.

    \b
    Save it, and name it in the first line of a contract:
      podium schema contract > contract.schema.json
      # yaml-language-server: $schema=contract.schema.json
    """
    from podium.nodes.schema import contract_schema

    click.echo(json.dumps(contract_schema(), indent=2))


@schema.command()
def signals() -> None:
    """The schema of signals and what they carry, for programs that send them."""
    from podium.operations.signal_payloads import signals_schema

    click.echo(json.dumps(signals_schema(), indent=2))
