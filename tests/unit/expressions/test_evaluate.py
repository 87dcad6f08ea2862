"""What expressions mean, rule by rule (decisions D20 to D25)."""

import math
from typing import Any

import pytest

from podium.expressions.evaluate import (
    MISSING,
    EvaluationError,
    compile_expression,
    shown,
    text_of,
    truth,
    unparse,
)
from podium.expressions.types import Binary, Call, Compare, Listed, Literal_, Logic, Reference, Unary, Value
from podium.language.expressions import parse_expression
from podium.language.kinds import Kinds


def evaluate(text: str, **values: Any) -> Value:
    """The value of an expression in which `${x}` stands for the argument `x`; what is not given is missing."""

    tree = parse_expression(text, lambda *_: Kinds.ANY)
    return compile_expression(tree)(lambda path: values.get(str(path[0]), MISSING))


def the_same(value: Value, expected: Value) -> bool:
    """Equal and of the same type: Python's True == 1 == 1.0 would hide mistakes."""
    return type(value) is type(expected) and value == expected


def assert_gives(text: str, expected: Value, **values: Any) -> None:
    result = evaluate(text, **values)
    assert the_same(result, expected), f"{text} with {values} is {result!r}"


def error_of(text: str, **values: Any) -> str:
    with pytest.raises(EvaluationError) as raised:
        evaluate(text, **values)
    assert raised.value.code == "EXPRESSION_ERROR"
    return str(raised.value)


# --- values and missing values ----------------------------------------------------------------------


@pytest.mark.rule("D21")
@pytest.mark.parametrize("value", [None, True, False, 0, -3, 2.5, "", "5", [1, "a"], {"a": [None]}])
def test_a_reference_keeps_the_type_of_its_value(value: Value) -> None:
    assert_gives("${x}", value, x=value)


@pytest.mark.rule("D25")
def test_a_missing_value_is_null() -> None:
    assert_gives("${x} == null", True)


def test_a_missing_value_is_its_default_where_there_is_one() -> None:
    assert_gives("${x:-none}", "none")
    assert_gives("${x:-}", "")


def test_a_default_is_for_what_is_missing_not_for_null_or_empty_values() -> None:
    assert_gives("${x:-none}", None, x=None)
    assert_gives("${x:-none}", "", x="")


def test_a_numeric_default_compares_as_a_number() -> None:
    assert_gives("${x:-5} > 3", True)


def test_a_list_literal_is_a_list() -> None:
    assert_gives("[1, ${x}, 'a', [true]]", [1, None, "a", [True]])


# --- truth ------------------------------------------------------------------------------------------


@pytest.mark.rule("D22")
@pytest.mark.parametrize("value", [False, None, 0, 0.0, "", [], {}])
def test_false_null_zero_and_what_is_empty_count_as_false(value: Value) -> None:
    assert truth(value) is False
    assert_gives("not ${x}", True, x=value)


@pytest.mark.rule("D22")
@pytest.mark.parametrize("value", [True, 1, -1, 0.5, "0", "false", " ", [0], {"a": None}])
def test_everything_else_counts_as_true_and_so_does_the_text_false(value: Value) -> None:
    assert truth(value) is True
    assert_gives("not ${x}", False, x=value)


@pytest.mark.rule("R052")
@pytest.mark.rule("D22")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("'a' and 'b'", True),
        ("'a' and ''", False),
        ("0 or 'b'", True),
        ("0 or ''", False),
        ("1 and 2 and 3", True),
        ("0 or null or []", False),
    ],
)
def test_and_and_or_give_booleans(text: str, expected: bool) -> None:
    assert_gives(text, expected)


def test_and_and_or_stop_as_soon_as_the_answer_is_known() -> None:
    assert_gives("false and ${x} + 1 == 2", False, x="not a number")
    assert_gives("true or ${x} + 1 == 2", True, x="not a number")


# --- equality ---------------------------------------------------------------------------------------


