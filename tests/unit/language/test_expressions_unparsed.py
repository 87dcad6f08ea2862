"""An expression that is written down again and read again is the same expression."""

import msgspec
from hypothesis import given, settings

from podium.expressions.evaluate import unparse
from podium.expressions.types import Expression, Reference
from podium.language.expressions import parse_expression
from podium.language.kinds import Kinds
from tests.unit.language.trees import references, trees


def parse(text: str) -> Expression:
    return parse_expression(text, lambda *_: Kinds.ANY)


@given(trees)
@settings(max_examples=300, deadline=None)
def test_parsing_what_was_told_gives_the_tree_again(tree: Expression) -> None:
    # As JSON: Python takes True for 1.
    assert msgspec.json.encode(parse(unparse(tree))) == msgspec.json.encode(tree)


@given(trees)
@settings(max_examples=100, deadline=None)
def test_a_tree_survives_as_json(tree: Expression) -> None:
    encoded = msgspec.json.encode(tree)
    assert msgspec.json.encode(msgspec.json.decode(encoded, type=Expression)) == encoded


@given(references)
@settings(max_examples=500, deadline=None)
def test_a_reference_survives(reference: Reference) -> None:
    assert parse(unparse(reference)) == reference
