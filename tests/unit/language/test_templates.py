"""From text with `${...}` to its parts; commands to words; and what is said about texts that are neither."""

import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podium.expressions.types import Reference, Template, Text
from podium.language.kinds import Kinds
from podium.language.templates import (
    ExpressionProblem,
    command_words,
    parse_reference,
    parse_template,
)

X, Y = Reference(("x",)), Reference(("y",))


def known(_reference: Reference, _start: int, _end: int) -> Kinds:
    return Kinds.ANY


def parse(text: str) -> Text:
    return parse_template(text, known)


def split(text: str) -> tuple[Text, ...]:
    return tuple(word.text for word in command_words(text, known))


# --- references -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("${x}", Reference(("x",))),
        ("${context.branch}", Reference(("context", "branch"))),
        ("${steps.Build Image.output}", Reference(("steps", "Build Image", "output"))),
        ("${steps.Don't stop: now.output}", Reference(("steps", "Don't stop: now", "output"))),
        ('${steps["X Y"].output}', Reference(("steps", "X Y", "output"))),
        ("${steps['X Y'].output}", Reference(("steps", "X Y", "output"))),
        (r'${a["}.[ \" \\ \n ${"]}', Reference(("a", '}.[ " \\ \n ${'))),
        ('${a[""]}', Reference(("a", ""))),
        (
            "${steps.Loop.iterations[0].steps.X.output}",
            Reference(("steps", "Loop", "iterations", 0, "steps", "X", "output")),
        ),
        ("${a[1][20]}", Reference(("a", 1, 20))),
        ("${a.0}", Reference(("a", "0"))),
        ("${x[*]}", Reference(("x",), spread=True)),
        ("${x:-none}", Reference(("x",), "none")),
        ("${x:-}", Reference(("x",), "")),
        ('${x:- a:-b $y [*] "q" {}', Reference(("x",), ' a:-b $y [*] "q" {')),
        ("${x.y[0]:-5}", Reference(("x", "y", 0), "5")),
        ("${a:b}", Reference(("a:b",))),
    ],
)
def test_a_reference_is_a_path_with_an_optional_default(text: str, reference: Reference) -> None:
    assert parse_reference(text, 0) == (reference, len(text))
    assert parse_reference(f"before {text} after", 7) == (reference, 7 + len(text))


@pytest.mark.parametrize(
    ("text", "marked", "message"),
    [
        ("${}", "${}", "'${}' names nothing."),
        ("${", "${", "the '${' is never closed."),
        ("${a", "${a", "the '${' is never closed."),
        ("${a.", "${a.", "the '${' is never closed."),
        ("${a:-b", "${a:-b", "the '${' is never closed."),
        ("${a[*]", "${a[*]", "the '${' is never closed."),
        ("${a[0]", "${a[0]", "the '${' is never closed."),
        ("${a[0", "${a[0", "the '${' is never closed."),
        ('${a["b', '["b', "the quoted part of the path is never closed."),
        ("${.a}", ".", "a name is missing before '.'."),
        ("${a..b}", ".", "a name is missing before '.'."),
        ("${a.}", "}", "a name is missing before '}'."),
        ("${[0]}", "[", "a name is missing before '['."),
        ("${a.[0]}", "[", "a name is missing before '['."),
        ("${:-b}", ":-", "a name is missing before ':-'."),
        ("${ a}", " a", "' a' starts or ends with a space."),
        ("${a .b}", "a ", "'a ' starts or ends with a space."),
        ("${a }", "a ", "'a ' starts or ends with a space."),
        ("${ }", " ", "' ' starts or ends with a space."),
        ("${a${b}}", "${", "a reference cannot contain another '${'."),
        ("${${b}}", "${", "a reference cannot contain another '${'."),
        ("${a.${b}}", "${", "a reference cannot contain another '${'."),
        ("${a:-${b}}", "${", "a reference cannot contain another '${'."),
        ("${a{b}", "{", "'{' cannot be part of a name."),
        ('${a"b"}', '"', "'\"' cannot be part of a name."),
        ("${a]}", "]", "']' cannot be part of a name."),
        ("${a\nb}", "\n", "'\n' cannot be part of a name."),
        ("${\tb}", "\t", "'\t' cannot be part of a name."),
        ("${a[-1]}", "[-1]", "the index '-1' is negative."),
        ("${a[01]}", "[01]", "'01' is not an index."),
        ("${a[9999999999999999]}", "[9999999999999999]", "'9999999999999999' is not an index."),
        ("${a[b]}", "[b]", "'[b]' is not part of a path."),
        ("${a[]}", "[]", "'[]' is not part of a path."),
        ("${a[1:2]}", "[1:2]", "'[1:2]' is not part of a path."),
        ("${a[0]b}", "b", "'b' follows ']'."),
        ("${a[*].b}", ".", "'.' follows '[*]'."),
        ("${a[*][0]}", "[", "'[' follows '[*]'."),
        ("${a[*]:-b}", ":", "':' follows '[*]'."),
        (r'${a["\d"]}', r"\d", r"'\d' is not an escape sequence."),
    ],
)
def test_a_problem_of_a_reference_says_what_is_wrong_and_where(text: str, marked: str, message: str) -> None:
    for before in ("", "some text "):
        with pytest.raises(ExpressionProblem) as raised:
            parse(before + text)
        found = raised.value
        assert ((before + text)[found.start : found.end], found.message) == (marked, message)
        assert found.hint


