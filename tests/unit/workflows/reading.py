"""Small workflows for tests: what they compile to, and what is said about them."""

from textwrap import dedent
from typing import Final, TypeVar

from podium.language.diagnostics import Severity
from podium.language.files import FoundFile
from podium.language.workflow import WorkflowReading, read_workflow
from podium.plan.loading import steps_of
from podium.plan.plan import Body, Command, Plan, Step, Workflow

_HEAD: Final = 'version: "2.0"\nname: W\n'
_Body = TypeVar("_Body", bound=Body)


class TheseFiles:
    """Files by their paths, whoever asks."""

    def __init__(self, files: dict[str, str]) -> None:
        self._files = files

    def is_in_workspace(self, path: str) -> bool:
        return True

    def read(self, path: str, beside: str) -> FoundFile | None:
        text = self._files.get(path)
        return FoundFile(path, text.encode(), path) if text is not None else None


def reading(text: str, *, files: dict[str, str] | None = None, strict: bool = False) -> WorkflowReading:
    """`text` without its version and name, unless it begins with them."""
    text = dedent(text).lstrip("\n")
    whole = text if text.startswith("version:") else _HEAD + text
    return read_workflow(whole.encode(), "w.yaml", files=TheseFiles(files or {}), strict=strict)


def plan(text: str, *, files: dict[str, str] | None = None) -> Plan:
    found = reading(text, files=files)
    assert found.plan is not None, "\n".join(map(str, found.diagnostics))
    return found.plan


def workflow(text: str, *, files: dict[str, str] | None = None) -> Workflow:
    return plan(text, files=files).workflow


def step(text: str, name: str = "A", *, files: dict[str, str] | None = None) -> Step:
    """The step of that id, wherever it stands."""
    return next(found for found in steps_of(workflow(text, files=files)) if found.step_id == name)


def body(kind: type[_Body], text: str, name: str = "A", *, files: dict[str, str] | None = None) -> _Body:
    found = step(text, name, files=files).body
    assert isinstance(found, kind)
    return found


def argv(text: str, name: str = "A") -> tuple[object, ...]:
    return body(Command, text, name).argv


def errors(text: str, *, files: dict[str, str] | None = None) -> list[tuple[str, int]]:
    """Code and line of each error; lines count in `text`."""
    return _told(text, Severity.ERROR, files)


def warnings(text: str, *, files: dict[str, str] | None = None) -> list[tuple[str, int]]:
    return _told(text, Severity.WARNING, files)


def _told(text: str, severity: Severity, files: dict[str, str] | None) -> list[tuple[str, int]]:
    found = reading(text, files=files)
    before = 0 if dedent(text).lstrip("\n").startswith("version:") else _HEAD.count("\n")
    return [
        (str(one.code), one.line - before if one.file == "w.yaml" else one.line)
        for one in found.diagnostics
        if one.severity is severity
    ]
