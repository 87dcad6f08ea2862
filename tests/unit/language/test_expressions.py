"""From the text of an expression to its tree, and what is said about texts that are none."""

from typing import Any

import msgspec
import pytest

from podium.expressions.types import (
    Binary,
    Call,
    Compare,
    Expression,
    Listed,
    Logic,
    Reference,
    Unary,
)
from podium.language.expressions import ExpressionProblem, OnReference, parse_expression
from podium.language.kinds import Kinds

X, Y = Reference(("x",)), Reference(("y",))


def known(kinds: Kinds = Kinds.ANY) -> OnReference:
    return lambda *_: kinds


def parse(text: str) -> Expression:
    return parse_expression(text, known())


def problem(text: str, kinds: Kinds = Kinds.ANY) -> ExpressionProblem:
    with pytest.raises(ExpressionProblem) as raised:
        parse_expression(text, known(kinds))
    return raised.value


# --- trees ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("1", 1),
        ("0", 0),
        ("2.50", 2.5),
        ("1e-3", 0.001),
        ("-7", -7),
        ("9007199254740991", 2**53 - 1),
        ("true", True),
        ("True", True),
        ("false", False),
        ("False", False),
        ("null", None),
        ("None", None),
        ("'single'", "single"),
        ('"double"', "double"),
        (r"'\\ \' \" \n \t \r'", "\\ ' \" \n \t \r"),
        ("'a\nb'", "a\nb"),
        ("'$${HOME} $x $(y) $$'", "${HOME} $x $(y) $$"),
        ("[]", Listed(())),
        ("[1, 'a', [null],]", Listed((1, "a", Listed((None,))))),
        ("${x}", X),
        ("${steps.Build Image.output}", Reference(("steps", "Build Image", "output"))),
        ("len(${x})", Call("len", (X,))),
        ("matches(${x}, 'a+')", Call("matches", (X, "a+"))),
        (" \t\r\n1\n", 1),
    ],
)
def test_literals_references_lists_and_calls(text: str, tree: Any) -> None:
    assert msgspec.json.encode(parse(text)) == msgspec.json.encode(tree)


@pytest.mark.rule("D22")
@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("1 + 2 * 3", Binary("+", 1, Binary("*", 2, 3))),
        ("(1 + 2) * 3", Binary("*", Binary("+", 1, 2), 3)),
        ("1 - 2 - 3", Binary("-", Binary("-", 1, 2), 3)),
        ("8 / 4 % 3", Binary("%", Binary("/", 8, 4), 3)),
        ("-1 * 2", Binary("*", -1, 2)),
        ("-${x} * 2", Binary("*", Unary("-", X), 2)),
        ("1 - -1", Binary("-", 1, -1)),
        ("-(1)", Unary("-", 1)),
        ("not ${x} == 1", Unary("not", Compare(X, (("==", 1),)))),
        ("not not ${x}", Unary("not", Unary("not", X))),
        ("${x} and not ${y}", Logic("and", (X, Unary("not", Y)))),
        ("1 or 2 and 3", Logic("or", (1, Logic("and", (2, 3))))),
        ("1 and 2 or 3", Logic("or", (Logic("and", (1, 2)), 3))),
        ("1 or 2 or 3", Logic("or", (1, 2, 3))),
        ("(1 or 2) or 3", Logic("or", (Logic("or", (1, 2)), 3))),
        ("1 < 2 <= 3", Compare(1, (("<", 2), ("<=", 3)))),
        ("(${x} == 2) == 3", Compare(Compare(X, (("==", 2),)), (("==", 3),))),
        ("1 + 1 == 2 and 1", Logic("and", (Compare(Binary("+", 1, 1), (("==", 2),)), 1))),
        (
            "1 in [1] and 2 not in [1]",
            Logic("and", (Compare(1, (("in", Listed((1,))),)), Compare(2, (("not in", Listed((1,))),)))),
        ),
        ("1 not\n in [1]", Compare(1, (("not in", Listed((1,))),))),
        ("${x}>=1", Compare(X, ((">=", 1),))),
    ],
)
def test_precedence_is_that_of_python(text: str, tree: Expression) -> None:
    assert parse(text) == tree


def test_a_number_without_fraction_is_a_whole_number_as_json_has_it() -> None:
    for text in ("1.0", "10e-1", "0.1e1"):
        assert type(parse(text)) is int
    assert type(parse("-0.0")) is int


def test_every_reference_is_shown_with_its_place() -> None:
    text = "${a.b} == 1 and ${c:-d} in [${e}]"
    seen: list[tuple[Reference, str]] = []

    def reference(found: Reference, start: int, end: int) -> Kinds:
        seen.append((found, text[start:end]))
        return Kinds.ANY

    parse_expression(text, reference)
    assert seen == [
        (Reference(("a", "b")), "${a.b}"),
        (Reference(("c",), "d"), "${c:-d}"),
        (Reference(("e",)), "${e}"),
    ]


