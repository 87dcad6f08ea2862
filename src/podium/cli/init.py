"""`podium init`: a first workflow or node, to be changed."""

from pathlib import Path
from typing import Final

import click

from podium.cli.output import print_table
from podium.cli.writing import write_file
from podium.language.diagnostics import did_you_mean
from podium.operations.starters import STARTERS, starter
from podium.text import visible

_NODE: Final = "node"
_WORKFLOW: Final = "workflow.yaml"


@click.command()
@click.argument("template", default="basic", metavar="[TEMPLATE]")
@click.argument("name", required=False, metavar="[NAME]")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help=f"Where to write it: a file, of a node a folder. [default: {_WORKFLOW}; NAME]",
)
@click.option(
    "--type",
    "node_type",
    type=click.Choice(["effect", "compute", "reducer"]),
    help="Of a node. [default: effect]",
)
@click.option("--list", "listed", is_flag=True, help="Show the templates there are.")
@click.option("--force", is_flag=True, help="Replace a file that is already there.")
def init(
    template: str, name: str | None, output: str | None, node_type: str | None, listed: bool, force: bool
) -> int:
    """Write a commented workflow to start from; `--output -` prints it. `node NAME` writes a package with a node.

    \b
    Examples:
      podium init
      podium init agent-loop --output mend.yaml
      podium init node greet --type compute
      podium init --list
    """
    if listed:
        node = ("node NAME", "A package with a node, its contract, models and test")
        print_table(("template", "what it shows"), [*STARTERS.items(), node])
        return 0
    if template == _NODE:
        return _init_node(name, output, node_type or "effect", force=force)
    if name is not None or node_type is not None:
        raise click.UsageError("NAME and --type are for `podium init node NAME`.")
    return _init_workflow(template, output or _WORKFLOW, force=force)


def _init_workflow(template: str, output: str, *, force: bool) -> int:
    if template not in STARTERS:
        known = [*STARTERS, _NODE]
        hint = did_you_mean(template, known) or f"There are: {', '.join(known)}."
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


def _init_node(name: str | None, output: str | None, node_type: str, *, force: bool) -> int:
    from podium.operations.node_starter import node_files

    if name is None:
        raise click.UsageError("Missing argument 'NAME': `podium init node NAME`.")
    contents = node_files(name, node_type)
    folder = Path(output or name)
    present = [path for path in contents if (folder / path).exists()]
    if present and not force:
        raise click.UsageError(
            f"'{visible(str(folder / present[0]))}' is already there. Choose another folder with --output, or --force "
            "to replace it."
        )
    for path, content in contents.items():
        _make_folder((folder / path).parent)
        write_file(str(folder / path), content)
    shown = visible(str(folder))
    click.echo(f"{shown}: a package with the {node_type} node '{name}', its contract, models and test.")
    click.echo("Next:")
    click.echo(f"  pip install -e {shown}    # a node runs in this program: install only what you trust")
    click.echo(f"  podium run {shown}/contract.yaml")
    click.echo(f"  python -m pytest {shown}/tests")
    return 0


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"cannot make '{visible(str(folder))}': {error.strerror}.") from error
