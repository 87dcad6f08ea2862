"""How a problem is told: where it stands, what it shows, and that nothing in it acts on a terminal."""

import pytest

from podium.language.codes import Code
from podium.language.diagnostics import MAX_PROBLEMS, Diagnostic, Report, Severity, did_you_mean
from podium.language.reader import read_yaml
from podium.language.source import Source
from podium.nodes.contract import read_contract
from podium.text import quoted, visible

ESCAPE = "\x1b"


def told(text: str, start: int, end: int, message: str = "it is wrong.", hint: str = "") -> str:
    """One error about a piece of a text, as it is printed."""
    report = Report(Source("f.yaml", text))
    report.error(Code.UNKNOWN_VALUE, start, end, message, hint)
    return str(report.diagnostics[0])


# --- the parts of a message ----------------------------------------------------------------------


def test_a_problem_shows_place_code_message_excerpt_mark_and_hint() -> None:
    assert told("needs: [biuld]\n", 8, 13, "'biuld' is no step.", "Did you mean 'build'?") == (
        "f.yaml:1:9: E303 'biuld' is no step.\n"
        "    1 | needs: [biuld]\n"
        "      |         ^^^^^\n"
        "Did you mean 'build'?"
    )


def test_a_problem_without_a_hint_ends_with_its_mark() -> None:
    assert told("a: b\n", 3, 4) == "f.yaml:1:4: E303 it is wrong.\n    1 | a: b\n      |    ^"


def test_a_warning_says_so() -> None:
    report = Report(Source("f.yaml", "a: b\n"))
    report.warning(Code.UNKNOWN_KEY, 0, 1, "it is odd.")

    assert str(report.diagnostics[0]) == "f.yaml:1:1: warning E402 it is odd.\n    1 | a: b\n      | ^"


def test_a_problem_for_programs_has_everything_but_the_excerpt() -> None:
    report = Report(Source("f.yaml", "needs: [biuld]\n"))
    report.error(Code.STEP_NOT_DEFINED, 8, 13, "no such step.", "Define it.")

    assert report.diagnostics[0].as_json() == {
        "file": "f.yaml",
        "line": 1,
        "column": 9,
        "end_column": 14,
        "severity": "error",
        "code": "E204",
        "message": "no such step.",
        "hint": "Define it.",
    }


def test_a_long_line_number_moves_the_excerpt_and_its_mark_alike() -> None:
    text = "\n" * 123_455 + "abc\n"

    assert told(text, 123_456, 123_457).splitlines()[1:] == ["123456 | abc", "       |  ^"]


def test_of_a_place_that_spans_lines_only_the_first_is_marked() -> None:
    assert told("a: |\n  b\n  c\n", 3, 12).splitlines()[1:] == ["    1 | a: |", "      |    ^"]


def test_a_place_without_width_is_marked_by_one_character() -> None:
    assert told("a:\n", 2, 2).splitlines()[1:] == ["    1 | a:", "      |   ^"]


def test_an_empty_line_is_not_shown() -> None:
    assert told("a: 'b\n", 6, 7) == "f.yaml:2:1: E303 it is wrong."


def test_a_line_of_200_characters_is_shown_and_a_longer_one_is_not() -> None:
    assert "x" * 199 in told("a" + "x" * 199, 0, 1)
    assert told("a" + "x" * 200, 0, 1) == "f.yaml:1:1: E303 it is wrong."


def test_a_long_line_still_has_its_columns() -> None:
    report = Report(Source("f.yaml", "x" * 500))
    report.error(Code.UNKNOWN_VALUE, 300, 310, "it is wrong.")

    assert (report.diagnostics[0].column, report.diagnostics[0].end_column) == (301, 311)


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("ab: x", "    ^"),
        ("日本: x", "      ^"),
        ("ｱｲ: x", "    ^"),
        ("ＡＢ: x", "      ^"),
        ("a\u0301b\u0301: x", "    ^"),
        ("🚀: x", "    ^"),
        ("a\t: x", " \t  ^"),
        ("\t\t: x", "\t\t  ^"),
        ("a\u200db: x", "          ^"),
    ],
    ids=["narrow", "wide", "half-width", "full-width", "combining", "emoji", "tab", "tabs", "invisible"],
)
def test_the_mark_stands_below_its_place_whatever_stands_before_it(text: str, mark: str) -> None:
    at = text.index("x")

    assert told(text, at, at + 1).splitlines()[2] == "      | " + mark


def test_the_mark_is_as_wide_as_what_it_marks() -> None:
    assert told("a: 日本語", 3, 6).splitlines()[2] == "      |    ^^^^^^"
    assert told("a: e\u0301t\u0301", 3, 7).splitlines()[2] == "      |    ^^"


# --- order, count and cap ------------------------------------------------------------------------


def test_problems_are_told_in_the_order_of_the_file() -> None:
    report = Report(Source("f.yaml", "ab\ncd\n"))
    report.error(Code.UNKNOWN_VALUE, 4, 5, "third.")
    report.warning(Code.UNKNOWN_KEY, 0, 1, "first.")
    report.error(Code.UNKNOWN_VALUE, 1, 2, "second.")

    assert [found.message for found in report.diagnostics] == ["first.", "second.", "third."]