@pytest.mark.rule("D22")
@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 1.0),
        (0, -0.0),
        ("a", "a"),
        (None, None),
        (True, True),
        ("5", 5),
        (5, "5"),
        ("5.0", 5),
        (" 7\n", 7),
        ("-1e3", -1000),
        (".5", 0.5),
        ("+3", 3),
        (["5", {"a": 1}], [5, {"a": 1.0}]),
        (2**60, 2**60),
        (str(2**60), 2**60),
    ],
)
def test_equal(left: Value, right: Value) -> None:
    assert_gives("${x} == ${y}", True, x=left, y=right)
    assert_gives("${x} != ${y}", False, x=left, y=right)


@pytest.mark.rule("D22")
@pytest.mark.parametrize(
    ("left", "right"),
    [
        (True, 1),
        (False, 0),
        (True, "true"),
        (None, False),
        (None, 0),
        (None, ""),
        ("", 0),
        ("a", "A"),
        ("5", "5.0"),
        ("five", 5),
        ("1_000", 1000),
        ("٣", 3),
        ("0x10", 16),
        ("nan", math.nan),
        ("inf", math.inf),
        ("1".zfill(65), 1),
        ("\xa05", 5),
        ("1e999", math.inf),
        ([], None),
        ([], {}),
        ([1], [1, 2]),
        ([1, 2], [2, 1]),
        ([True], [1]),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": 1}, {"a": 2}),
        ([1], "[1]"),
        (2**60, 2**60 + 1),
        (str(2**60 + 1), 2**60),
    ],
)
def test_not_equal(left: Value, right: Value) -> None:
    assert_gives("${x} == ${y}", False, x=left, y=right)
    assert_gives("${y} == ${x}", False, x=left, y=right)
    assert_gives("${x} != ${y}", True, x=left, y=right)


def test_comparing_with_a_literal_means_the_same_as_comparing_with_a_value() -> None:
    # A reference beside a literal takes a shorter way.
    for value in (5, "5", 5.0, True, None, [5], "abc", MISSING):
        assert_gives("${x} == 5", value in (5, "5") and value is not True, x=value)
        assert_gives("${x} == 'abc'", value == "abc", x=value)


# --- order ------------------------------------------------------------------------------------------


@pytest.mark.rule("D22")
@pytest.mark.parametrize(
    ("left", "right"), [(1, 2), (1, 1.5), (-1, 0), ("10", 11), (9, "10"), ("2", 10), ("a", "b"), ("10", "9")]
)
def test_numbers_and_texts_have_an_order_and_a_numeric_text_beside_a_number_is_one(
    left: Value, right: Value
) -> None:
    assert_gives("${x} < ${y}", True, x=left, y=right)
    assert_gives("${x} <= ${y}", True, x=left, y=right)
    assert_gives("${x} > ${y}", False, x=left, y=right)
    assert_gives("${x} >= ${y}", False, x=left, y=right)


def test_equal_values_are_at_most_and_at_least_each_other() -> None:
    for left, right in ((1, 1.0), ("a", "a"), ("3", 3)):
        assert_gives(
            "${x} <= ${y} and ${x} >= ${y} and not ${x} < ${y} and not ${x} > ${y}", True, x=left, y=right
        )


@pytest.mark.rule("D22")
@pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("other", [None, 1, "a", [1], {"a": 1}, True])
def test_order_against_null_is_false(operator: str, other: Value) -> None:
    assert_gives(f"${{x}} {operator} ${{y}}", False, x=None, y=other)
    assert_gives(f"${{x}} {operator} ${{y}}", False, x=other, y=None)


@pytest.mark.rule("D22")
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("abc", 1),
        (1, ""),
        ("1e999", 1),
        (True, 1),
        (True, False),
        ([1], [2]),
        ({}, {}),
        ([1], 1),
        ("a", ["a"]),
    ],
)
def test_order_of_anything_else_is_an_error(left: Value, right: Value) -> None:
    assert "in order" in error_of("${x} < ${y}", x=left, y=right)


def test_the_error_names_the_operation_and_shows_both_values_cut_short() -> None:
    message = error_of("${x} >= ${y}", x="long " * 100, y=[1, 2, 3])
    assert (
        message
        == "'>=' cannot put the text 'long long long long long long long lo...' and a list of 3 in order"
    )