def test_a_path_has_at_most_64_parts() -> None:
    for part in (".a", "[0]", '["b"]', ".b c"):
        parse("${a" + part * 63 + "}")
        with pytest.raises(ExpressionProblem, match="has more than 64 parts"):
            parse("${a" + part * 64 + "}")
    with pytest.raises(ExpressionProblem, match="has more than 64 parts"):
        parse("${a" + ".a" * 1_000_000 + "}")


# --- templates --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("", ""),
        ("plain", "plain"),
        ("$name $(date) $$ $ {x} 5$", "$name $(date) $$ $ {x} 5$"),
        ("$${HOME}", "${HOME}"),
        ("$$${HOME}", "$${HOME}"),
        ("a $${b} $${c}", "a ${b} ${c}"),
        ("${x}", Template((X,))),
        ("${x}${y}", Template((X, Y))),
        ("Hello ${x}!", Template(("Hello ", X, "!"))),
        ("$${x} ${x} $${x}", Template(("${x} ", X, " ${x}"))),
        ("${x}$${y}", Template((X, "${y}"))),
        ("${x}$$", Template((X, "$$"))),
        ("${x[*]}", Template((Reference(("x",), spread=True),))),
        ("a\n${x}\nb", Template(("a\n", X, "\nb"))),
    ],
)
def test_a_template_is_text_and_references_in_turn(text: str, parsed: Text) -> None:
    assert parse(text) == parsed


def test_text_without_references_is_returned_as_it_is() -> None:
    text = "costs $5 " * 1_000
    assert parse(text) is text


def test_every_reference_is_shown_with_its_place() -> None:
    text = "a ${x} $${no} ${y:-b} c"
    seen: list[tuple[Reference, str]] = []

    def reference(found: Reference, start: int, end: int) -> Kinds:
        seen.append((found, text[start:end]))
        return Kinds.ANY

    parse_template(text, reference)
    command_words(text, reference)
    assert seen == [(X, "${x}"), (Reference(("y",), "b"), "${y:-b}")] * 2


def test_whoever_looks_at_a_reference_may_go_on_with_another() -> None:
    assert parse_template("a ${x}", lambda *_: (Y, Kinds.ANY)) == Template(("a ", Y))
    words = command_words("a ${x}", lambda *_: (Y, Kinds.ANY))
    assert [word.text for word in words] == ["a", Template((Y,))]


@pytest.mark.parametrize("text", ["a ${x[*]}", "${x[*]} b", "${x[*]}${y}", "${y}${x[*]}", "$${ ${x[*]}"])
def test_a_list_cannot_be_spread_inside_text(text: str) -> None:
    with pytest.raises(ExpressionProblem) as raised:
        parse(text)
    assert text[raised.value.start : raised.value.end] == "${x[*]}"
    assert raised.value.message == "'[*]' makes several arguments, so nothing else is allowed beside it."


# --- commands ---------------------------------------------------------------------------------------


