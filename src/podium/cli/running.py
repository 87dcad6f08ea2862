"""`podium run`, `resume` and `rerun`: drive a run in this process, and show how it goes."""

import sys
from pathlib import Path
from typing import Any, Unpack

import click
from msgspec.structs import replace

from podium.cli.app import INVALID_FILE
from podium.cli.engine_options import chosen_engine, engine_options
from podium.cli.env_files import facts_to_keep, use_env_files
from podium.cli.foreground import Foreground, Options, foreground_options
from podium.cli.hints import print_notice, say
from podium.cli.output import print_diagnostics
from podium.cli.paths import GivenPath
from podium.cli.reading import read_file
from podium.operations.inputs import check_inputs, parse_inputs
from podium.operations.parts import Parts, require
from podium.operations.workflows import load_workflow, looks_like_contract
from podium.plan.plan import Plan
from podium.ports.engine import RunEnded, RunRequest
from podium.text import visible
from podium.wiring import check_run, installed_providers, signing_rules, system_clock

_signature = click.option(
    "--signature", metavar="FILE", help="The signatures of the plan, as `podium sign` writes them."
)


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
@click.option("--dry-run", is_flag=True, help="Check everything, show the plan, run nothing.")
@_signature
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
    dry_run: bool,
    signature: str | None,
    **options: Unpack[Options],
) -> int:
    """Run the workflow FILE ('-' is standard input) and wait for its end.

    The run is kept in runs/<run id>: state.json, logs, artifacts. Press Ctrl-C once to cancel it, twice to kill it.

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
    variables = use_env_files(options["env_files"])
    replays = options["replay"] is not None
    if signature is not None:
        request = replace(request, signatures=_read_signatures(signature))
    if dry_run:
        return _show_plan(file, request, replays=replays)
    folder = request.workspace
    request = replace(
        request,
        inputs=given,
        run_id=run_id,
        env_files=facts_to_keep(variables),
        needs_approval=needs_approval,
    )
    # Before the store is opened: it might be made for this run.
    require(check_run(plan, folder, replays=replays), print_notice)
    foreground = Foreground(options, plan=plan, continues=False)

    async def work(parts: Parts) -> RunEnded:
        return await foreground.start(parts, request)

    return foreground.finish(work, create=True)


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option(
    "--workflow", metavar="FILE", help="Continue with this workflow instead of the one the run started with."
)
@click.option("--force", is_flag=True, help="With --workflow: also if its structure is another.")
@click.option("--changed", is_flag=True, help="Start a new run and repeat only what has changed since.")
@click.option("--run-id", "new_id", help="With --changed: the id of the new run. [default: a new one]")
@click.option(
    "--budget",
    "budgets",
    multiple=True,
    metavar="KEY=AMOUNT",
    help="Raise the budget first: usd=5, tokens=100000, STEP.usd=2 for a step's own.",
)
@click.option(
    "--workspace",
    type=GivenPath(file_okay=False, exists=True),
    help="Where commands run from now on, if the folder was moved.",
)
@_signature
@engine_options
@foreground_options
def resume(
    run_id: str,
    workflow: str | None,
    force: bool,
    changed: bool,
    new_id: str | None,
    budgets: tuple[str, ...],
    workspace: Path | None,
    signature: str | None,
    **options: Unpack[Options],
) -> int:
    """Continue a run that was interrupted, paused, cancelled, has failed, or is out of budget.

    What has been done is not done again; what was under way when it stopped is. A completed run is never taken up.
    A loop, block or call that failed is continued: of its steps, what failed, was stopped or never started runs.
    A paused run that another process drives continues there: it is shown here, and its exit code is this command's.

    With --workflow, commands, prompts, limits, retries and budgets may be others than before; the steps and what leads
    from one to another may not. With --changed a new run takes over every step that has completed and would be carried
    out with the same command, inputs and files, and says for each why, or why not.
    """
    from podium.operations.resume import Replacement, resume_run

    raised = _parse_budgets(budgets)
    if budgets and changed:
        raise click.UsageError(
            "--budget is for a run that continues: a new run has the budget of its workflow."
        )
    if force and workflow is None:
        raise click.UsageError("--force is for --workflow: name the file to continue with.")
    if new_id is not None and not changed:
        raise click.UsageError("--run-id is for --changed: a run that continues keeps its id.")
    if signature is not None and workflow is None and not changed:
        raise click.UsageError(
            "--signature is for --workflow and --changed: a run that continues has its plan."
        )
    signatures = _read_signatures(signature) if signature is not None else None
    other: Replacement | None = None
    if workflow is not None:
        name, content = read_file(workflow)
        plan = _compiled(content, name)
        if plan is None:
            return INVALID_FILE
        other = Replacement(plan, content, force, signatures)
    foreground = Foreground(options, run_id=run_id)
    variables = use_env_files(options["env_files"])

    async def work(parts: Parts) -> RunEnded:
        if changed:
            from podium.operations.rerunning import changed_request

            request = await changed_request(
                parts, run_id, workflow=other, new_id=new_id, env_files=variables, signatures=signatures
            )
            return await foreground.start(parts, request)
        ready = await resume_run(
            parts, run_id, workflow=other, budgets=raised, workspace=workspace, env_files=variables
        )
        return await foreground.drive(parts, ready)

    return foreground.finish(work)


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option(
    "--from", "step", metavar="STEP", help="Where to start: a step that the run reached. [default: the start]"
)
@click.option("--run-id", "new_id", help="The id of the new run. [default: a new one]")
@_signature
@engine_options
@foreground_options
def rerun(
    run_id: str, step: str | None, new_id: str | None, signature: str | None, **options: Unpack[Options]
) -> int:
    """Run what was run before once more, from STEP or from its start on, as a new run.

    Results and files of the steps before it are taken over and not made again, and so are those of steps that completed
    beside it: in other branches, in other items of a parallel loop, or in a graph without depending on it. The earlier
    run stays as it is.
    """
    from podium.operations.rerunning import rerun_request

    signatures = _read_signatures(signature) if signature is not None else None
    foreground = Foreground(options)
    variables = use_env_files(options["env_files"])

    async def work(parts: Parts) -> RunEnded:
        request = await rerun_request(parts, run_id, step, new_id, variables, signatures)
        return await foreground.start(parts, request)

    return foreground.finish(work)


def _read_signatures(file: str) -> bytes:
    from podium.access.signatures import MAX_BYTES

    return read_file(file, MAX_BYTES)[1]


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
    if looks_like_contract(content, name):
        say(_is_contract(name), err=True)
        return None
    plan = _compiled(content, name, workspace)
    return RunRequest(plan, source=content, workspace=folder) if plan is not None else None


def _compiled(content: bytes, name: str, workspace: Path | None = None) -> Plan | None:
    """The plan of a workflow. Its problems are printed."""
    reading = load_workflow(
        content, name, workspace=workspace, missing_is_error=True, installed_providers=installed_providers
    )
    print_diagnostics(reading.diagnostics, reading.omitted)
    return reading.plan


def _is_contract(name: str) -> str:
    from shlex import quote

    command = f"podium contract validate {quote(name)}"
    return f"'{visible(name)}' is a node contract, not a workflow; check it with `{command}`"


def _parse_budgets(budgets: tuple[str, ...]) -> dict[str, Any] | None:
    if not budgets:
        return None
    from podium.operations.budgets import parse_budget

    return parse_budget(budgets)


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
