"""`podium contract`: check node contracts, and show their order and their actions."""

import asyncio
from collections.abc import Callable, Sized
from typing import Any, TypeAlias
from uuid import uuid4

import click

from podium.cli.app import FAILED, INVALID_FILE
from podium.cli.completed_by import completed_by
from podium.cli.output import print_diagnostics, print_json, print_table
from podium.cli.reading import read_file
from podium.nodes.contract import Contract, ContractReading, read_contract
from podium.nodes.definition import ModelWorkflowStep
from podium.nodes.enums import EnumExecutionMode
from podium.nodes.envelopes import ModelOrchestratorInput, ModelOrchestratorOutput
from podium.nodes.orchestrator import ModelONEXContainer, NodeOrchestrator
from podium.nodes.validation import EXECUTION_MODES, SUPPORTED_MODES, order_steps
from podium.text import visible

Command: TypeAlias = Callable[..., Any]


@click.group()
def contract() -> None:
    """Check node contracts and see what they do.

    A contract declares a workflow of nodes: `workflow_coordination:` with its definition and, beside it,
    `steps:`. See examples/contracts for complete ones, and `podium schema contract` for your editor. `podium run`
    carries out a contract with installed nodes; these commands show what the specification's executor makes of it.
    """


def _on_files(command: Command) -> Command:
    """Arguments and options of all three commands."""
    for add in (
        click.argument(
            "files", nargs=-1, required=True, metavar="FILE...", shell_complete=completed_by("complete_file")
        ),
        click.option("--strict", is_flag=True, help="Treat warnings as errors."),
        click.option("--json", "as_json", is_flag=True, help="The same as --format json."),
        click.option(
            "--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True
        ),
        click.option(
            "--mode", type=click.Choice(SUPPORTED_MODES), help="Override the contract's execution mode."
        ),
    ):
        command = add(command)
    return command


@contract.command()
@_on_files
def validate(files: tuple[str, ...], strict: bool, as_json: bool, format_: str, mode: str | None) -> int:
    """Report every problem of each FILE ('-' is standard input).

    Exit code 0 if all are valid, 65 if one is not.
    """
    del mode  # every accepted value suits any contract

    def facts_of(contract: Contract) -> dict[str, object]:
        return {"steps": len(contract.steps)}

    def shown(name: str, contract: Contract) -> None:
        click.echo(f"{name}: valid, {_count(contract.steps, 'step')}")

    return _for_each(files, strict, as_json or format_ == "json", facts_of, shown)


@contract.command()
@_on_files
def order(files: tuple[str, ...], strict: bool, as_json: bool, format_: str, mode: str | None) -> int:
    """Show in which order the steps of each FILE are processed.

    Steps of one wave depend only on steps of earlier waves; inside a wave the order of the file decides.
    """

    def facts_of(contract: Contract) -> dict[str, object]:
        waves = [
            [{"step_id": str(step.step_id), "step_name": step.step_name} for step in _steps(contract, wave)]
            for wave in order_steps(contract.steps).waves
        ]
        return {"execution_mode": _mode(contract, mode), "waves": waves}

    def shown(_name: str, contract: Contract) -> None:
        waves = order_steps(contract.steps).waves
        _headline(contract, mode, f"{_count(contract.steps, 'step')} in {_count(waves, 'wave')}")
        names = {step.step_id: step.step_name for step in contract.steps}
        rows = [
            (
                str(number) if place == 0 else "",
                step.step_name,
                step.step_type,
                ", ".join(names[needed] for needed in step.depends_on),
                "" if step.enabled else "disabled",
            )
            for number, wave in enumerate(waves, start=1)
            for place, step in enumerate(_steps(contract, wave))
        ]
        print_table(("wave", "step", "type", "depends on", ""), rows)

    return _for_each(files, strict, as_json or format_ == "json", facts_of, shown)


