"""The conformance tables and the tests agree, both ways."""

import re
from pathlib import Path

import pytest

from tests.conformance import RULES_OF_PROMISES, TABLES, later, marked_tests, promised, rows, written
from tests.planted.cannot import CANNOT
from tests.planted.edits import CannotPlant
from tests.planted.registry import FAULTS, by_rule


def test_every_marker_names_a_row() -> None:
    assert set(marked_tests()) - set(rows()) == set()


def test_every_row_is_shown_by_a_test_or_says_when_it_will_be() -> None:
    assert set(rows()) - set(marked_tests()) - later() == set()


def test_every_rule_that_code_and_pages_refer_to_has_a_row() -> None:
    root = TABLES.parents[1]
    pages = [root / "README.md", *(root / "docs").rglob("*.md")]
    for file in [*(root / "src").rglob("*.py"), *pages]:
        named = set(
            re.findall(
                r"\b(?:D\d\d|G\d\d|N\d\d|R\d{3}|RO\d\d|ES\d\d|EN\d\d|NR\d\d|OP\d\d|PR\d\d)\b",
                file.read_text(),
            )
        )
        assert named <= set(rows()), file


def test_the_promises_that_show_rows_exist() -> None:
    assert set(RULES_OF_PROMISES) - promised() == set()


@pytest.mark.parametrize("page", sorted(TABLES.glob("*.md")), ids=lambda page: page.stem)
def test_the_tables_name_the_tests_that_are_there(page: Path) -> None:
    text = page.read_text()
    assert text == written(text), "run `make conformance`"


@pytest.mark.timeout(900)
def test_every_fault_can_still_be_planted() -> None:
    problems = []
    for fault in FAULTS:
        try:
            fault.changed_files()
        except CannotPlant as error:
            problems.append(f"{fault.title}: {error}")
    assert problems == [], "adapt the faults in tests/planted; tests/planted/README.md says how"


def test_faults_and_reasons_name_rows() -> None:
    assert (set(by_rule()) | set(CANNOT)) - set(rows()) == set()
    assert set(by_rule()) & set(CANNOT) == set()
