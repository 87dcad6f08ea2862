"""Texts with their values put in: one pass, and no value is ever more than a value."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podium.expressions import templates
from podium.expressions.evaluate import MISSING, EvaluationError, Lookup, compile_expression
from podium.expressions.templates import ValueMissing, render, render_arguments, render_value
from podium.expressions.types import Reference, Template, Text, Value
from podium.language.expressions import parse_expression
from podium.language.kinds import Kinds
from podium.language.templates import command_words, parse_template


def parse(text: str) -> Text:
    return parse_template(text, lambda *_: Kinds.ANY)


def values(**given: Any) -> Lookup:
    return lambda path: given.get(str(path[0]), MISSING)


# --- text -------------------------------------------------------------------------------------------


def test_values_stand_in_the_place_of_their_references() -> None:
    assert render(parse("a ${x} b ${y}!"), values(x="1", y="2")) == "a 1 b 2!"
    assert render("plain", values()) == "plain"


@pytest.mark.rule("D23")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as is \n", "as is \n"),
        (5, "5"),
        (2.0, "2"),
        (0.5, "0.5"),
        (True, "true"),
        (None, "null"),
        ([1, "a b"], '[1,"a b"]'),
        ({"k": {"v": None}}, '{"k":{"v":null}}'),
    ],
)
def test_text_stays_as_it_is_and_everything_else_becomes_json(value: Value, text: str) -> None:
    assert render(parse("<${x}>"), values(x=value)) == f"<{text}>"


@pytest.mark.rule("D23")
def test_what_a_value_holds_is_never_filled_in_again() -> None:
    assert render(parse("${x} ${y}"), values(x="${y}", y="$${x}")) == "${y} $${x}"


@pytest.mark.rule("D25")
def test_a_missing_value_without_default_is_an_error_that_names_the_reference() -> None:
    with pytest.raises(ValueMissing) as raised:
        render(parse("a ${steps.Build Image.output}"), values())
    assert raised.value.code == "VALUE_MISSING"
    assert str(raised.value) == "${steps.Build Image.output} has no value here, and no default"


@pytest.mark.rule("D25")
def test_a_missing_value_is_its_default() -> None:
    assert render(parse("a ${x:-b c} ${y:-}"), values()) == "a b c "


def test_null_is_a_value_and_not_missing() -> None:
    assert render(parse("${x:-b}"), values(x=None)) == "null"


def test_a_text_that_grows_beyond_the_limit_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "MAX_LENGTH", 10)
    assert render(parse("${x}${x}"), values(x="12345")) == "1234512345"
    with pytest.raises(EvaluationError, match="more than 10 characters"):
        render(parse("${x}${x}!"), values(x="12345"))


# --- values -----------------------------------------------------------------------------------------


@pytest.mark.rule("D23")
@pytest.mark.parametrize("value", [None, True, 5, 2.5, "a", [1, [2]], {"a": 1}])
def test_one_reference_and_nothing_else_keeps_its_type(value: Value) -> None:
    result = render_value(parse("${x}"), values(x=value))
    assert result == value
    assert type(result) is type(value)


def test_more_than_one_reference_is_text() -> None:
    assert render_value(parse("${x} "), values(x=5)) == "5 "
    assert render_value("5", values()) == "5"


def test_a_value_that_is_missing_is_missing_here_too() -> None:
    with pytest.raises(ValueMissing):
        render_value(parse("${x}"), values())
    assert render_value(parse("${x:-d}"), values()) == "d"


# --- arguments --------------------------------------------------------------------------------------


def arguments(*texts: str, **given: Any) -> list[str]:
    return render_arguments([parse(text) for text in texts], values(**given))


@pytest.mark.rule("D24")
def test_every_text_is_one_argument_whatever_its_value() -> None:
    assert arguments("run", "${x}", "a${y}", x="two words 'and' \"quotes\"", y="") == [
        "run",
        "two words 'and' \"quotes\"",
        "a",
    ]


@pytest.mark.rule("D24")
def test_a_spread_list_is_one_argument_for_each_item() -> None:
    assert arguments("run", "${x[*]}", "end", x=["a b", 5, None, [1]]) == [
        "run",
        "a b",
        "5",
        "null",
        "[1]",
        "end",
    ]
    assert arguments("run", "${x[*]}", x=[]) == ["run"]


def test_a_list_that_is_not_spread_is_one_argument() -> None:
    assert arguments("${x}", x=["a", "b"]) == ['["a","b"]']


@pytest.mark.parametrize("value", ["abc", {"a": 1}, None, 5])
def test_only_a_list_can_be_spread(value: Value) -> None:
    with pytest.raises(EvaluationError, match=r"\$\{x\[\*\]\} needs a list, and it is "):
        arguments("${x[*]}", x=value)


def test_a_missing_list_is_missing() -> None:
    with pytest.raises(ValueMissing, match=r"\$\{x\[\*\]\} has no value"):
        arguments("${x[*]}")


@pytest.mark.parametrize("text", ["${x}", "a${x}b"])
def test_no_argument_can_contain_a_nul_or_half_a_character(text: str) -> None:
    with pytest.raises(EvaluationError, match="argument 0 contains a NUL"):
        arguments(text, x="a\0b")
    with pytest.raises(EvaluationError, match="argument 0 contains half a character"):
        arguments(text, x="\ud800")
    with pytest.raises(EvaluationError, match="argument 1 contains a NUL"):
        arguments("ä", "${y[*]}", y=["\0"])


def test_a_spread_reference_elsewhere_is_an_error() -> None:
    # The language refuses it; a plan might still say so.
    text = Template(("a", Reference(("x",), spread=True)))
    with pytest.raises(EvaluationError, match="can only be an argument of its own"):
        render(text, values(x=[1]))
    with pytest.raises(EvaluationError, match="can only be an argument of its own"):
        render_value(Template((Reference(("x",), spread=True),)), values(x=[1]))


# --- no value is ever more than a value -------------------------------------------------------------

hostile = st.one_of(
    st.text(max_size=20),
    st.lists(
        st.sampled_from(
            [
                "'",
                '"',
                "${y}",
                "$${",
                "}",
                "{",
                " ",
                "\n",
                "\t",
                "\\",
                " or true",
                "==",
                "; rm -rf /",
                "|",
                "$(x)",
                "`",
                "[*]",
            ]
        ),
        max_size=8,
    ).map("".join),
)


@pytest.mark.rule("D21")
@given(hostile)
@settings(max_examples=300, deadline=None)
def test_a_value_never_changes_the_shape_of_an_expression(value: str) -> None:
    def evaluate(text: str) -> Value:
        return compile_expression(parse_expression(text, lambda *_: Kinds.ANY))(values(x=value, y="other"))

    assert evaluate("${x} == ${x}") is True
    assert evaluate("${x} == 'main'") is (value == "main")
    assert evaluate("'<' + ${x} + '>'") == f"<{value}>"
    assert evaluate("${x} in [${x}] and not ${x} != ${x}") is True
    assert evaluate("len(${x})") == len(value)


@given(hostile.filter(lambda value: "\0" not in value))
@settings(max_examples=300, deadline=None)
def test_a_value_never_changes_the_shape_of_a_command(value: str) -> None:
    words = [
        word.text for word in command_words("run ${x} '${x}' \"a ${x}\" --to=${x} end", lambda *_: Kinds.ANY)
    ]
    expected = ["run", value, value, f"a {value}", f"--to={value}", "end"]
    assert render_arguments(words, values(x=value, y="other")) == expected


@given(hostile)
@settings(max_examples=300, deadline=None)
def test_a_value_never_changes_the_shape_of_a_prompt(value: str) -> None:
    assert render(parse("Look at ${x} and $${x}, then ${y}."), values(x=value, y="stop")) == (
        f"Look at {value} and ${{x}}, then stop."
    )
