"""docs/contract.md shows the transitions that hold."""

from tests.diagrams import PAGE, with_diagrams


def test_the_diagrams_are_those_of_the_tables() -> None:
    text = PAGE.read_text()
    assert "stateDiagram" in text
    assert text == with_diagrams(text), "run `python -m tests.diagrams`"
