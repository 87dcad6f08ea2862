"""`podium init`: a first workflow, to be changed."""

import click

from podium.cli.output import print_table
from podium.cli.writing import write_file
from podium.language.diagnostics import did_you_mean
from podium.operations.starters import STARTERS, starter
from podium.text import visible


@click.command()
@click.argument("template", default="basic", metavar="[TEMPLATE]")
@click.option(
    "-o", "--output", default="workflow.yaml", show_default=True, metavar="FILE", help="Where to write it."
)
@click.option("--list", "listed", is_flag=True, help="Show the templates there are.")
@click.option("--force", is_flag=True, help="Replace a file that is already there.")
def init(template: str, output: str, listed: bool, force: bool) -> int:
    """Write a commented workflow to start from; `--output -` prints it.

    \b
    Examples:
      podium init
      podium init agent-loop --output mend.yaml
      podium init --list
    """
    if listed:
        print_table(("template", "what it shows"), list(STARTERS.items()))
        return 0
    if template not in STARTERS:
        hint = did_you_mean(template, STARTERS) or f"There are: {', '.join(STARTERS)}."
        raise click.UsageError(f"unknown template '{visible(template)}'. {hint}")
    content = starter(template)
    if output == "-":
        click.echo(content, nl=False)
        return 0
    try:
        write_file(output, content, replace=force)
    except FileExistsError as error:
        raise click.UsageError(
            f"'{visible(output)}' is already there. Choose another name with --output, or --force to replace it."
        ) from error
    shown = visible(output)
    click.echo(f"{shown}: written from the template '{template}'.")
    click.echo("Next:")
    click.echo(f"  podium validate {shown}")
    click.echo(f"  podium graph {shown}")
    click.echo("  podium schema workflow > workflow.schema.json    # beside it: your editor completes keys")
    return 0