@pytest.mark.rule("R052")
def test_a_chain_compares_neighbours_and_stops_at_the_first_that_does_not_hold() -> None:
    assert_gives("1 < 2 < 3", True)
    assert_gives("1 < 3 < 2", False)
    assert_gives("3 > 2 > 1 == '1' != 2", True)
    assert_gives("2 < 1 < ${x}", False, x=[])
    assert_gives("(1 < 2) == true", True)


# --- in ---------------------------------------------------------------------------------------------


@pytest.mark.rule("D22")
@pytest.mark.parametrize(
    ("item", "container", "expected"),
    [
        ("b", "abc", True),
        ("", "abc", True),
        ("d", "abc", False),
        (2, [1, 2], True),
        ("2", [1, 2], True),
        (True, [1], False),
        (None, [None], True),
        ([1], [[1]], True),
        ("k", {"k": None}, True),
        ("v", {"k": "v"}, False),
        (1, None, False),
        (None, None, False),
        (None, "abc", False),
        (None, {"k": 1}, False),
    ],
)
def test_in_looks_for_text_in_text_items_in_lists_and_keys_in_maps(
    item: Value, container: Value, expected: bool
) -> None:
    assert_gives("${x} in ${y}", expected, x=item, y=container)
    assert_gives("${x} not in ${y}", not expected, x=item, y=container)


@pytest.mark.parametrize(("item", "container"), [(1, "1"), (1, {"1": 1}), ("a", 5), ("a", True), ([], "")])
def test_in_anything_else_is_an_error(item: Value, container: Value) -> None:
    assert error_of("${x} in ${y}", x=item, y=container).startswith("'in' cannot look for ")


# --- arithmetic -------------------------------------------------------------------------------------


@pytest.mark.rule("R052")
@pytest.mark.rule("D22")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 2 - 3", 5),
        ("7 / 2", 3.5),
        ("4 / 2", 2),
        ("1.5 * 2", 3),
        ("0.1 + 0.2", 0.1 + 0.2),
        ("7 % 3", 1),
        ("-7 % 3", 2),
        ("7 % -3", -2),
        ("7.5 % 2", 1.5),
        ("-(2 + 3)", -5),
        ("--5", 5),
        ("'a' + 'b' + \"c\"", "abc"),
        ("9007199254740990 + 1", 2**53 - 1),
    ],
)
def test_arithmetic_is_pythons_and_what_has_no_fraction_is_a_whole_number(text: str, expected: Value) -> None:
    assert_gives(text, expected)


@pytest.mark.rule("D22")
@pytest.mark.parametrize(
    ("left", "operator", "right"),
    [
        ("a", "*", 3),
        (3, "*", "a"),
        ("5", "+", 1),
        (1, "+", "5"),
        ("%s", "%", "a"),
        ("a", "-", "b"),
        (True, "+", 1),
        (None, "+", 1),
        (None, "+", None),
        ([1], "+", [2]),
        ([1], "*", 2),
        ({}, "+", {}),
    ],
)
def test_arithmetic_with_anything_but_numbers_is_an_error(left: Value, operator: str, right: Value) -> None:
    assert error_of(f"${{x}} {operator} ${{y}}", x=left, y=right).startswith(f"'{operator}' cannot take ")


@pytest.mark.parametrize("operator", ["/", "%"])
@pytest.mark.parametrize("zero", [0, 0.0, -0.0])
def test_a_division_by_zero_is_an_error(operator: str, zero: float) -> None:
    assert (
        error_of(f"${{x}} {operator} ${{y}}", x=1, y=zero) == f"'{operator}' cannot divide the number 1 by 0"
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${x} + 1", 2**53 - 1),
        ("${x} * ${x}", 2**40),
        ("${x} * ${x}", 1e15),
        ("1 / ${x}", 1e-300),
        ("-${x}", 2**53),
        ("${x} - 1", 2**60),
        ("${x} % 10", 10**400),
        ("${x} + 1", 1e300),
        ("${x} + 1", math.inf),
        ("${x} + 1", math.nan),
        ("-${x}", math.nan),
        ("int(${x})", "9007199254740992"),
        ("float(${x})", "1e300"),
        ("int(${x})", math.inf),
    ],
)
def test_a_number_that_json_would_not_keep_exactly_is_an_error(text: str, value: float | str) -> None:
    assert str(2**53 - 1) in error_of(text, x=value)