def test_problems_of_one_place_are_told_in_the_order_in_which_they_were_found() -> None:
    report = Report(Source("f.yaml", "ab\n"))
    report.error(Code.UNKNOWN_VALUE, 0, 2, "found first.")
    report.error(Code.MISSING_KEY, 0, 1, "found second.")

    assert [found.message for found in report.diagnostics] == ["found first.", "found second."]


def test_a_warning_is_no_error() -> None:
    report = Report(Source("f.yaml", "ab\n"))
    report.warning(Code.UNKNOWN_KEY, 0, 1, "odd.")
    assert not report.has_errors

    report.error(Code.UNKNOWN_VALUE, 0, 1, "wrong.")
    assert report.has_errors


@pytest.mark.parametrize(("problems", "listed", "omitted"), [(99, 99, 0), (100, 100, 0), (103, 100, 3)])
def test_at_most_100_problems_are_listed_and_the_others_are_counted(
    problems: int, listed: int, omitted: int
) -> None:
    document = read_yaml(b"[" + b"&a 1, " * problems + b"]", "f.yaml")

    assert MAX_PROBLEMS == 100
    assert len(document.report.diagnostics) == listed
    assert document.report.omitted == omitted


def test_a_contract_with_too_many_problems_lists_100_and_counts_the_others() -> None:
    steps = "".join(f"- {{step_name: Step {n}, step_type: compue}}\n" for n in range(250))

    reading = read_contract(f"steps:\n{steps}", "f.yaml")

    assert reading.contract is None
    assert (len(reading.diagnostics), reading.omitted) == (100, 151)


# --- what a terminal would obey ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("Größe 日本 🚀", "Größe 日本 🚀"),
        ("tab\tstays", "tab\tstays"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\x9b31m", "\\x9b31m"),
        ("a\rb", "a\\rb"),
        ("a\nb", "a\\nb"),
        ("\x00\x07\x08\x7f", "\\x00\\x07\\x08\\x7f"),
        ("\u202eabc\u2066", "\\u202eabc\\u2066"),
        ("\u2028\u2029\x85", "\\u2028\\u2029\\x85"),
        ("\udcff", "\\udcff"),
        ("\U000e0041", "\\U000e0041"),
        ("\ufeff\u200b\u200d", "\\ufeff\\u200b\\u200d"),
    ],
)
def test_what_a_terminal_would_obey_is_spelled_out(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_hostile_file_name_is_spelled_out() -> None:
    document = read_yaml(b"- [", "\x1b]0;owned\x07\r\n.yaml")

    assert str(document.report.diagnostics[0]).startswith("\\x1b]0;owned\\x07\\r\\n.yaml:1:")


@pytest.mark.parametrize(
    "content",
    [
        b"\x1b[2J",
        b"a: \x1b]0;owned\x07",
        b"\xff\x1b[2J",
        b"\0\x1b[2J",
        b'steps: [{"step_name": "\\e[2J", step_type: "\\e[2J"}]',
        b'steps: [{step_id: "\\e[2J", step_name: a, step_type: effect, depends_on: ["\\e[2J", "\\x9b2J"]}]',
        b'"\\e[2J": 1\n"\\e[2J": 2\n',
        b'"\\e[2J": 1\n',
        b'steps: ["\\e[2J", {"\\e[2J": "\\x9b"}]',
        b'workflow_coordination: "\\e[2J\\n\\u202e"\n',
    ],
)
@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
def test_hostile_content_is_spelled_out(content: bytes, strict: bool) -> None:
    reading = read_contract(content, "\x1b[31m.yaml", strict=strict)

    texts = [str(found) for found in reading.diagnostics]
    texts += [str(value) for found in reading.diagnostics for value in found.as_json().values()]
    assert texts
    assert [text for text in texts if ESCAPE in text or "\x9b" in text or "\u202e" in text] == []


def test_hostile_excerpts_are_spelled_out_and_the_mark_still_fits() -> None:
    text = "\x1b[31m: x"

    assert told(text, 7, 8).splitlines()[1:] == ["    1 | \\x1b[31m: x", "      |           ^"]


# --- words ---------------------------------------------------------------------------------------


def test_a_value_of_60_characters_is_quoted_whole_and_a_longer_one_is_cut() -> None:
    assert quoted("x" * 60) == f"'{'x' * 60}'"
    assert quoted("x" * 61) == f"'{'x' * 57}...'"


@pytest.mark.parametrize(
    ("word", "known", "sentence"),
    [
        ("biuld", ["build", "test"], "Did you mean 'build'?"),
        ("BUILD", ["build", "test"], "Did you mean 'build'?"),
        ("zzz", ["build", "test"], ""),
        ("", ["build"], ""),
        ("build", [], ""),
    ],
)
def test_the_nearest_known_word_is_suggested(word: str, known: list[str], sentence: str) -> None:
    assert did_you_mean(word, known) == sentence


def test_a_diagnostic_is_a_value() -> None:
    one = Diagnostic(Code.TAG, Severity.ERROR, "f.yaml", 1, 2, 3, "m", "h", "e")
    other = Diagnostic(Code.TAG, Severity.ERROR, "f.yaml", 1, 2, 3, "m", "h", "e")

    assert one == other
    assert hash(one) == hash(other)