@contract.command()
@_on_files
def actions(files: tuple[str, ...], strict: bool, as_json: bool, format_: str, mode: str | None) -> int:
    """Execute each FILE and show the actions that are emitted.

    Nothing is carried out: an action is an order to another node. Exit code 1 if a step failed.
    """
    outputs: list[ModelOrchestratorOutput] = []

    def output_of(contract: Contract) -> ModelOrchestratorOutput:
        outputs.append(_process(contract, mode))
        return outputs[-1]

    def facts_of(contract: Contract) -> dict[str, object]:
        return {"output": output_of(contract).model_dump(mode="json")}

    def shown(_name: str, contract: Contract) -> None:
        output = output_of(contract)
        _headline(contract, mode, f"{output.execution_status}, {_count(output.actions_emitted, 'action')}")
        number = {action.action_id: str(n) for n, action in enumerate(output.actions_emitted, start=1)}
        rows = [
            (
                number[action.action_id],
                action.payload["step_name"],
                action.target_node_type,
                ", ".join(number[needed] for needed in action.dependencies),
                f"{action.timeout_ms} ms",
                str(action.action_id),
            )
            for action in output.actions_emitted
        ]
        print_table(("#", "step", "target", "after", "timeout", "action id"), rows)
        names = {str(step.step_id): visible(step.step_name) for step in contract.steps}
        for step_id in output.skipped_steps:
            click.echo(f"skipped: {names[step_id]}")
        for error in output.errors:
            click.echo(f"failed: {names[error['step_id']]}: {visible(error['message'])}", err=True)

    code = _for_each(files, strict, as_json or format_ == "json", facts_of, shown)
    return code or (FAILED if any(output.failed_steps for output in outputs) else 0)


def _for_each(
    files: tuple[str, ...],
    strict: bool,
    as_json: bool,
    facts_of: Callable[[Contract], dict[str, object]],
    shown: Callable[[str, Contract], None],
) -> int:
    """Read every file, then print the result for programs or people. One invalid file does not hide the rest."""
    readings = [_read(file, strict) for file in files]
    if as_json:
        print_json([_as_json(name, reading, facts_of) for name, reading in readings])
    else:
        for name, reading in readings:
            print_diagnostics(reading.diagnostics, reading.omitted)
            if reading.contract is not None:
                shown(visible(name), reading.contract)
    return INVALID_FILE if any(reading.contract is None for _, reading in readings) else 0


def _read(file: str, strict: bool) -> tuple[str, ContractReading]:
    name, content = read_file(file)
    return name, read_contract(content, name, strict=strict)


def _as_json(
    name: str, reading: ContractReading, facts_of: Callable[[Contract], dict[str, object]]
) -> dict[str, object]:
    return {
        "file": name,
        "valid": reading.contract is not None,
        "diagnostics": [found.as_json() for found in reading.diagnostics],
        "omitted": reading.omitted,
        **(facts_of(reading.contract) if reading.contract is not None else {}),
    }


def _process(contract: Contract, mode: str | None) -> ModelOrchestratorOutput:
    orchestrator = NodeOrchestrator(ModelONEXContainer())
    orchestrator.workflow_definition = contract.definition
    chosen: dict[str, EnumExecutionMode] = {"execution_mode": EXECUTION_MODES[mode]} if mode else {}
    operation = ModelOrchestratorInput(workflow_id=uuid4(), steps=list(contract.steps), **chosen)
    return asyncio.run(orchestrator.process(operation))


def _mode(contract: Contract, mode: str | None) -> str:
    return mode or contract.definition.workflow_metadata.execution_mode


def _headline(contract: Contract, mode: str | None, outcome: str) -> None:
    metadata = contract.definition.workflow_metadata
    name = f"{visible(metadata.workflow_name)} {metadata.workflow_version}"
    click.echo(f"{name} ({_mode(contract, mode)}): {outcome}")


def _count(things: Sized, name: str) -> str:
    return f"{len(things)} {name}" if len(things) == 1 else f"{len(things)} {name}s"


def _steps(contract: Contract, wave: list[int]) -> list[ModelWorkflowStep]:
    return [contract.steps[index] for index in wave]
