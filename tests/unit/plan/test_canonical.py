"""Canonical JSON: equal values, equal bytes. Vectors are those of RFC 8785 and its appendices."""

import json
import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.plan.canonical import (
    MAX_INTEGER,
    WRITTEN_WITH_EXPONENT,
    NotCanonical,
    canonical_json,
    canonical_sha256,
    comes_back,
)


@pytest.mark.rule("G28")
def test_the_example_of_the_rfc() -> None:
    value = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"/",
        "literals": [None, True, False],
    }
    assert (
        canonical_json(value)
        == (
            '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
            '"string":"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
        ).encode()
    )


@pytest.mark.parametrize(
    ("bits", "written"),
    [
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("ffefffffffffffff", "-1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
        ("c340000000000000", "-9007199254740992"),
        ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("44b52d02c7e14af7", "1.0000000000000001e+23"),
        ("444b1ae4d6e2ef4e", "999999999999999700000"),
        ("444b1ae4d6e2ef4f", "999999999999999900000"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555553", "333333333.3333332"),
        ("41b3de4355555554", "333333333.33333325"),
        ("41b3de4355555555", "333333333.3333333"),
        ("41b3de4355555556", "333333333.3333334"),
        ("41b3de4355555557", "333333333.33333343"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
        ("43143ff3c1cb0959", "1424953923781206.2"),
    ],
)
def test_the_numbers_of_the_rfc(bits: str, written: str) -> None:
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical_json(number).decode() == written


@pytest.mark.rule("G28")
def test_keys_are_ordered_by_their_utf_16_units() -> None:
    value = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\u0080": 6, "\u00f6": 7}
    assert list(json.loads(canonical_json(value)).values()) == [2, 4, 6, 7, 1, 5, 3]


def test_only_what_must_be_escaped_is() -> None:
    text = "".join(map(chr, range(0x20))) + '"\\/\x7f\u2028\xe9'
    assert canonical_json(text).decode() == (
        '"\\u0000\\u0001\\u0002\\u0003\\u0004\\u0005\\u0006\\u0007\\b\\t\\n\\u000b\\f\\r\\u000e\\u000f'
        "\\u0010\\u0011\\u0012\\u0013\\u0014\\u0015\\u0016\\u0017\\u0018\\u0019\\u001a\\u001b\\u001c\\u001d"
        '\\u001e\\u001f\\"\\\\/\x7f\u2028\xe9"'
    )


def test_whole_numbers_are_exact_up_to_what_json_carries() -> None:
    assert canonical_json([MAX_INTEGER, -MAX_INTEGER]) == b"[9007199254740991,-9007199254740991]"
    for number in (MAX_INTEGER + 1, -MAX_INTEGER - 1, 10**40):
        with pytest.raises(NotCanonical):
            canonical_json([number])


@pytest.mark.parametrize("value", ["\ud800", {"\udfff": 1}, {1: 2, "a": object()}, [object()]])
def test_what_has_no_json_is_refused(value: object) -> None:
    with pytest.raises(NotCanonical):
        canonical_json([value, 1.5])


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (2.0, b"2"),
        (-2.0, b"-2"),
        ([2.0], b"[2]"),
        ([1, 12.0], b"[1,12]"),
        ({"a": 2.0}, b'{"a":2}'),
        ({"a": [1, {"b": -12.0}]}, b'{"a":[1,{"b":-12}]}'),
        ({"a": "3e5", "b": 1e5}, b'{"a":"3e5","b":100000}'),
    ],
)
def test_a_fraction_is_found_wherever_it_is(value: object, written: bytes) -> None:
    assert canonical_json(value) == written


def test_texts_that_look_like_numbers_are_texts() -> None:
    value = {"a": "1.0 and 12345678901234567890", "b": 'quoted "1e5"', "c": "\\"}
    assert canonical_json(value) == b'{"a":"1.0 and 12345678901234567890","b":"quoted \\"1e5\\"","c":"\\\\"}'


def test_a_struct_is_written_like_the_mapping_it_stands_for() -> None:
    class Pair(msgspec.Struct):
        second: float
        first: str

    assert canonical_json(Pair(2.0, "x")) == b'{"first":"x","second":2}'


def _is_no_large_whole_number(number: float) -> bool:
    return not MAX_INTEGER < abs(number) < WRITTEN_WITH_EXPONENT


_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_INTEGER, MAX_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False).filter(_is_no_large_whole_number)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(_values)
def test_reading_it_back_gives_an_equal_value_with_the_same_bytes(value: object) -> None:
    written = canonical_json(value)
    assert json.loads(written) == value
    assert canonical_json(json.loads(written)) == written
    assert comes_back(value)


@pytest.mark.parametrize("value", [1e16, 2.0**53, [-1e20], float("nan"), "\ud800", {"a": 10**20}])
def test_what_would_be_read_back_as_something_else_is_told(value: object) -> None:
    assert not comes_back(value)


@given(st.dictionaries(st.text(), _values, max_size=5), st.randoms())
def test_the_order_in_which_keys_were_written_changes_nothing(
    value: dict[str, object], random: object
) -> None:
    keys = list(value)
    random.shuffle(keys)  # type: ignore[attr-defined]
    assert canonical_sha256({key: value[key] for key in keys}) == canonical_sha256(value)
