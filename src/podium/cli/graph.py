"""`podium graph`: a workflow, or a run and its state, as a picture."""

from pathlib import Path

import click

from podium.cli.app import INVALID_FILE
from podium.cli.completed_by import completed_by
from podium.cli.output import print_diagnostics
from podium.cli.paths import GivenPath
from podium.cli.reading import read_file
from podium.cli.storing import store_option, tenant_option, using_run
from podium.cli.writing import write_file
from podium.drawing import FORMATS, SUFFIXES, drawn, drawn_picture
from podium.drawing.picture import Picture
from podium.log.ids import RunId, is_id
from podium.operations.parts import Parts
from podium.operations.workflows import load_workflow
from podium.wiring.agents import installed_providers


@click.command()
@click.argument("file", metavar="FILE|RUN", shell_complete=completed_by("complete_file_or_run"))
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
@store_option
@tenant_option
def graph(
    file: str, format_: str | None, output: str | None, workspace: Path | None, store: str | None, tenant: str
) -> int:
    """Draw the steps of FILE and where each outcome leads ('-' is standard input), or the state of RUN.

    What the workflow says is drawn with solid lines, what follows from its flow mode with dashed ones. A name that is
    not that of a file is a run: an id, the start of one, or `last`; then each step has its status.

    \b
    Examples:
      podium graph release.yaml
      podium graph release.yaml --output release.svg
      podium graph last --output last.svg
      podium graph release.yaml --format mermaid
    """
    if format_ is None:
        format_ = SUFFIXES.get(Path(output or "").suffix.lower(), "ascii")
    if _is_run(file):
        _write(_drawn_run(file, format_, store, tenant), output)
        return 0
    name, content = read_file(file)
    reading = load_workflow(content, name, workspace=workspace, installed_providers=installed_providers)
    print_diagnostics(reading.diagnostics, reading.omitted)
    if reading.plan is None:
        return INVALID_FILE
    _write(drawn(reading.plan, format_), output)
    return 0


def _is_run(name: str) -> bool:
    """A file with the name takes precedence. A missing file whose name ends like a workflow's is reported as
    missing.
    """
    is_file = Path(name).exists() or Path(name).suffix in (".yaml", ".yml", ".json")
    return name != "-" and is_id(name) and not is_file


def _drawn_run(name: str, format_: str, store: str | None, tenant: str) -> str:
    from podium.operations.run_drawing import picture_of_run

    async def work(parts: Parts, run_id: RunId) -> Picture:
        return await picture_of_run(parts, tenant, run_id)

    return drawn_picture(using_run(store, tenant, name, work), format_)


def _write(text: str, output: str | None) -> None:
    if output is None or output == "-":
        click.echo(text.encode(), nl=False)
    else:
        write_file(output, text.encode())
