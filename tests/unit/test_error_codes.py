"""docs/errors.md explains every code there is, and no other."""

import re
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import podium
import podium.errors
from podium.access.audit_verification import FindingKind
from podium.errors import PodiumError
from podium.language.codes import Code
from podium.log.alerts import AlertCode
from podium.machine.budgets import BUDGET_EXCEEDED
from podium.nodes import EnumCoreErrorCode

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"


def test_every_code_has_a_heading_and_every_heading_a_code() -> None:
    headings = re.findall(r"^### (\S+)", PAGE.read_text(), re.MULTILINE)
    assert len(headings) == len(set(headings))
    assert set(headings) == {code.value for code in Code} | _codes_of_errors()


def test_codes_of_files_are_grouped_by_their_first_digit() -> None:
    assert all(re.fullmatch(r"E[1-4][0-9]{2}", code.value) for code in Code)
    assert [code.value for code in Code] == sorted(code.value for code in Code)


def test_the_tree_at_the_top_of_errors_py_shows_every_class_with_its_base_and_its_file() -> None:
    assert _drawn() == {one.__name__: (one.__bases__[0].__name__, _file_of(one)) for one in _classes()}


def _drawn() -> dict[str, tuple[str, str]]:
    """Of each class in the tree its base and its file; a class without a file is in `errors.py`."""
    drawn, above = {}, [PodiumError.__name__]
    for branch, name, file in _BRANCH.findall(podium.errors.__doc__ or ""):
        depth = len(branch) // 4
        above[depth:] = [name]
        drawn[name] = (above[depth - 1], file or "errors.py")
    return drawn


_BRANCH = re.compile(r"^    ([│├└─ ]+ )(\w+)(?: +([\w/]+\.py))?", re.MULTILINE)


def _file_of(error: type[PodiumError]) -> str:
    return error.__module__.removeprefix("podium.").replace(".", "/") + ".py"


def _classes() -> set[type[PodiumError]]:
    """All errors of Podium, without their common base."""
    for module in walk_packages(podium.__path__, "podium."):
        if module.name != "podium.__main__":
            import_module(module.name)
    classes, found = [PodiumError], set()
    while classes:
        found |= (below := {*classes.pop().__subclasses__()})
        classes += below
    return {one for one in found if one.__module__.startswith("podium.")}


def _codes_of_errors() -> set[str]:
    found = {PodiumError.code, *(one.code for one in _classes())}
    # Codes without a class: of ModelOnexError, of findings, of a run that cannot continue, of unforeseen errors.
    others = {*EnumCoreErrorCode, *AlertCode}
    findings = {kind.code for kind in FindingKind}
    codes = {code.value for code in others} | findings
    return found | codes | {"INTERNAL_ERROR", "FILE_NOT_USABLE", BUDGET_EXCEEDED}
