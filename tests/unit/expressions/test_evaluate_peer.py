"""Where Python and we mean the same, we give the same: compared with simpleeval, which evaluates Python's grammar."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simpleeval import EvalWithCompoundTypes  # type: ignore[import-untyped]

from podium.expressions.evaluate import EvaluationError, compile_expression, unparse
from podium.expressions.types import Expression, Reference, Value
from podium.language.expressions import parse_expression
from podium.language.kinds import Kinds
from tests.unit.language.trees import booleans, numbers, texts

NAMED: dict[str, Value] = {"i": 7, "j": -3, "zero": 0, "f": 2.5, "s": "main", "t": "release/Ä", "e": ""}
number_names = st.sampled_from([Reference((name,)) for name in ("i", "j", "zero", "f")])
text_names = st.sampled_from([Reference((name,)) for name in ("s", "t", "e")])
# No text that is a number: Python never compares one with a number.
_numbers = numbers(st.one_of(number_names, st.integers(-20, 20), st.sampled_from([0.5, -1.25])))
_texts = texts(st.one_of(text_names, st.text("abÄ'\\ \n", max_size=4)))
_booleans = booleans(st.booleans(), _numbers, _texts)


def ours(tree: Expression) -> Value:
    parsed = parse_expression(unparse(tree), lambda *_: Kinds.ANY)
    return compile_expression(parsed)(lambda path: NAMED[str(path[0])])


def theirs(tree: Expression) -> Any:
    evaluator = EvalWithCompoundTypes(
        names={**NAMED, "true": True, "false": False, "null": None},
        functions={
            "len": len,
            "int": int,
            "float": float,
            "str": str,
            "lower": str.lower,
            "startswith": str.startswith,
            "endswith": str.endswith,
        },
    )
    return evaluator.eval(re.sub(r"\$\{(\w+)\}", r"\1", unparse(tree)))


@given(st.one_of(_numbers, _texts, _booleans))
@settings(max_examples=500, deadline=None)
def test_the_same_text_gives_the_same_value(tree: Expression) -> None:
    result: Value = None
    refused = ""
    try:
        result = ours(tree)
    except EvaluationError as error:
        refused = str(error)
    if "divide" in refused:
        with pytest.raises(ZeroDivisionError):
            theirs(tree)
        return
    # Only what grows beyond what JSON keeps is an error here and not there.
    if "too large" in refused or "over 9007199254740991" in refused:
        return
    assert not refused
    expected = theirs(tree)
    assert result == expected
    assert isinstance(result, bool) == isinstance(expected, bool)
    assert isinstance(result, str) == isinstance(expected, str)
