"""No form of a secret value is ever shown, however the output is cut into pieces."""

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from podium.log.redaction import Redactor, is_maskable

SECRETS = [
    "hunter",
    "correct horse battery staple",
    'quo"te\\back/slash',
    "a.*(b)[c]+d?{2}^$|",
    "-----BEGIN KEY-----\nMIIB+/8A\n-----END KEY-----\n",
    "pässwörd-日本-🔑",
    "<script>&amp;</script>",
    "100% + ~tilde!'()*",
    "\\u00e9 is not an é",
    "\udcff\udcfe bytes that are not UTF-8",
]


def as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


# --- forms ---------------------------------------------------------------------------------------

FORMS: dict[str, Callable[[str], bytes]] = {
    "raw": as_bytes,
    "JSON": lambda value: as_bytes(json.dumps(value)[1:-1]),
    "JSON in UTF-8": lambda value: as_bytes(json.dumps(value, ensure_ascii=False)[1:-1]),
    "JSON with escaped slashes": lambda value: as_bytes(json.dumps(value)[1:-1].replace("/", "\\/")),
    "JSON as Go writes it": lambda value: as_bytes(
        json.dumps(value, ensure_ascii=False)[1:-1]
        .replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("&", "\\u0026")
    ),
    "URL path": lambda value: quote(as_bytes(value)).encode(),
    "URL, everything quoted": lambda value: quote(as_bytes(value), safe="").encode(),
    "URL form": lambda value: quote_plus(as_bytes(value)).encode(),
    "encodeURIComponent": lambda value: quote(as_bytes(value), safe="!*'()").encode(),
    "quoted by Python": lambda value: as_bytes(repr(value)[1:-1]),
    "quoted by Python, beside single quotes": lambda value: as_bytes(
        repr(f"{value}'")[1:-1].rstrip("'").rstrip("\\")
    ),
    "quoted by Python in ASCII": lambda value: as_bytes(ascii(value)[1:-1]),
    "base64": lambda value: b64encode(as_bytes(value)),
    "base64 without padding": lambda value: b64encode(as_bytes(value)).rstrip(b"="),
    "base64 for URLs": lambda value: urlsafe_b64encode(as_bytes(value)),
    "base64 for URLs without padding": lambda value: urlsafe_b64encode(as_bytes(value)).rstrip(b"="),
}


@pytest.mark.rule("D35")
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
@pytest.mark.parametrize("secret", SECRETS, ids=ascii)
def test_a_value_is_masked_in_every_form(secret: str, form: Callable[[str], bytes]) -> None:
    shown = Redactor([secret]).redact_bytes(b"token=[" + form(secret) + b"] ok")
    assert shown == b"token=[***] ok"


def test_hexadecimal_digits_of_escapes_may_be_in_either_case() -> None:
    redactor = Redactor(["é/ü+ secret"])
    assert redactor.redact("%C3%A9%2F%C3%BC%2B%20secret") == "***"
    assert redactor.redact("%c3%a9%2f%c3%bc%2b%20secret") == "***"
    assert redactor.redact("%c3%a9%2f%c3%bc%2b+secret") == "***"
    assert redactor.redact(r"\u00e9/\u00fc+ secret") == "***"
    assert redactor.redact(r"\u00E9/\u00FC+ secret") == "***"