def test_whoever_looks_at_a_reference_may_go_on_with_another() -> None:
    # A step's id in the place of its name.
    tree = parse_expression(
        "${steps.Build.output}", lambda *_: (Reference(("steps", "b1", "output")), Kinds.TEXT)
    )
    assert tree == Reference(("steps", "b1", "output"))


def test_a_tree_is_plain_json() -> None:
    tree = parse("${context.branch} == 'main'")
    assert msgspec.json.encode(tree) == b'["compare",["ref",["context","branch"],null,false],[["==","main"]]]'
    assert msgspec.json.decode(msgspec.json.encode(tree), type=Expression) == tree


# --- problems ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "marked", "message", "hint"),
    [
        (
            "status == 'ok'",
            "status",
            "'status' is neither a value nor text.",
            "Write ${...} for a value, or quotes for text.",
        ),
        ("1 AND 2", "AND", "an operator is missing before 'AND'.", "Write 'and'."),
        ("TRUE", "TRUE", "'TRUE' is neither a value nor text.", "Write 'true'."),
        ("${x} is null", "is", "an operator is missing before 'is'.", "Write == to compare."),
        ("${x} = 1", "=", "'=' is not an operator.", "Write == to compare."),
        ("${x} === 1", "===", "'===' is not an operator.", "Write ==."),
        ("${x} !== 1", "!==", "'!==' is not an operator.", "Write !=."),
        ("${x} <> 1", "<>", "'<>' is not an operator.", "Write !=."),
        ("${x} => 1", "=>", "'=>' is not an operator.", "Write >=."),
        ("${x} && 1", "&&", "'&&' is not an operator.", "Write and."),
        ("${x} || 1", "||", "'||' is not an operator.", "Write or."),
        ("!${x}", "!", "'!' is not an operator.", "Write not, or != to compare."),
        ("2 ** 3", "**", "'**' is not an operator.", "Powers are not supported; multiply."),
        ("7 // 2", "//", "'//' is not an operator.", "Write int(a / b)."),
        (
            "$x == 1",
            "$",
            "'$' is not an operator.",
            "Write ${...} for a value, or quotes for text.",
        ),
        ("1 ? 2", "?", "'?' is not an operator.", "Write and and or; ?: is not supported."),
        (
            "{}",
            "{",
            "'{' is not an operator.",
            "Maps are not supported; a value is written ${...}, a list [1, 2].",
        ),
        (
            "1 § 2",
            "§",
            "'§' is not an operator.",
            "Operators are: and, or, not, ==, !=, <, <=, >, >=, in, +, -, *, /, %.",
        ),
        (
            "'abc == 1",
            "'abc == 1",
            "the quote ' is never closed.",
            "Write ' at its end, or \\' to mean the character itself.",
        ),
        ("${x", "${x", "the '${' is never closed.", "Write '}' after the name, or '$${' for the text '${'."),
        (
            r"'\d+'",
            r"\d",
            r"'\d' is not an escape sequence.",
            "Write a backslash twice to mean one; the others are \\n, \\t, \\r, \\' and \\\".",
        ),
        (
            "'${x}' == 'a'",
            "${",
            "a reference inside quotes is only text.",
            "Write ${...} without quotes around it, and + to join texts; $${ means the text ${.",
        ),
        (
            "${x[*]} == 1",
            "${x[*]}",
            "'${x[*]}' spreads a list, which only a list of arguments can do.",
            "Leave out '[*]' to mean the list itself.",
        ),
        ("", "", "the expression is empty.", "Write a condition, or true."),
        ("  ", "  ", "the expression is empty.", "Write a condition, or true."),
        (
            "1 2",
            "2",
            "an operator is missing before '2'.",
            "Operators are: and, or, not, ==, !=, <, <=, >, >=, in, +, -, *, /, %.",
        ),
        ("1 )", ")", "')' is not expected here.", "Take it out, or add what belongs before it."),
        ("(1", "(", "the '(' is never closed.", "Write ')' where it ends."),
        ("len(1, 2", "(", "the '(' is never closed.", "Write ')' where it ends."),
        ("[1, 2", "[", "the '[' is never closed.", "Write ']' where it ends."),
        ("(1]", "]", "']' is not expected here.", "Take it out, or add what belongs before it."),
        ("1 +", "", "a value is missing at the end.", "Write ${...} for a value, or quotes for text."),
        ("* 2", "*", "a value is missing before '*'.", "Write ${...} for a value, or quotes for text."),
        ("+1", "+", "'+' is not followed by a value.", "Leave it out."),
        ("()", ")", "a value is missing before ')'.", "Write ${...} for a value, or quotes for text."),
        ("1 == not 2", "not", "'not' cannot follow another operator.", "Put it in brackets: (not ...)."),
        ("1 not 2", "not", "'not' does not compare.", "Write != or 'not in' between two values."),
        (
            "length(${x})",
            "length",
            "there is not a function 'length'.",
            "Did you mean 'len'? Functions are: len, int, float, str, lower, startswith, endswith, matches.",
        ),
        (
            "eval(${x})",
            "eval",
            "there is not a function 'eval'.",
            "Functions are: len, int, float, str, lower, startswith, endswith, matches.",
        ),
        ("len()", "len()", "'len' takes one argument, not 0.", "Write len(${...})."),
        (
            "startswith('a')",
            "startswith('a')",
            "'startswith' takes 2 arguments, not 1.",
            "Write startswith(${...}, 'prefix').",
        ),
        ("007", "007", "'007' is not a number.", "Write digits, as in 12, 0.5 or 1e-3, or quotes for text."),
        (
            "1_000",
            "1_000",
            "'1_000' is not a number.",
            "Write digits, as in 12, 0.5 or 1e-3, or quotes for text.",
        ),
        (
            "0x10",
            "0x10",
            "'0x10' is not a number.",
            "Write digits, as in 12, 0.5 or 1e-3, or quotes for text.",
        ),
        (
            "1e999",
            "1e999",
            "the number '1e999' is too large to be exact.",
            "The largest is 9007199254740991; put quotes around what is a name and not a quantity.",
        ),
        (
            "9007199254740992",
            "9007199254740992",
            "the number '9007199254740992' is too large to be exact.",
            "The largest is 9007199254740991; put quotes around what is a name and not a quantity.",
        ),
        (
            "matches('a', 'b(')",
            "'b('",
            "the pattern 'b(' cannot be used: missing ).",
            "Write ) where the group ends, or \\( to mean the character itself.",
        ),
    ],
)
def test_a_problem_says_what_is_wrong_where_and_what_to_write(
    text: str, marked: str, message: str, hint: str
) -> None:
    found = problem(text)
    assert (text[found.start : found.end], found.message, found.hint) == (marked, message, hint)


