"""`podium init`: a first workflow or node, to be changed."""

import json
import re
import sys
from pathlib import Path
from typing import Final

import click

from podium.cli.completed_by import completed_by
from podium.cli.output import print_table
from podium.cli.reading import read_file
from podium.cli.writing import write_file
from podium.language.diagnostics import Severity, did_you_mean
from podium.operations.starters import STARTERS, starter
from podium.text import visible

_NODE: Final = "node"
_WORKFLOW: Final = "workflow.yaml"
_NAME_LINE: Final = re.compile(r"^name: *(.*)$", re.MULTILINE)


@click.command()
@click.argument(
    "template", required=False, metavar="[TEMPLATE]", shell_complete=completed_by("complete_template")
)
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
@click.option(
    "--from",
    "origin",
    type=click.Choice(["Makefile", "github-workflow"], case_sensitive=False),
    help="Translate the file that is given in the place of TEMPLATE; what cannot be translated is listed.",
)
@click.option("--list", "listed", is_flag=True, help="Show the templates there are.")
@click.option("--force", is_flag=True, help="Replace a file that is already there.")
def init(
    template: str | None,
    name: str | None,
    output: str | None,
    node_type: str | None,
    origin: str | None,
    listed: bool,
    force: bool,
) -> int:
    """Write a commented workflow to start from; `--output -` prints it. `node NAME` writes a package with a node.

    On a terminal, without TEMPLATE, it asks what the workflow is for, what it is called and where to write it.

    \b
    Examples:
      podium init
      podium init agent-loop --output mend.yaml
      podium init node greet --type compute
      podium init --from Makefile Makefile --output build.yaml
      podium init --from github-workflow .github/workflows/ci.yml
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
    if origin is not None:
        return _translate(origin.lower(), template, output or _WORKFLOW, force=force)
    if template is None and output is None and sys.stdin.isatty() and sys.stdout.isatty():
        return _ask(force=force)
    return _init_workflow(template or "basic", output or _WORKFLOW, force=force)


def _ask(*, force: bool) -> int:
    """Three questions, each with a default answer."""
    click.echo("Templates:")
    for number, (template, shown) in enumerate(STARTERS.items(), 1):
        click.echo(f"  {number}. {template}: {shown}")
    templates = list(STARTERS)
    number = click.prompt("What is the workflow for?", default=1, type=click.IntRange(1, len(templates)))
    template = templates[number - 1]
    text = starter(template).decode()
    content = click.prompt(
        "What is it called?", default=_title(text), value_proc=lambda title: _named(text, title)
    )
    output = click.prompt("Where is it written?", default=_WORKFLOW)
    return _write_workflow(content, output, f"written from the template '{template}'", force=force)


def _named(text: str, title: str) -> bytes:
    """The workflow with this name. It is asked for again if no workflow can be called that."""
    from podium.operations.workflows import load_workflow

    content = _NAME_LINE.sub(lambda _: f"name: {json.dumps(title)}", text, count=1).encode()
    reading = load_workflow(content, _WORKFLOW)
    if reading.plan is None:
        raise click.UsageError(
            " ".join(
                f"{one.message} {one.hint}" for one in reading.diagnostics if one.severity is Severity.ERROR
            )
        )
    return content


def _title(content: str) -> str:
    found = _NAME_LINE.search(content)
    return found[1].strip("\"'") if found is not None else "workflow"


def _translate(origin: str, file: str | None, output: str, *, force: bool) -> int:
    from podium.operations.importing.github import from_github
    from podium.operations.importing.makefile import from_makefile
    from podium.operations.workflows import require_workflow

    if file is None:
        raise click.UsageError("Missing argument: name the file to translate.")
    name, content = read_file(file)
    title = Path(name).stem
    made = (
        from_makefile(content.decode(errors="replace"), title)
        if origin == "makefile"
        else from_github(content, title)
    )
    text = made.text().encode()
    require_workflow(text, output)  # before anything is written
    code = _write_workflow(text, output, f"translated from '{visible(name)}'", force=force)
    for line in made.left_out:
        click.echo(f"not translated: {visible(line)}", err=output == "-")
    return code


def _init_workflow(template: str, output: str, *, force: bool) -> int:
    if template not in STARTERS:
        known = [*STARTERS, _NODE]
        hint = did_you_mean(template, known) or f"There are: {', '.join(known)}."
        raise click.UsageError(f"unknown template '{visible(template)}'. {hint}")
    return _write_workflow(starter(template), output, f"written from the template '{template}'", force=force)


def _write_workflow(content: bytes, output: str, how: str, *, force: bool) -> int:
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
    click.echo(f"{shown}: {how}.")
    click.echo("Next:")
    click.echo(f"  podium validate {shown}")
    click.echo(f"  podium graph {shown}")
    click.echo(f"  podium run {shown}")
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


def template_names() -> list[str]:
    return [*STARTERS, _NODE]
