"""`podium run`: start a run, drive it in this process, and show its progress."""

import sys
from pathlib import Path
from typing import Any, Unpack

import click
from msgspec.structs import replace

from podium.cli.app import INVALID_FILE
from podium.cli.completed_by import completed_by
from podium.cli.engine_options import chosen_engine, engine_options
from podium.cli.env_files import facts_to_keep, use_env_files
from podium.cli.foreground import (
    Foreground,
    Options,
    foreground_options,
    read_signatures,
    read_workflow,
    signature_option,
)
from podium.cli.hints import print_notice
from podium.cli.output import print_diagnostics
from podium.cli.paths import GivenPath
from podium.cli.reading import read_file
from podium.cli.servers import given_server, server_option
from podium.log.engines import LOCAL
from podium.log.labels import parse_labels
from podium.operations.inputs import SOURCES, SOURCES_ELSEWHERE, check_inputs, parse_inputs
from podium.operations.parts import Parts, require
from podium.ports.engine import RunEnded, RunRequest
from podium.text import visible
from podium.wiring.plans import signing_rules
from podium.wiring.stores import system_clock
from podium.wiring.use_cases import check_run


@click.command()
@click.argument("file", metavar="FILE", required=False, shell_complete=completed_by("complete_file"))
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
    help="An input of the workflow; repeat it for more. A secret input is NAME=env:VARIABLE or NAME=file:PATH.",
)
@click.option("--input-file", type=GivenPath(dir_okay=False), help="A YAML or JSON file with inputs.")
@click.option("--run-id", help="The id of the run. [default: its plan and random digits, like nightly-3f2a]")
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
@server_option
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

    With --server it is published there and carried out by a worker of the server; paths in it are those of the worker.

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
      podium run release.yaml --input version=1.4.0 --server https://podium.example.com
    """
    server = given_server()
    if server is not None:
        from podium.cli.remote_run import RemoteOrder, run_on_server

        order = RemoteOrder(file, plan_ref, inputs, _read_inputs(input_file), pool, parse_labels(labels))
        return run_on_server(server, order, options)
    asked = _request(file, plan_ref, workspace)
    if asked is None:
        return INVALID_FILE
    request, declared = asked
    plan = request.plan
    given = check_inputs(
        {**_read_inputs(input_file), **parse_inputs(inputs, plan.workflow.inputs)},
        plan.workflow,
        sources=SOURCES if pool is None and chosen_engine().engine == LOCAL else SOURCES_ELSEWHERE,
    )
    labelled = parse_labels(labels)
    _check_reads_env_files(declared)
    variables = use_env_files(options["env_files"], declared)
    replays = options["replay"] is not None
    if signature is not None:
        request = replace(request, signatures=read_signatures(signature))
    if dry_run:
        return _show_plan(file, replace(request, inputs=given), replays=replays)
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
    # Before the store is opened, because it might be created for this run.
    require(check_run(plan, folder, inputs=given, replays=replays), print_notice)
    chosen_engine().require_engine()
    if pool is not None and (chosen_engine().engine != LOCAL or replays or options["record"] is not None):
        raise click.UsageError("--pool is for --engine local, without --record and --replay.")
    foreground = Foreground(options, plan=plan, continues=False)

    async def work(parts: Parts) -> RunEnded:
        return await foreground.start(parts, request)

    return foreground.finish(work, create=True)


def _request(
    file: str | None, plan_ref: str | None, workspace: Path | None
) -> tuple[RunRequest, list[Path]] | None:
    """The plan to run, with its origin, and the environment files that its workflow names.

    Prints the problems of a workflow.
    """
    if (file is None) == (plan_ref is None):
        problem = "FILE and --plan name two plans" if file is not None else "Missing argument 'FILE'"
        raise click.UsageError(f"{problem}: give a workflow file, or a published plan with --plan REF.")
    folder = workspace if workspace is not None else Path.cwd()
    if plan_ref is not None:
        from podium.cli.publish import fetched

        found = fetched(plan_ref, chosen_engine().engine)
        return RunRequest(found.plan, workspace=folder, plan_ref=found.ref, plan_content=found.content), []
    assert file is not None
    name, content = read_file(file)
    reading = read_workflow(content, name, workspace)
    if reading.plan is None:
        return None
    declared = [Path(name).parent / path for path in reading.env_files]
    return RunRequest(reading.plan, source=content, workspace=folder), declared


def _check_reads_env_files(declared: list[Path]) -> None:
    if declared and chosen_engine().engine != LOCAL:
        from podium.operations.env_files import EnvFileNotUsable

        raise EnvFileNotUsable(
            "the workflow names an `env_file`, which only --engine local reads: elsewhere steps get the environment of "
            "their worker; start it with `podium worker --env-file`, and remove `env_file`"
        )


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
    require(check_run(request.plan, request.workspace, inputs=request.inputs, replays=replays), print_notice)
    return 0


def _check_signed(request: RunRequest) -> None:
    """The same check as at the start of the run."""
    rules = signing_rules()
    if rules is None and request.signatures is None:
        return
    import asyncio

    from podium.log.times import timestamp
    from podium.operations.signed_runs import signed_request

    asyncio.run(signed_request(rules, request, timestamp(system_clock().now())))