def test_a_sign_is_for_numbers() -> None:
    assert_gives("-${x}", -2.5, x=2.5)
    others: list[Value] = ["5", True, None, []]
    for value in others:
        assert error_of("-${x}", x=value).startswith("'-' cannot be applied to ")


# --- functions --------------------------------------------------------------------------------------


@pytest.mark.rule("D22")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("len('abc')", 3),
        ("len([1, 2])", 2),
        ("int('42')", 42),
        ("int(' -3 ')", -3),
        ("int(3.9)", 3),
        ("int(-3.9)", -3),
        ("int('3.9')", 3),
        ("float('2.5')", 2.5),
        ("float('3')", 3),
        ("float(2)", 2),
        ("str(5)", "5"),
        ("str(true)", "true"),
        ("str(null)", "null"),
        ("str('a')", "a"),
        ("str([1, 'a'])", '[1,"a"]'),
        ("lower('ÄBC')", "äbc"),
        ("startswith('main', 'ma')", True),
        ("startswith('main', 'in')", False),
        ("endswith('main', 'in')", True),
        ("endswith('main', 'ma')", False),
        ("matches('v1.20', '^v[0-9]+')", True),
        ("matches('release', '^v[0-9]+')", False),
    ],
)
def test_functions(text: str, expected: Value) -> None:
    assert_gives(text, expected)


def test_the_length_of_a_map_is_the_number_of_its_keys() -> None:
    assert_gives("len(${x})", 2, x={"a": 1, "b": 2})


@pytest.mark.parametrize("function", ["startswith", "endswith", "matches"])
def test_a_question_about_null_is_answered_with_no(function: str) -> None:
    assert_gives(f"{function}(${{x}}, 'a')", False)
    assert_gives(f"{function}('a', ${{x}})", False)


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("len(${x})", None),
        ("len(${x})", 5),
        ("int(${x})", "abc"),
        ("int(${x})", None),
        ("int(${x})", True),
        ("float(${x})", []),
        ("float(${x})", ""),
        ("lower(${x})", 5),
        ("lower(${x})", None),
        ("startswith(${x}, 'a')", 5),
        ("endswith('a', ${x})", ["a"]),
        ("matches(${x}, 'a')", {"a": 1}),
    ],
)
def test_a_function_of_something_it_cannot_take_is_an_error_that_names_it(call: str, value: Value) -> None:
    assert error_of(call, x=value).startswith(f"'{call.partition('(')[0]}' cannot ")


def test_a_pattern_that_comes_from_a_value_and_cannot_be_used_is_an_error() -> None:
    assert error_of("matches('a', ${x})", x="(") == (
        "the pattern the text '(' cannot be used: missing ). "
        "Write ) where the group ends, or \\( to mean the character itself."
    )


# --- limits -----------------------------------------------------------------------------------------


def test_a_list_that_is_searched_again_and_again_meets_the_limit() -> None:
    haystack: list[Value] = [[number] for number in range(100_000)]
    assert_gives("${y} in ${x}", False, x=haystack, y=[-1])
    text = " or ".join(["${y} in ${x}"] * 11)
    assert "1,000,000 steps" in error_of(text, x=haystack, y=[-1])


def test_a_text_that_doubles_itself_meets_the_limit() -> None:
    text = "${x} + ${x}"
    for _ in range(5):
        text = f"({text}) + ({text})"
    assert "1,000,000 steps" in error_of(text, x="a" * 1_000_000)


def test_texts_of_a_megabyte_are_compared_and_searched() -> None:
    big = "a" * 1_000_000
    assert_gives(
        "${x} == ${y} and ${y} in ${x} and lower(${x}) == ${y} and len(${x}) > 5", True, x=big, y=big
    )


def test_many_searches_for_patterns_are_limited_together() -> None:
    text = " or ".join(["matches(${x}, 'b(c|d)e$')"] * 200)
    assert "1,000,000 steps" in error_of(text, x="a" * 500_000)