@pytest.mark.rule("D21")
@pytest.mark.parametrize("text", ["'${x}$'", "'$${x}${y}'", "'a ${x}'", '"${"'])
def test_a_reference_inside_quotes_is_never_taken_for_text(text: str) -> None:
    assert problem(text).message == "a reference inside quotes is only text."


@pytest.mark.parametrize("text", ["${x}.output", "'a'.upper()", "${x}.__class__", "1.real", ".5"])
def test_there_is_no_attribute_access(text: str) -> None:
    found = problem(text)
    assert found.message == "'.' is not an operator."
    assert found.hint == (
        "What belongs to a value is part of its reference: ${steps.Build.output}; a number starts with a digit."
    )


@pytest.mark.parametrize(
    "text", ["${x}[0]", "${x}['a']", "'abc'[0]", "[1][0]", "${x}(1)", "lambda: 1", "x for x in y"]
)
def test_nothing_is_indexed_called_or_made_up(text: str) -> None:
    problem(text)


# --- what is certain about types --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("true < 1", "'<' cannot put a boolean and a number in order."),
        ("[1] > [2]", "'>' cannot put a list and a list in order."),
        ("'abc' <= 5", "'<=' cannot put the text 'abc' and a number in order."),
        ("5 >= 'abc'", "'>=' cannot put a number and the text 'abc' in order."),
        ("1 < (2 < 3)", "'<' cannot put a number and a boolean in order."),
        ("'5' + 1", "'+' cannot take text and a number."),
        ("'a' * 3", "'*' cannot take text and a number."),
        ("'a' % 'b'", "'%' cannot take text and text."),
        ("null + null", "'+' cannot take null and null."),
        ("[1] + [2]", "'+' cannot take a list and a list."),
        ("(1 == 1) + 1", "'+' cannot take a boolean and a number."),
        ("1 / 0", "'/' cannot divide by 0."),
        ("1 % 0.0", "'%' cannot divide by 0."),
        ("-'a'", "'-' cannot be applied to text."),
        ("-true", "'-' cannot be applied to a boolean."),
        ("len(5)", "'len' cannot take a number."),
        ("len(null)", "'len' cannot take null."),
        ("int([1])", "'int' cannot take a list."),
        ("int(true)", "'int' cannot take a boolean."),
        ("lower(1 + 1)", "'lower' cannot take a number."),
        ("startswith(5, '5')", "'startswith' cannot take a number."),
        ("matches('5', 5)", "'matches' cannot take a number."),
        ("1 in 'abc'", "a number cannot be searched for in text."),
        ("'a' in 5", "text cannot be searched for in a number."),
        ("1 not in true", "a number cannot be searched for in a boolean."),
    ],
)
def test_what_can_never_be_worked_out_is_a_problem_of_the_file(text: str, message: str) -> None:
    found = problem(text)
    assert found.message == message
    assert found.hint


