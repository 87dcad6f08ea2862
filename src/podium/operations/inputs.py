"""The inputs of a run: `--input k=v` and files, checked against the workflow's declarations."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from podium.errors import PodiumError
from podium.language.diagnostics import did_you_mean
from podium.patterns import lazy_pattern
from podium.plan.declared import parse_text, problem_of
from podium.plan.plan import Input, Workflow

# Of secret inputs: in a run of this machine, and in one that other machines carry out.
SOURCES: Final = ("env", "file")
SOURCES_ELSEWHERE: Final = ("env",)
_REFERENCE: Final = lazy_pattern(r"env:[A-Za-z_][A-Za-z0-9_]*|file:[^\0\n]*[^\0\s][^\0\n]*")
_ONLY_HERE: Final = (
    "only `podium run` and programs on the machine of the secret can give it; list it in `secrets` of the workflow "
    "instead"
)


class InvalidInput(PodiumError):
    """An input that the workflow does not declare, that has the wrong type, or that is missing."""

    code = "INVALID_INPUT"

    def __init__(self, message: str, location: str = "", valid: str = "") -> None:
        """`location`: where in a program's request; `valid`: what would be valid there."""
        super().__init__(message)
        self.location = location
        self.valid = valid


def parse_inputs(given: Sequence[str], declared: Mapping[str, Input]) -> dict[str, Any]:
    """Parse texts like `name=value`; values other than text are written as JSON."""
    values: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidInput(f"{text!r} is not an input: write it as name=value")
        wanted = declared.get(name)
        values[name] = value if wanted is None else _parsed(name, value, wanted)
    return values


def _parsed(name: str, value: str, wanted: Input) -> Any:
    if wanted.secret:
        return _reference(name, value)
    try:
        return parse_text(value, wanted.type)
    except ValueError as error:
        raise InvalidInput(
            f"the input {name!r} is {value!r}, but its type is {wanted.type}: write it as JSON"
        ) from error


def check_inputs(
    given: Mapping[str, Any], workflow: Workflow, *, sources: Collection[str] = ()
) -> dict[str, Any]:
    """All that is given is known and of its type, and nothing that is required is missing.

    `sources`: where values of secret inputs may come from. None for callers of a server: the machine that
    carries it out has secrets that the caller may not have.
    """
    values = dict(given)
    for name, value in given.items():
        wanted = workflow.inputs.get(name)
        if wanted is None:
            known = ", ".join(workflow.inputs) or "none"
            raise InvalidInput(
                f"unknown input {name!r}. {did_you_mean(name, workflow.inputs)} Inputs: {known}.",
                f"$.inputs.{name}",
                f"inputs: {known}",
            )
        if wanted.secret:
            values[name] = _allowed(name, _reference(name, value), sources)
        elif problem := problem_of(value, wanted):
            raise InvalidInput(f"the input {name!r} {problem}", f"$.inputs.{name}", f"type {wanted.type}")
    for name, wanted in workflow.inputs.items():
        if wanted.required and name not in given:
            value = "env:NAME" if wanted.secret else "VALUE"
            raise InvalidInput(
                f"the input {name!r} is missing; give it with --input {name}={value}",
                f"$.inputs.{name}",
                f"type {wanted.type}",
            )
    return values


def _reference(name: str, value: Any) -> str:
    """It is not quoted if it is none: then it may be the secret itself."""
    if isinstance(value, str) and _REFERENCE.fullmatch(value):
        return value
    raise InvalidInput(
        f"the input {name!r} is secret: give the place of its value, and not the value itself (not shown), with "
        f"--input {name}=env:NAME or --input {name}=file:PATH",
        f"$.inputs.{name}",
        "env:NAME or file:PATH",
    )


def _allowed(name: str, reference: str, sources: Collection[str]) -> str:
    """A path is kept so that it means the same file wherever the run is resumed."""
    kind, _, rest = reference.partition(":")
    if kind not in sources:
        raise InvalidInput(
            f"the input {name!r} is secret, and "
            + (
                "a file is only read by a run on this machine: give it with env:NAME"
                if sources
                else _ONLY_HERE
            ),
            f"$.inputs.{name}",
            " or ".join(f"{source}:..." for source in sources) or "a workflow without secret inputs",
        )
    return reference if kind == "env" else f"file:{Path(rest.strip()).expanduser().absolute()}"