@pytest.mark.rule("D24")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ()),
        (" \t\n", ()),
        ("make test", ("make", "test")),
        ("  make \t test\n", ("make", "test")),
        ("a 'b c' \"d e\" f\\ g", ("a", "b c", "d e", "f g")),
        ("a''b\"\"c '' \"\"", ("abc", "", "")),
        ("'it'\\''s'", ("it's",)),
        (r'"\" \\ \$ \` \a"', (r'" \ $ ` \a',)),
        (r"'\n'", (r"\n",)),
        ("make \\\n  test \\\n", ("make", "test")),
        ('"one \\\ntwo"', ("one two",)),
        ("te\\\nst", ("test",)),
        ("# no comment", ("#", "no", "comment")),
        (
            "a|b && c > d; e* ~ $(f) `g` $h $$",
            ("a|b", "&&", "c", ">", "d;", "e*", "~", "$(f)", "`g`", "$h", "$$"),
        ),
        ("run ${x}", ("run", Template((X,)))),
        ("--at=${x}:${y}/z", (Template(("--at=", X, ":", Y, "/z")),)),
        ("'${x} ${y}' \"a ${x}\"", (Template((X, " ", Y)), Template(("a ", X)))),
        (
            "cat ${steps.Build Image.output}.txt",
            ("cat", Template((Reference(("steps", "Build Image", "output")), ".txt"))),
        ),
        ('cat ${a["b c\'d"]} e', ("cat", Template((Reference(("a", "b c'd")),)), "e")),
        ('"${a["b c"]}"', (Template((Reference(("a", "b c")),)),)),
        ("${x:-a b 'c}", (Template((Reference(("x",), "a b 'c"),)),)),
        ("$${x} '$${x y}' \"$${x y}\"", ("${x}", "${x y}", "${x y}")),
        ('\\${x} "\\${x y}"', ("${x}", "${x y}")),
        ("'\\${x}'", (Template(("\\", X)),)),
    ],
)
def test_a_command_is_split_as_a_shell_would_and_a_reference_is_one_unit(
    text: str, words: tuple[Text, ...]
) -> None:
    assert split(text) == words


@pytest.mark.parametrize(
    ("text", "marked", "message"),
    [
        ("a 'b c", "'b c", "the quote ' is never closed."),
        ('a "b \\"', '"b \\"', 'the quote " is never closed.'),
        ("a\\", "\\", "nothing follows the '\\' at the end."),
        ("a ${x", "${x", "the '${' is never closed."),
        ("a ${x[*]} b", "${x[*]}", "'[*]' would add words to a command that is written as one text."),
    ],
)
def test_a_problem_of_a_command_says_what_is_wrong_and_where(text: str, marked: str, message: str) -> None:
    with pytest.raises(ExpressionProblem) as raised:
        split(text)
    found = raised.value
    assert (text[found.start : found.end], found.message) == (marked, message)
    assert found.hint


def test_a_word_knows_its_place_and_whether_it_was_quoted() -> None:
    text = "  echo '|' | \\; a\"b\" ${x y}"
    words = command_words(text, known)
    assert [(text[word.start : word.end], word.bare) for word in words] == [
        ("echo", True),
        ("'|'", False),
        ("|", True),
        ("\\;", False),
        ('a"b"', False),
        ("${x y}", True),
    ]


def test_a_command_has_at_most_as_many_characters_as_could_be_run() -> None:
    assert len(split("a " * 65_536)) == 65_536
    with pytest.raises(ExpressionProblem, match="131,073 characters; the maximum is 131,072"):
        split("a" * 131_073)


@given(st.text("ab '\"\\\t\n$`", max_size=20).filter(lambda text: "\\\n" not in text))
@settings(max_examples=500, deadline=None)
def test_without_references_the_words_are_those_of_shlex(text: str) -> None:
    try:
        expected = shlex.split(text)
    except ValueError:
        with pytest.raises(ExpressionProblem):
            split(text)
        return
    if "\\$" in text or "\\`" in text:
        return  # inside double quotes a shell unescapes these and shlex does not
    assert list(split(text)) == expected


@given(st.lists(st.text(max_size=8), max_size=5))
@settings(max_examples=300, deadline=None)
def test_what_shlex_quotes_is_one_word_each(words: list[str]) -> None:
    quoted = shlex.join(words).replace("${", "$${")
    assert list(split(quoted)) == words
