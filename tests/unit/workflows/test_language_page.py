"""docs/reference.md describes the language that the loader reads, and the examples of docs/language.md are valid."""

import re
from pathlib import Path

import pytest

from podium.cli.app import run
from podium.expressions.evaluate import compile_expression
from podium.language.expressions import parse_expression
from podium.language.grammar import ACTIONS, RECORDS
from podium.language.kinds import Kinds
from tests.language_page import PAGE, SCHEMA, schema_text, with_tables
from tests.pages import Section, sections

TEXT = PAGE.read_text()
GUIDE = PAGE.with_name("language.md")


def test_the_tables_are_those_of_the_loader() -> None:
    assert with_tables(TEXT) == TEXT, "run `python -m tests.language_page`"
    for record in RECORDS.values():
        assert all(f"\n| `{key}` |" in TEXT for key in record.fields)


def test_the_schema_is_written_by_the_same_command() -> None:
    assert SCHEMA.read_text() == schema_text(), "run `python -m tests.language_page`"


def test_the_guide_has_examples_of_every_action() -> None:
    assert {
        action
        for action in ACTIONS
        if not re.search(rf"^\s+(?:- )?{action}:", GUIDE.read_text(), re.MULTILINE)
    } <= {
        "prompt_file",
        "while",
    }


@pytest.mark.parametrize("section", sections(GUIDE), ids=[section.title for section in sections(GUIDE)])
def test_the_examples_of_the_guide_are_valid(
    section: Section, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name, content in section.files.items():
        if name.endswith(".yaml") and "\nsteps:" in content:  # other files are lists that these include
            assert run(["validate", "--strict", name]) == 0


def test_what_the_page_says_about_expressions_holds() -> None:
    (table,) = re.findall(r"<!-- expressions -->\n(.*?)\n\n", TEXT, re.DOTALL)
    rows = re.findall(r"^\| `(.*?)` \| `(.*?)` \|", table, re.MULTILINE)
    assert len(rows) >= 15
    for written, expected in rows:
        text = written.replace("\\|", "|")
        value = compile_expression(parse_expression(text, lambda *_: Kinds.ANY))(lambda _: None)
        wanted = compile_expression(parse_expression(expected, lambda *_: Kinds.ANY))(lambda _: None)
        assert (type(value), value) == (type(wanted), wanted), text
