"""Patterns find what Python's `re` finds, in a time that no pattern and no text can stretch."""

import re
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from podium.expressions import patterns
from podium.expressions.patterns import InvalidPattern, Pattern, compile_pattern


def found(pattern: str, text: str) -> bool:
    return compile_pattern(pattern).found_in(text)


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("", "", True),
        ("b", "abc", True),
        ("bd", "abc", False),
        ("a.c", "abc", True),
        ("a.c", "a\nc", False),
        (r"\d+", "release 12", True),
        (r"\D", "123", False),
        (r"\w\W\w", "a b", True),
        (r"\s", "a\tb", True),
        (r"\S", " \n", False),
        (r"\.\*\\", r"a.*\b", True),
        (r"\t\n\r", "\t\n\r", True),
        ("[a-c]x", "bx", True),
        ("[^a-c]x", "bx", False),
        ("[]]", "]", True),
        ("[^]]", "]", False),
        ("[a-]", "-", True),
        (r"[\d_\]-]+$", "1_]-", True),
        (r"[\w.]+@[\w.]+", "write to a.b@c.d!", True),
        ("^b", "abc", False),
        ("c$", "abc", True),
        ("c$", "abc\n", True),
        ("c$", "abc\n\n", False),
        (r"c\Z", "abc\n", False),
        (r"\Aa", "abc", True),
        ("^$", "", True),
        ("^$", "\n", True),
        (r"\bfail\b", "it did fail.", True),
        (r"\bfail\b", "failed", False),
        (r"\Bail", "fail", True),
        (r"\Bfail", "fail", False),
        ("colou?r", "color", True),
        ("ab*c", "ac", True),
        ("ab+c", "ac", False),
        ("^(ab){2}$", "abab", True),
        ("^(ab){2}$", "ababab", False),
        ("^a{2,}$", "aaaa", True),
        ("^a{2,3}$", "aaaa", False),
        ("^a{0}$", "", True),
        ("^(cat|dog)s?$", "dogs", True),
        ("^(cat|dog)s?$", "cats and dogs", False),
        ("^(|a)b", "b", True),
        ("(?:a|b)c", "bc", True),
        ("a.*?c", "abbc", True),
        ("(a*)*b", "aab", True),
        ("(^)*a", "ba", True),
        ("ä.ö", "xäüöx", True),
    ],
)
def test_a_pattern_is_found_where_python_finds_it(pattern: str, text: str, expected: bool) -> None:
    assert found(pattern, text) is expected
    assert (re.search(pattern, text) is not None) is expected


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "a '(' is never closed"),
        ("a)", "a ')' has no '('"),
        ("[a", "a '[' is never closed"),
        ("[]", "a '[' is never closed"),
        ("[z-a]", "a range in '[...]' goes backwards or ends in no character"),
        (r"[a-\d]", "a range in '[...]' goes backwards or ends in no character"),
        ("*a", "'*' repeats nothing"),
        ("a|?", "'?' repeats nothing"),
        ("{2}", "'{' repeats nothing"),
        ("a**", "'*' repeats a repetition"),
        ("a{2}{3}", "'{3}' repeats a repetition"),
        ("a{,2}", "'{' begins no repetition"),
        ("a{x}", "'{' begins no repetition"),
        ("a{2", "'{' begins no repetition"),
        ("a{99999}", "'{' begins no repetition"),
        ("a{3,2}", "'{3,2}' has the larger number first"),
        ("^*", "a place in the text is repeated"),
        (r"\1", r"'\1' is not supported"),
        (r"\x41", r"'\x' is not supported"),
        ("\\", "it ends in a backslash"),
        ("(?=a)", "'(?=' is not supported"),
        ("(?i)a", "'(?i' is not supported"),
        ("(?P<n>a)", "'(?P' is not supported"),
    ],
)
def test_what_is_no_pattern_is_refused_with_a_reason(pattern: str, message: str) -> None:
    with pytest.raises(InvalidPattern) as raised:
        Pattern(pattern)
    assert str(raised.value) == message
    assert raised.value.hint


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("a" * 1_001, "it has more than 1,000 characters"),
        ("a{1001}", "it has more than 1,000 places once its repetitions are written out"),
        ("((a{100}){100}){100}", "it has more than 1,000 places once its repetitions are written out"),
        (
            "(((((a{9}){9}){9}){9}){9}){9999}",
            "it has more than 1,000 places once its repetitions are written out",
        ),
        ("(" * 51 + ")" * 51, "its groups are nested more than 50 deep"),
    ],
)
def test_a_pattern_that_is_too_large_is_refused_before_it_is_built(pattern: str, message: str) -> None:
    with pytest.raises(InvalidPattern) as raised:
        Pattern(pattern)
    assert str(raised.value) == message


