"""Patterns find what Python's `re` finds in ASCII text, in a time that no pattern and no text can stretch."""

import re

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

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
    ("pattern", "message", "hint"),
    [
        ("(", "missing )", r"Write ) where the group ends"),
        ("a)", "unexpected )", "Remove it"),
        ("[a", "missing ]", "Write ] where the set ends"),
        ("[]", "missing ]", "Write ] where the set ends"),
        ("[z-a]", "invalid character class range in 'z-a'", "smaller character first"),
        ("*a", "no argument for repetition operator in '*'", "what is repeated"),
        ("a**", "bad repetition operator in '**'", "into ( and )"),
        ("a{3,2}", "invalid repetition size in '{3,2}'", "at most 1,000 times"),
        ("a{1001}", "invalid repetition size in '{1001}'", "at most 1,000 times"),
        ("((a{100}){100}){100}", "invalid repetition size in '{100}'", "at most 1,000 times"),
        ("[^x]{1000}" * 90, "pattern too large - compile failed", "shorter pattern"),
        (r"a\1", r"invalid escape sequence in '\1'", "no back references"),
        ("\\", "trailing \\", r"Write \\ to mean"),
        ("(?=a)", "invalid perl operator in '(?='", "no look-around"),
        ("a" * 1_001, "it has more than 1,000 characters", "shorter pattern"),
        ("\ud800", "it contains an unpaired surrogate", "Remove it"),
    ],
)
def test_an_invalid_pattern_is_refused_with_a_reason_and_a_hint(
    pattern: str, message: str, hint: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InvalidPattern) as raised:
        Pattern(pattern)
    assert str(raised.value) == message
    assert hint in raised.value.hint
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "pattern",
    ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "^(a*)*$", "(a*)*b", "^(.*.*.*.*)*!$", "(x+x+)+y", "(a?){20}a{20}$"],
)
@pytest.mark.timeout(60)
def test_patterns_that_explode_elsewhere_end(pattern: str) -> None:
    """Tried one way after the other, these would take longer than the universe has existed."""
    compiled = Pattern(pattern)
    assert compiled.found_in("a" * 200_000 + "?") is False


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("(?i)FAIL", "it did fail", True),
        ("(?P<name>a)b", "ab", True),
        (r"^\p{L}+$", "äöü", True),
        (r"^\w+$", "äöü", False),
        ("(?m)^b$", "a\nb\nc", True),
        ("[$]", "a", False),
        ("[$]", "$", True),
        (r"\$", "$", True),
        ("a", "\ud800a", True),
    ],
)
def test_the_dialect_is_that_of_re2(pattern: str, text: str, expected: bool) -> None:
    assert found(pattern, text) is expected


def test_a_text_of_megabytes_can_be_searched() -> None:
    assert found("ERROR: [0-9]+$", "x" * 5_000_000 + "ERROR: 12\n")


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
@example("(a|ab)(c|bcd)$", "abcd")
def test_found_is_what_re_finds(pattern: str, text: str) -> None:
    # `$` takes the last newline with it: what follows `$` inside a pattern cannot look at it any more.
    assume(not re.search(r"\$(?!$|[)|])|\\b|\$\)[^$|]", pattern))
    assert found(pattern, text) is (re.search(pattern, text) is not None)
