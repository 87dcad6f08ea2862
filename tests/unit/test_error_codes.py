"""docs/errors.md explains every code there is, and no other."""

import re
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import podium
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


def _codes_of_errors() -> set[str]:
    for module in walk_packages(podium.__path__, "podium."):
        if module.name != "podium.__main__":
            import_module(module.name)
    classes, found = [PodiumError], set()
    while classes:
        one = classes.pop()
        classes += one.__subclasses__()
        found.add(one.code)
    # Codes that are not a class of their own: of ModelOnexError, of a run that stands still, of what was not foreseen.
    others = {*EnumCoreErrorCode, *AlertCode}
    return found | {code.value for code in others} | {"INTERNAL_ERROR", "FILE_NOT_USABLE", BUDGET_EXCEEDED}
