"""`podium run`: start a run, drive it in this process, and show how it goes."""

import sys
from pathlib import Path
from typing import Any, Unpack

import click
from msgspec.structs import replace

from podium.cli.app import INVALID_FILE
from podium.cli.engine_options import chosen_engine, engine_options
from podium.cli.env_files import facts_to_keep, use_env_files
from podium.cli.foreground import (
    Foreground,
    Options,
    compiled_workflow,
    foreground_options,
    read_signatures,
    signature_option,
)
from podium.cli.hints import print_notice
from podium.cli.output import print_diagnostics
from podium.cli.paths import GivenPath
from podium.cli.reading import read_file
from podium.log.engines import LOCAL
from podium.log.labels import parse_labels
from podium.operations.inputs import check_inputs, parse_inputs
from podium.operations.parts import Parts, require
from podium.ports.engine import RunEnded, RunRequest
from podium.text import visible
from podium.wiring.plans import signing_rules
from podium.wiring.stores import system_clock
from podium.wiring.use_cases import check_run


@click.command()
@click.argument("file", metavar="FILE", required=False)
@click.option(
    "--plan",
    "plan_ref",
    metavar="REF",
    help="Instead of FILE: a published plan, URI#sha256=HASH, or a file with the answer of `publish --json`.",
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=VALUE",
    help="An input of the workflow; repeat it for more.",
)
@click.option("--input-file", type=GivenPath(dir_okay=False), help="A YAML or JSON file with inputs.")
@click.option("--run-id", help="The id of the run. [default: a new one]")
@click.option(
    "--workspace",
    type=GivenPath(file_okay=False, exists=True),
    help="Where commands run. [default: here]",
)
@click.option(
    "--needs-approval",
    is_flag=True,
    help="Start it only when its plan was approved (`podium approve`), also if the workflow does not ask for it.",
)
@click.option(
    "--pool",
    metavar="NAME",
    help="Let a host of this pool carry it out (`podium worker --pool NAME`), and follow it.",
)
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="NAME=VALUE",
    help="A label of the run, for `podium runs list --filter label.NAME=VALUE`; repeat it for more.",
)
@click.option("--dry-run", is_flag=True, help="Check everything, show the plan, run nothing.")
@signature_option
@engine_options
@foreground_options
def run(
    file: str | None,
    plan_ref: str | None,
    inputs: tuple[str, ...],
    input_file: Path | None,
    run_id: str | None,
    workspace: Path | None,
    needs_approval: bool,
    pool: str | None,
    labels: tuple[str, ...],
    dry_run: bool,
    signature: str | None,
    **options: Unpack[Options],
) -> int:
    """Run the workflow or node contract FILE ('-' is standard input) and wait for its end.

    The run is kept in runs/<run id>: state.json, logs, artifacts. Press Ctrl-C once to cancel it, twice to kill it; a
    third time leaves a run of a pool or of another engine that no process has stopped yet.

    Exit codes: 0 success, 1 failed, 2 cancelled, 3 timed out, 4 no transition, 5 left waiting (--no-wait) or out of
    budget, 64 wrong usage, 65 invalid workflow, 75 the run is driven by another process, 78 a key, program or
    package that the workflow needs is missing (checked before anything is created).

    \b
    Examples:
      podium run examples/test_fix_loop.yaml
      podium run release.yaml --input version=1.4.0 --stream
      podium run examples/review_loop.yaml --replay examples/recordings/review_loop
      podium run --plan release.ref.json
    """
    request = _request(file, plan_ref, workspace)
    if request is None:
        return INVALID_FILE
    plan = request.plan
    given = check_inputs(
        {**_read_inputs(input_file), **parse_inputs(inputs, plan.workflow.inputs)}, plan.workflow
    )
    labelled = parse_labels(labels)
    variables = use_env_files(options["env_files"])
    replays = options["replay"] is not None
    if signature is not None:
        request = replace(request, signatures=read_signatures(signature))
    if dry_run:
        return _show_plan(file, request, replays=replays)
    folder = request.workspace
    request = replace(
        request,
        inputs=given,
        run_id=run_id,
        env_files=facts_to_keep(variables),
        needs_approval=needs_approval,
        tenant_id=options["tenant"],
        pool=pool,
        labels=labelled,
    )
    # Before the store is opened: it might be made for this run.
    require(check_run(plan, folder, replays=replays), print_notice)
    chosen_engine().require_engine()
    if pool is not None and (chosen_engine().engine != LOCAL or replays or options["record"] is not None):
        raise click.UsageError("--pool is for --engine local, without --record and --replay.")
    foreground = Foreground(options, plan=plan, continues=False)

    async def work(parts: Parts) -> RunEnded:
        return await foreground.start(parts, request)

    return foreground.finish(work, create=True)


def _request(file: str | None, plan_ref: str | None, workspace: Path | None) -> RunRequest | None:
    """The plan to run, with where it comes from. Problems of a workflow are printed."""
    if (file is None) == (plan_ref is None):
        problem = "FILE and --plan name two plans" if file is not None else "Missing argument 'FILE'"
        raise click.UsageError(f"{problem}: give a workflow file, or a published plan with --plan REF.")
    folder = workspace if workspace is not None else Path.cwd()
    if plan_ref is not None:
        from podium.cli.publish import fetched

        found = fetched(plan_ref, chosen_engine().engine)
        return RunRequest(found.plan, workspace=folder, plan_ref=found.ref, plan_content=found.content)
    assert file is not None
    name, content = read_file(file)
    plan = compiled_workflow(content, name, workspace)
    return RunRequest(plan, source=content, workspace=folder) if plan is not None else None


def _read_inputs(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    from podium.language.reader import read_yaml
    from podium.language.tree import Mapping, plain

    name, content = read_file(str(path))
    document = read_yaml(content, name)
    if not isinstance(document.root, Mapping):
        print_diagnostics(document.report.diagnostics, document.report.omitted)
        raise click.UsageError(f"'{visible(name)}' has no inputs: write name: value lines.")
    values = plain(document.root)
    assert isinstance(values, dict)
    return values


def _show_plan(file: str | None, request: RunRequest, *, replays: bool) -> int:
    from podium.cli.workflow import plan, print_plan

    if file is not None:
        click.get_current_context().invoke(plan, file=file, as_json=False, workspace=request.workspace)
    else:
        print_plan(request.plan, request.plan_content or b"")
    click.echo("\nDry run: nothing was run.")
    sys.stdout.flush()
    _check_signed(request)
    require(check_run(request.plan, request.workspace, replays=replays), print_notice)
    return 0


def _check_signed(request: RunRequest) -> None:
    """As the start of the run would."""
    rules = signing_rules()
    if rules is None and request.signatures is None:
        return
    import asyncio

    from podium.log.times import timestamp
    from podium.operations.signed_runs import signed_request

    asyncio.run(signed_request(rules, request, timestamp(system_clock().now())))
