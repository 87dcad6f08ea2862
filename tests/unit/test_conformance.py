"""The conformance tables and the tests agree, both ways."""

from pathlib import Path

import pytest

from tests.conformance import TABLES, marked_tests, rows, written


def test_every_marker_names_a_row() -> None:
    assert set(marked_tests()) - set(rows()) == set()


def test_every_row_is_shown_by_a_test() -> None:
    assert set(rows()) - set(marked_tests()) == set()


@pytest.mark.parametrize("page", sorted(TABLES.glob("*.md")), ids=lambda page: page.stem)
def test_the_tables_name_the_tests_that_are_there(page: Path) -> None:
    text = page.read_text()
    assert text == written(text), "run `make conformance`"
