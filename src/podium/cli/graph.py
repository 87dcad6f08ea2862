"""`podium graph`: a workflow as a picture."""

from pathlib import Path

import click

from podium.cli.app import INVALID_FILE
from podium.cli.output import print_diagnostics
from podium.cli.paths import GivenPath
from podium.cli.reading import read_file
from podium.cli.writing import write_file
from podium.drawing import FORMATS, SUFFIXES, drawn
from podium.operations.workflows import load_workflow
from podium.wiring.agents import installed_providers


@click.command()
@click.argument("file", metavar="FILE")
@click.option(
    "--format",
    "format_",
    type=click.Choice(tuple(FORMATS)),
    help="How to draw it. [default: what the name of --output says, else ascii]",
)
@click.option("-o", "--output", metavar="FILE", help="Where to write it. [default: standard output]")
@click.option(
    "--workspace",
    type=GivenPath(file_okay=False),
    help="Where to look for files that are not next to the workflow. [default: here]",
)
def graph(file: str, format_: str | None, output: str | None, workspace: Path | None) -> int:
    """Draw the steps of FILE and where each outcome leads ('-' is standard input).

    What the workflow says is drawn with solid lines, what follows from its flow mode with dashed ones.

    \b
    Examples:
      podium graph release.yaml
      podium graph release.yaml --output release.svg
      podium graph release.yaml --format mermaid
    """
    name, content = read_file(file)
    reading = load_workflow(content, name, workspace=workspace, installed_providers=installed_providers)
    print_diagnostics(reading.diagnostics, reading.omitted)
    if reading.plan is None:
        return INVALID_FILE
    if format_ is None:
        format_ = SUFFIXES.get(Path(output or "").suffix.lower(), "ascii")
    written = drawn(reading.plan, format_).encode()
    if output is None or output == "-":
        click.echo(written, nl=False)
    else:
        write_file(output, written)
    return 0
