"""Where commands run, and what `defaults` says about it."""

from podium.language.workflow import read_workflow
from podium.plan.plan import Command, Container, Ssh


def commands_of(text: str) -> list[Command]:
    reading = read_workflow(f'version: "2.0"\nname: test\n{text}'.encode(), "w.yaml")
    assert reading.plan is not None, [str(one) for one in reading.diagnostics]
    bodies = [step.body for step in reading.plan.workflow.block.steps]
    return [body for body in bodies if isinstance(body, Command)]


def test_defaults_hold_for_commands_and_scripts_that_have_neither() -> None:
    first, second, third = commands_of(
        """
defaults: {container: {image: "python:3.12"}, env_policy: minimal}
steps:
  - {name: A, command: [make]}
  - {name: B, shell: make}
  - {name: C, command: [make], ssh: {host: web-1}}
  - {name: D, set: {x: 1}}
"""
    )
    assert first.container == second.container == Container("python:3.12")
    assert (third.container, third.ssh) == (None, Ssh("web-1"))
    assert first.work.env_policy == third.work.env_policy == "inherit"


def test_a_step_without_a_place_runs_here() -> None:
    (only,) = commands_of("steps: [{name: A, command: [make]}]")
    assert (only.container, only.ssh) == (None, None)