def test_the_number_of_places_is_known_before_they_are_made() -> None:
    for pattern in ("", "a", "(a|b|)*c{3,7}$", "((ab)+|c?){2,}", "(((a))){5}"):
        part = patterns._Reader(pattern).whole()
        assert Pattern(pattern).size == patterns._size(part) + 1


@pytest.mark.parametrize(
    "pattern",
    ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "^(a*)*$", "(a*)*b", "^(.*.*.*.*)*!$", "(x+x+)+y", "(a?){20}a{20}$"],
)
def test_patterns_that_explode_elsewhere_are_bounded_by_places_times_characters(
    pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = Pattern(pattern)
    steps = 0
    original = Pattern._reached

    def counting(self: Pattern, state: patterns._State, symbol: str) -> set[int]:
        nonlocal steps
        steps += 1
        return original(self, state, symbol)

    monkeypatch.setattr(Pattern, "_reached", counting)
    # Every step looks at each place at most once, and what was met before is not worked out again.
    compiled.found_in("a" * 2_000 + "?")
    assert steps <= 50
    compiled.found_in("a" * 2_000 + "?")
    assert steps <= 50


def test_what_is_remembered_is_bounded_and_forgetting_changes_no_answer() -> None:
    compiled = Pattern("(a|b)*a(a|b){12}c")
    text = "".join(Random(1).choices("ab", k=20_000))
    assert compiled.found_in(text + "c") is (re.search("a[ab]{12}c", text + "c") is not None)
    assert compiled._remembered <= patterns._MAX_REMEMBERED + compiled.size


# --- against re -------------------------------------------------------------------------------------

LETTERS = "abA1_ .\n-"
single = st.sampled_from(
    [
        r"a",
        r"b",
        r"A",
        r"1",
        r"_",
        r"\.",
        r".",
        r"\d",
        r"\D",
        r"\w",
        r"\W",
        r"\s",
        r"\S",
        r"\n",
        r"-",
        r"[ab]",
        r"[^a]",
        r"[a-z]",
        r"[^a-z1]",
        r"[\d_]",
        r"[^\w]",
        r"[-a]",
        r"[\s\S]",
    ]
)
place = st.sampled_from(["^", "$", r"\b", r"\A", r"\Z"])
repetition = st.sampled_from(["*", "+", "?", "{0}", "{1}", "{2}", "{1,}", "{0,2}", "{1,3}", "*?", "+?", "??"])


def larger(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    group = parts.map(lambda inner: f"({inner})")
    return st.one_of(
        st.tuples(parts, parts).map("".join),
        st.tuples(parts, parts).map("|".join),
        group,
        parts.map(lambda inner: f"(?:{inner})"),
        st.tuples(st.one_of(single, group), repetition).map("".join),
    )


pattern_texts = st.recursive(st.one_of(single, single, place), larger, max_leaves=8)


@given(pattern_texts, st.text(LETTERS, max_size=12))
@settings(max_examples=600, deadline=None)
@example(r"\b$", "a\n")
@example("(a|ab)(c|bcd)$", "abcd")
def test_found_is_what_re_finds(pattern: str, text: str) -> None:
    assert found(pattern, text) is (re.search(pattern, text) is not None)


# re warns of what may change its meaning one day, such as `[[`.
@pytest.mark.filterwarnings("ignore::FutureWarning")
@given(st.text(r"ab()[]{}^$*+?|\\.-d,1:!", max_size=15), st.text("ab1-", max_size=6))
@settings(max_examples=500, deadline=None)
def test_any_text_is_a_pattern_with_the_meaning_of_re_or_refused(pattern: str, text: str) -> None:
    try:
        ours = Pattern(pattern).found_in(text)
    except InvalidPattern:
        return
    assert ours is (re.search(pattern, text) is not None)


@given(st.characters(), st.sampled_from([r"\d", r"\w", r"\s", ".", r"[^\w]", r"[\d\s]"]))
@settings(max_examples=300, deadline=None)
def test_kinds_of_characters_are_those_of_re(character: str, pattern: str) -> None:
    assert found(f"^{pattern}", character) is (re.search(f"^{pattern}", character) is not None)
