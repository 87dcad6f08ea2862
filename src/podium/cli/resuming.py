"""`podium resume` and `rerun`: drive a run that was started before, or a new one based on it.

Separate from `podium run`, which is called most often and need not wait for the definition of their options.
"""

from pathlib import Path
from typing import Any, Unpack

import click

from podium.cli.app import INVALID_FILE
from podium.cli.engine_options import engine_options
from podium.cli.env_files import use_env_files
from podium.cli.foreground import (
    Foreground,
    Options,
    compiled_workflow,
    foreground_options,
    read_signatures,
    signature_option,
)
from podium.cli.paths import GivenPath
from podium.cli.reading import read_file
from podium.cli.storing import run_argument
from podium.operations.parts import Parts
from podium.ports.engine import RunEnded


@click.command()
@run_argument
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
@signature_option
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
    # Imported here and below, because the hints of a failed run also read the options of these commands.
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
    signatures = read_signatures(signature) if signature is not None else None
    other: Replacement | None = None
    if workflow is not None:
        name, content = read_file(workflow)
        plan = compiled_workflow(content, name)
        if plan is None:
            return INVALID_FILE
        other = Replacement(plan, content, force, signatures)
    foreground, tenant = Foreground(options, existing=run_id), options["tenant"]
    variables = use_env_files(options["env_files"])

    async def work(parts: Parts) -> RunEnded:
        if changed:
            from podium.operations.rerunning import changed_request

            request = await changed_request(
                *(parts, tenant, foreground.run_id),
                workflow=other,
                new_id=new_id,
                env_files=variables,
                signatures=signatures,
            )
            return await foreground.start(parts, request)
        ready = await resume_run(
            *(parts, tenant, foreground.run_id),
            workflow=other,
            budgets=raised,
            workspace=workspace,
            env_files=variables,
        )
        return await foreground.drive(parts, ready)

    return foreground.finish(work)


@click.command()
@run_argument
@click.option(
    "--from", "step", metavar="STEP", help="Where to start: a step that the run reached. [default: the start]"
)
@click.option("--run-id", "new_id", help="The id of the new run. [default: a new one]")
@signature_option
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

    signatures = read_signatures(signature) if signature is not None else None
    foreground = Foreground(options, existing=run_id, on_its_engine=False)
    variables = use_env_files(options["env_files"])

    async def work(parts: Parts) -> RunEnded:
        tenant = options["tenant"]
        request = await rerun_request(parts, tenant, foreground.run_id, step, new_id, variables, signatures)
        return await foreground.start(parts, request)

    return foreground.finish(work)


def _parse_budgets(budgets: tuple[str, ...]) -> dict[str, Any] | None:
    if not budgets:
        return None
    from podium.operations.budgets import parse_budget

    return parse_budget(budgets)