def test_the_classic_explosion_takes_no_longer_than_any_other_search() -> None:
    # Python's re would need 2**5000 steps for this.
    assert_gives("matches(${x}, '^(a+)+$')", False, x="a" * 5_000 + "!")


def test_values_nested_without_end_are_an_error_and_not_a_crash() -> None:
    deep: list[Value] = []
    for _ in range(100_000):
        deep = [deep]
    other: list[Value] = []
    for _ in range(100_000):
        other = [other]
    assert "100 deep" in error_of("${x} == ${y}", x=deep, y=other)
    assert "cannot be written as JSON" in error_of("str(${x})", x=deep)


def test_the_limit_is_for_one_evaluation_not_for_all() -> None:
    run = compile_expression(parse_expression("${x} in ${x}", lambda *_: Kinds.ANY))
    for _ in range(20):
        assert run(lambda _: "a" * 6_000_000) is True


# --- values as text ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is\n", "as it is\n"),
        (5, "5"),
        (2**60, str(2**60)),
        (2.5, "2.5"),
        (2.0, "2"),
        (-0.0, "0"),
        (1e300, "1e300"),
        (True, "true"),
        (None, "null"),
        ([], "[]"),
        ({"b": [1, None], "a": 'quote "'}, '{"b":[1,null],"a":"quote \\""}'),
        ([1.0, {"a": 2.0, "v": "1.0"}], '[1,{"a":2,"v":"1.0"}]'),
        (["ä", "\x00"], '["ä","\\u0000"]'),
    ],
)
def test_text_stays_as_it_is_and_everything_else_is_compact_json(value: Value, text: str) -> None:
    assert text_of(value) == text


def test_half_a_character_inside_a_list_is_an_error() -> None:
    with pytest.raises(EvaluationError, match="cannot be written as JSON"):
        text_of(["\ud800"])


# --- as text again ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (Compare(Reference(("context", "branch")), (("==", "main"),)), "${context.branch} == 'main'"),
        (Reference(("steps", "Build Image", "output")), "${steps.Build Image.output}"),
        (Reference(("steps", "a.b", 3, 'say "hi"')), '${steps["a.b"][3]["say \\"hi\\""]}'),
        (Reference(("steps", " x", "a:-b", "")), '${steps[" x"]["a:-b"][""]}'),
        (Reference(("x",), default="a b"), "${x:-a b}"),
        (Reference(("x",), spread=True), "${x[*]}"),
        (Unary("-", 5), "-(5)"),
        (Unary("-", -5), "--5"),
        (Unary("not", Unary("not", True)), "not not true"),
        (Binary("-", 1, Binary("-", 2, 3)), "1 - (2 - 3)"),
        (Binary("-", Binary("-", 1, 2), -3), "1 - 2 - -3"),
        (Binary("*", Binary("+", 1, 2), 0.5), "(1 + 2) * 0.5"),
        (Logic("or", (Logic("and", (True, None)), Logic("or", (1, 2)))), "true and null or (1 or 2)"),
        (
            Logic("and", (Unary("not", 1), Compare(1, (("<", 2), ("not in", Listed(())))))),
            "not 1 and 1 < 2 not in []",
        ),
        (Compare(Compare(1, (("<", 2),)), (("==", Unary("not", 1)),)), "(1 < 2) == (not 1)"),
        (Call("startswith", ("a", "\\d'\n${x}")), "startswith('a', '\\\\d\\'\\n$${x}')"),
    ],
)
def test_a_tree_is_told_with_as_few_brackets_and_quotes_as_it_needs(tree: Any, text: str) -> None:
    assert unparse(tree) == text
    if not isinstance(tree, Reference) or not tree.spread:
        assert parse_expression(text, lambda *_: Kinds.ANY) == tree


def test_every_literal_can_be_told() -> None:
    literals: list[Literal_] = [None, True, False, 0, -1, 1.5, "", "it's"]
    assert [unparse(literal) for literal in literals] == [
        "null",
        "true",
        "false",
        "0",
        "-1",
        "1.5",
        "''",
        "'it\\'s'",
    ]


def test_a_message_shows_any_value() -> None:
    assert shown(10**5000) == "a very large number"
    assert shown({"a": 1}) == "a map of 1"
    assert shown(object()) == "something of type object"