@pytest.mark.parametrize("before", range(7))
@pytest.mark.parametrize("after", range(7))
@pytest.mark.parametrize("secret", ["hunter", "hunter2", "hunter22", "correct horse battery staple"])
@pytest.mark.parametrize("encode", [b64encode, urlsafe_b64encode])
def test_a_value_is_masked_inside_a_longer_text_in_base64(
    before: int, after: int, secret: str, encode: Callable[[bytes], bytes]
) -> None:
    encoded = encode(b"\xfb\xff<user>"[:before] + secret.encode() + b"<rest>\xff"[:after])
    shown = Redactor([secret]).redact_bytes(encoded)
    assert shown.count(b"***") == 1
    # The value has at least this many characters of its own; only they must be gone, and they all are.
    own = (len(secret) * 8 - 10) // 6
    assert len(shown) - len(b"***") <= len(encoded) - own
    front, _, back = shown.partition(b"***")
    assert len(front) <= -(-before * 8 // 6)
    assert len(back) <= len(encoded) - (before + len(secret)) * 8 // 6


# --- which values --------------------------------------------------------------------------------


def test_a_value_of_six_characters_is_masked_and_one_of_five_is_not() -> None:
    assert Redactor(["hunter", "tiger"]).redact("hunter tiger") == "*** tiger"


@pytest.mark.rule("D35")
@pytest.mark.parametrize("secret", ["  hunter2", "hunter2\n", "\thunter2\r\n"])
def test_a_value_that_a_program_has_stripped_is_masked_in_every_form(secret: str) -> None:
    redactor = Redactor([secret])
    for form in FORMS.values():
        assert redactor.redact_bytes(b"token=[" + form(secret.strip()) + b"] ok") == b"token=[***] ok"
        assert redactor.redact_bytes(b"token=[" + form(secret) + b"] ok") == b"token=[***] ok"


def test_white_space_is_no_part_of_the_six_characters() -> None:
    assert Redactor(["  tiger ", "        "]).redact("tiger          tiger") == "tiger          tiger"


def test_of_values_that_contain_each_other_the_longest_is_masked() -> None:
    redactor = Redactor(["secret", "secret-longer", "a-secret-longer-still"])
    assert redactor.redact("secret secret-longer a-secret-longer-still") == "*** *** ***"


def test_of_values_that_overlap_no_piece_is_left_over() -> None:
    assert Redactor(["abcdef", "defghi"]).redact("<abcdefghi>") == "<***>"
    assert Redactor(["ababab"]).redact("<abababab>") == "<***>"


def test_values_side_by_side_have_a_mask_each() -> None:
    assert Redactor(["abcdef"]).redact("<abcdefabcdef>") == "<******>"


def test_without_values_nothing_changes() -> None:
    redactor = Redactor([])
    stream = redactor.stream()
    assert redactor.redact("hunter") == "hunter"
    assert (stream.feed(b"hunter"), stream.finish()) == (b"hunter", b"")


def test_a_redactor_does_not_show_what_it_hides() -> None:
    redactor = Redactor(["hunter"])
    stream = redactor.stream()
    stream.feed(b"hunte")
    assert repr(redactor) == "Redactor(1 values)"
    assert repr(stream) == "RedactedStream(5 bytes held back)"


# --- pieces --------------------------------------------------------------------------------------


@pytest.mark.rule("D35")
def test_a_value_across_the_border_of_two_pieces_is_masked() -> None:
    stream = Redactor(["hunter"]).stream()
    assert stream.feed(b"password: hun") == b"password: "
    assert stream.feed(b"ter\n") == b"***\n"


def test_what_turns_out_to_be_harmless_is_shown_at_once() -> None:
    stream = Redactor(["hunter"]).stream()
    assert stream.feed(b"a hunt") == b"a "
    assert stream.feed(b"ing season\n") == b"hunting season\n"


def test_what_is_held_back_at_the_end_is_shown() -> None:
    stream = Redactor(["hunter"]).stream()
    assert stream.feed(b"the hunt") == b"the "
    assert stream.finish() == b"hunt"


def test_an_occurrence_that_was_masked_already_grows_without_a_second_mask() -> None:
    stream = Redactor(["abcdef", "defghi"]).stream()
    assert stream.feed(b"<abcdef") == b"<***"
    assert stream.feed(b"ghi>") == b">"


# Two letters only, so that values overlap, repeat and begin like each other all the time.
VALUES = st.lists(st.text("ab", min_size=6, max_size=12), min_size=1, max_size=4)
TEXTS = st.lists(st.text("ab", max_size=30) | st.sampled_from(["aaaaaa", "ababab", "c"]), max_size=6).map(
    "".join
)
CUTS = st.lists(st.integers(0, 12), max_size=40)


def cover(text: str, values: Iterable[str]) -> str:
    """What redaction means, without thought for cost: every occurrence, those that overlap together."""
    runs: list[list[int]] = []
    for start in range(len(text)):
        for value in values:
            if text.startswith(value, start):
                if runs and start < runs[-1][1]:
                    runs[-1][1] = max(runs[-1][1], start + len(value))
                else:
                    runs.append([start, start + len(value)])
    shown, at = "", 0
    for start, stop in runs:
        shown, at = shown + text[at:start] + "***", stop
    return shown + text[at:]


def pieces(data: bytes, sizes: Iterable[int]) -> list[bytes]:
    cut, at = [], 0
    for size in sizes:
        cut.append(data[at : at + size])
        at += size
    return [*cut, data[at:]]


@given(VALUES, TEXTS)
def test_everything_covered_by_an_occurrence_is_masked_and_nothing_else(values: list[str], text: str) -> None:
    assert Redactor(values).redact(text) == cover(text, values)


@given(VALUES, TEXTS, CUTS)
@example(["aaaaaa", "aaaaaab"], "aaaaaaab", [1, 1, 1, 1, 1, 1, 1])
@example(["abcdef", "defghi"], "abcdefghi", [6, 1])
def test_however_the_pieces_are_cut_the_result_is_the_same(
    values: list[str], text: str, sizes: list[int]
) -> None:
    redactor = Redactor(values)
    stream = redactor.stream()
    shown = b"".join(stream.feed(piece) for piece in pieces(text.encode(), sizes)) + stream.finish()
    assert shown == redactor.redact_bytes(text.encode())


@given(VALUES, TEXTS, CUTS)
def test_only_what_may_still_become_an_occurrence_is_held_back(
    values: list[str], text: str, sizes: list[int]
) -> None:
    stream = Redactor(values).stream()
    for piece in pieces(text.encode(), sizes):
        stream.feed(piece)
        held = stream._held.decode()
        assert held == "" or any(value.startswith(held) and value != held for value in values)


@given(st.lists(st.text(min_size=6), max_size=3), st.lists(st.integers(0, 20), max_size=20), st.data())
def test_values_and_texts_of_any_characters_may_be_cut_anywhere(
    values: list[str], sizes: list[int], data: st.DataObject
) -> None:
    around = st.text(max_size=8) | (st.sampled_from(values) if values else st.nothing())
    text = "".join(data.draw(st.lists(around, max_size=8)))
    redactor = Redactor(values)
    stream = redactor.stream()
    whole = text.encode()
    shown = b"".join(stream.feed(piece) for piece in pieces(whole, sizes)) + stream.finish()
    assert shown == redactor.redact_bytes(whole) == redactor.redact(text).encode()
    masked = [value for value in values if is_maskable(value) and "*" not in value]
    assert not any(value in redactor.redact(text) for value in masked)


def test_text_that_is_no_unicode_is_left_as_it_is() -> None:
    text = "\ud800 \udcff hunter"
    assert Redactor(["hunter", "\ud800 high"]).redact(text) == "\ud800 \udcff ***"
    assert Redactor(["\ud800 high"]).redact("a \ud800 high one") == "a *** one"
