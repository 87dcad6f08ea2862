"""`podium validate` and `podium plan`: what a workflow file means, before anything runs."""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Final

import click
import msgspec

from podium.cli.app import INVALID_FILE, MISCONFIGURED
from podium.cli.completed_by import completed_by
from podium.cli.output import print_diagnostics, print_json, print_table
from podium.cli.paths import GivenPath
from podium.cli.reading import read_file
from podium.cli.reporting import FORMATS, github, sarif
from podium.language.source import Position
from podium.language.workflow import WorkflowReading
from podium.operations.workflows import load_workflow
from podium.plan.capabilities import ValidationReport, validation_report
from podium.plan.engine_support import ENGINES
from podium.plan.loading import plan_bytes, steps_of, walk
from podium.plan.plan import Plan, Step
from podium.text import visible
from podium.wiring.agents import installed_providers

NO_PLACES: Final[Mapping[str, Position]] = MappingProxyType({})
_WORKSPACE = click.option(
    "--workspace",
    type=GivenPath(file_okay=False),
    help="Where to look for files that are not next to the workflow. [default: here]",
)


@click.command()
@click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", shell_complete=completed_by("complete_file")
)
@click.option("--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@click.option("--engine", type=click.Choice(list(ENGINES)), help="Also check that this engine can run it.")
@_WORKSPACE
def validate(
    files: tuple[str, ...],
    format_: str,
    as_json: bool,
    strict: bool,
    engine: str | None,
    workspace: Path | None,
) -> int:
    """Report every problem of each workflow or node contract FILE ('-' is standard input).

    Nothing runs. Names, targets, references, types, secrets and loops are checked, and each problem is shown
    at its line and column with what to write instead.

    Exit code 0 if all are valid, 65 if one is not, 78 if the engine cannot run one of them.

    \b
    Examples:
      podium validate release.yaml
      podium validate release.yaml --engine temporal
      podium validate --strict --format github workflows/*.yaml
    """
    readings = [(name, _load(name, content, strict, workspace)) for name, content in map(read_file, files)]
    if as_json:
        format_ = "json"
    if engine is not None and format_ not in ("text", "json"):
        raise click.UsageError(f"--engine is for --format text and json, not {format_}.")
    reports = [_report(reading, engine) for _, reading in readings]
    found = [diagnostic for _, reading in readings for diagnostic in reading.diagnostics]
    match format_:
        case "json":
            print_json(
                [
                    _as_json(name, reading, report)
                    for (name, reading), report in zip(readings, reports, strict=True)
                ]
            )
        case "sarif":
            print_json(sarif(found))
        case "github":
            for diagnostic in found:
                click.echo(github(diagnostic))
        case _:
            for (name, reading), report in zip(readings, reports, strict=True):
                print_diagnostics(reading.diagnostics, reading.omitted)
                if reading.plan is not None:
                    click.echo(f"{visible(name)}: valid, {_summary(reading.plan)}")
                _print_report(name, report)
    if any(reading.plan is None for _, reading in readings):
        return INVALID_FILE
    return MISCONFIGURED if any(report is not None and report.errors for report in reports) else 0


def _report(reading: WorkflowReading, engine: str | None) -> ValidationReport | None:
    if engine is None or reading.plan is None:
        return None
    return validation_report(reading.plan, ENGINES[engine])


def _print_report(name: str, report: ValidationReport | None) -> None:
    if report is None:
        return
    for found in report.errors:
        click.echo(f"{found.code} {visible(name)}: {visible(found.message)}", err=True)
    for found in report.warnings:
        click.echo(f"warning: {visible(name)}: {visible(found.message)}", err=True)
    if not report.errors:
        click.echo(f"{visible(name)}: the engine {report.adapter} can run it")


@click.command()
@click.argument("file", metavar="FILE", shell_complete=completed_by("complete_file"))
@click.option(
    "--json", "as_json", is_flag=True, help="The plan itself: canonical JSON (RFC 8785), byte for byte."
)
@_WORKSPACE
def plan(file: str, as_json: bool, workspace: Path | None) -> int:
    """Show the plan that FILE compiles to ('-' is standard input).

    A plan is what every engine runs. The same workflow gives the same bytes on any machine, and their SHA-256
    names it: that is what an approval is bound to.

    \b
    Examples:
      podium plan release.yaml
      podium plan release.yaml --json > release.plan.json
    """
    name, content = read_file(file)
    reading = _load(name, content, False, workspace)
    print_diagnostics(reading.diagnostics, reading.omitted)
    if reading.plan is None:
        return INVALID_FILE
    encoded = plan_bytes(reading.plan)
    if as_json:
        click.echo(encoded, nl=False)
        return 0
    print_plan(reading.plan, encoded, reading.places)
    return 0


def print_plan(plan: Plan, encoded: bytes, places: Mapping[str, Position] = NO_PLACES) -> None:
    """`places`: the positions of its steps in the file, if there is one."""
    metadata = plan.metadata
    click.echo(f"{visible(metadata.name)}: plan {metadata.plan_id} {metadata.plan_version}, {_summary(plan)}")
    click.echo(f"sha256 {sha256(encoded).hexdigest()}")
    click.echo(f"needs {', '.join(metadata.requires_capabilities)}")
    click.echo()
    print_table(("step", "kind", "line"), [_row(path, step, places) for path, step in walk(plan.workflow)])


def _row(path: str, step: Step, places: Mapping[str, Position]) -> tuple[str, str, str]:
    place = places.get(path)
    line = "" if place is None else f"{visible(place.file)}:{place.line}" if place.file else str(place.line)
    return path, str(step.body.__struct_config__.tag), line


def _load(name: str, content: bytes, strict: bool, workspace: Path | None) -> WorkflowReading:
    return load_workflow(
        content, name, workspace=workspace, strict=strict, installed_providers=installed_providers
    )


def _summary(plan: Plan) -> str:
    count = sum(1 for _ in steps_of(plan.workflow))
    return f"{count} step" if count == 1 else f"{count} steps"


def _as_json(name: str, reading: WorkflowReading, report: ValidationReport | None) -> dict[str, object]:
    facts: dict[str, object] = {
        "file": name,
        "valid": reading.plan is not None,
        "diagnostics": [found.as_json() for found in reading.diagnostics],
        "omitted": reading.omitted,
    }
    if reading.plan is not None:
        facts["planId"] = reading.plan.metadata.plan_id
        facts["planVersion"] = reading.plan.metadata.plan_version
        facts["sha256"] = sha256(plan_bytes(reading.plan)).hexdigest()
    if report is not None:
        facts["validationReport"] = msgspec.to_builtins(report)
    return facts