@pytest.mark.parametrize(
    ("text", "kinds", "message"),
    [
        ("${x} + 1", Kinds.TEXT | Kinds.NULL, "'+' cannot take text or null and a number."),
        ("${x} * 2", Kinds.BOOL, "'*' cannot take a boolean and a number."),
        ("${x} > 1", Kinds.LIST, "'>' cannot put a list and a number in order."),
        ("len(${x})", Kinds.NUMBER | Kinds.NULL, "'len' cannot take a number or null."),
        ("${x} in ${y}", Kinds.NUMBER, "a number cannot be searched for in a number."),
        ("-${x}", Kinds.MAP, "'-' cannot be applied to a map."),
    ],
)
def test_what_is_known_about_a_reference_counts(text: str, kinds: Kinds, message: str) -> None:
    assert problem(text, kinds).message == message


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("${x} > 1", Kinds.TEXT),
        ("${x} > 1", Kinds.LIST | Kinds.NULL),
        ("${x} > '1'", Kinds.NUMBER),
        ("${x} == 1", Kinds.MAP),
        ("${x} + 1", Kinds.NUMBER | Kinds.TEXT),
        ("${x} + 'a'", Kinds.NUMBER | Kinds.TEXT),
        ("${x:-5} > 1", Kinds.BOOL),
        ("lower(${x:-a})", Kinds.NULL),
        ("startswith(${x}, 'a')", Kinds.NULL),
        ("1 in ${x}", Kinds.NULL),
        ("'a' in ${x}", Kinds.MAP),
        ("len(str(${x}))", Kinds.BOOL),
        ("int('5') + len('a') * -float('1')", Kinds.ANY),
    ],
)
def test_what_may_be_worked_out_is_no_problem(text: str, kinds: Kinds) -> None:
    parse_expression(text, known(kinds))


# --- limits -----------------------------------------------------------------------------------------


@pytest.mark.rule("D21")
def test_brackets_are_nested_at_most_64_deep() -> None:
    assert parse("(" * 64 + "1" + ")" * 64) == 1
    for text in ("(" * 65 + "1" + ")" * 65, "(" * 5_000, "[" * 65, "-(" * 40, "len(" * 65, "not " * 65 + "1"):
        assert problem(text).message == "the expression is nested more than 64 deep."


def test_ten_thousand_brackets_are_refused_without_being_read() -> None:
    found = problem("(" * 10_000 + "1" + ")" * 10_000)
    assert found.message == "the expression has 20,001 characters; the maximum is 10,000."
    assert (found.start, found.end) == (10_000, 20_001)


def test_a_tree_is_at_most_64_deep_however_it_is_written() -> None:
    parse(" + ".join(["1"] * 64))
    assert problem(" + ".join(["1"] * 65)).message == "the expression is nested more than 64 deep."
    # Where no operator repeats, every bracket opens five levels.
    steep = "1 or 1 and 1 == 1 + 1 * (" * 64
    assert problem(steep).message == "the expression is nested more than 64 deep."


def test_a_long_flat_expression_is_no_deep_one() -> None:
    parse(" and ".join(["${x}"] * 900))
    parse(" and ".join(["len([(${x})]) > -(1) or not ${x}"] * 80))
    parse("${x} in [" + ", ".join(["1"] * 900) + "]")


@pytest.mark.rule("D21")
def test_there_are_at_most_1000_values_and_operators() -> None:
    parse("[" + ",".join(["1"] * 999) + "]")
    found = problem("[" + ",".join(["1"] * 1_000) + "]")
    assert found.message == "the expression has more than 1,000 values and operators."


def test_a_message_quotes_only_the_beginning_of_something_long() -> None:
    assert len(problem("a" * 9_000).message) < 100


# --- values are not syntax --------------------------------------------------------------------------


@pytest.mark.parametrize("inside", ["a' == 'a", "x} or ${y", "1) or (1", '"]'])
def test_what_stands_in_a_quoted_part_of_a_path_is_only_a_name(inside: str) -> None:
    quoted = inside.replace('"', '\\"')
    assert parse(f'${{context["{quoted}"]}} == 1') == Compare(Reference(("context", inside)), (("==", 1),))
