"""What a run is given: `--input k=v` and files of them, checked against what the workflow declares."""

from collections.abc import Mapping, Sequence
from typing import Any

from podium.errors import PodiumError
from podium.language.diagnostics import did_you_mean
from podium.plan.declared import parse_text, problem_of
from podium.plan.plan import Input, Workflow


class InvalidInput(PodiumError):
    """An input that the workflow does not know, or of another type, or that is missing."""

    code = "INVALID_INPUT"

    def __init__(self, message: str, location: str = "", valid: str = "") -> None:
        """`location`: where in the request of a program; `valid`: what would be right there."""
        super().__init__(message)
        self.location = location
        self.valid = valid


def parse_inputs(given: Sequence[str], declared: Mapping[str, Input]) -> dict[str, Any]:
    """Texts like `name=value`; what is no text is written as JSON."""
    values: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidInput(f"{text!r} is not an input: write it as name=value")
        wanted = declared.get(name)
        values[name] = value if wanted is None else _parsed(name, value, wanted)
    return values


def _parsed(name: str, value: str, wanted: Input) -> Any:
    try:
        return parse_text(value, wanted.type)
    except ValueError as error:
        raise InvalidInput(
            f"the input {name!r} is {value!r}, but its type is {wanted.type}: write it as JSON"
        ) from error


def check_inputs(given: Mapping[str, Any], workflow: Workflow) -> dict[str, Any]:
    """All that is given is known and of its type, and nothing that is required is missing."""
    for name, value in given.items():
        wanted = workflow.inputs.get(name)
        if wanted is None:
            known = ", ".join(workflow.inputs) or "none"
            raise InvalidInput(
                f"unknown input {name!r}. {did_you_mean(name, workflow.inputs)} Inputs: {known}.",
                f"$.inputs.{name}",
                f"inputs: {known}",
            )
        if problem := problem_of(value, wanted):
            raise InvalidInput(f"the input {name!r} {problem}", f"$.inputs.{name}", f"type {wanted.type}")
    for name, wanted in workflow.inputs.items():
        if wanted.required and name not in given:
            raise InvalidInput(
                f"the input {name!r} is missing; give it with --input {name}=VALUE",
                f"$.inputs.{name}",
                f"type {wanted.type}",
            )
    return dict(given)
