"""docs/language.md tells the language that the loader reads, and its examples are valid."""

import re

import pytest

from podium.expressions.evaluate import compile_expression
from podium.language.expressions import parse_expression
from podium.language.grammar import RECORDS
from podium.language.kinds import Kinds
from podium.language.workflow import read_workflow
from podium.operations.workflows import load_workflow
from tests.language_page import PAGE, SCHEMA, schema_text, with_tables

TEXT = PAGE.read_text()
YAML = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_the_tables_are_those_of_the_loader() -> None:
    assert with_tables(TEXT) == TEXT, "run `python -m tests.language_page`"
    for record in RECORDS.values():
        assert all(f"\n| `{key}` |" in TEXT for key in record.fields)


def test_the_schema_is_written_by_the_same_command() -> None:
    assert SCHEMA.read_text() == schema_text(), "run `python -m tests.language_page`"


def test_links_inside_the_page_lead_somewhere() -> None:
    headings = {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", TEXT, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([^)]*)\)", TEXT)) <= headings


def test_there_are_examples() -> None:
    assert len(YAML) >= 6


@pytest.mark.parametrize("text", YAML)
def test_an_example_is_valid(text: str) -> None:
    """Whole files as they are; steps alone inside of a file with what they name."""
    if not text.startswith("version:"):
        head = (
            'version: "2.0"\nname: example\n'
            "context: {services: [a, b], branch: main}\nsecrets: [TOKEN]\nsteps:\n"
        )
        text = head + re.sub(r"^", "  ", text, flags=re.MULTILINE)
    reading = load_workflow(text.encode(), "example.yaml")
    assert [str(found) for found in reading.diagnostics] == []
    assert read_workflow(text.encode(), "example.yaml").plan == reading.plan


def test_what_the_page_says_about_expressions_holds() -> None:
    (table,) = re.findall(r"<!-- expressions -->\n(.*?)\n\n", TEXT, re.DOTALL)
    rows = re.findall(r"^\| `(.*?)` \| `(.*?)` \|", table, re.MULTILINE)
    assert len(rows) >= 15
    for written, expected in rows:
        text = written.replace("\\|", "|")
        value = compile_expression(parse_expression(text, lambda *_: Kinds.ANY))(lambda _: None)
        wanted = compile_expression(parse_expression(expected, lambda *_: Kinds.ANY))(lambda _: None)
        assert (type(value), value) == (type(wanted), wanted), text
