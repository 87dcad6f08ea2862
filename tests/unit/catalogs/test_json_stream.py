"""A list inside a large JSON text, read piece by piece."""

import asyncio
import json
import tracemalloc
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.catalogs.json_stream import objects_of

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


async def _chunks(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def _all(pieces: Iterable[bytes]) -> list[dict[str, Any]]:
    return [one async for one in objects_of("Services", _chunks(pieces))]


def _read(*pieces: bytes) -> list[dict[str, Any]]:
    return asyncio.run(_all(pieces))


@given(
    items=st.lists(st.dictionaries(st.text(), _VALUES, max_size=4), max_size=5),
    size=st.integers(1, 40),
    is_ascii=st.booleans(),
    indent=st.sampled_from([None, 2]),
)
@pytest.mark.rule("RC01")
def test_the_objects_are_those_of_the_text_wherever_it_is_cut(
    items: list[dict[str, Any]], size: int, *, is_ascii: bool, indent: int | None
) -> None:
    node = {"Meta": {"k": '"Services":[{"ID":"x"}]', "Services": "text"}}
    document = {"Node": node, "Services": items, "After": [{"ID": "y"}]}
    text = json.dumps(document, ensure_ascii=is_ascii, indent=indent).encode("utf-8", "surrogatepass")
    if "\ud800" <= max(text.decode("utf-8", "surrogatepass"), default="") <= "\udfff":
        return
    assert _read(*(text[place : place + size] for place in range(0, len(text), size))) == items


@pytest.mark.parametrize(
    "text", [b'{"Node":null,"Services":null}', b'{"Services":[]}', b'{"Services" : [ ]}']
)
def test_a_list_may_be_empty(text: bytes) -> None:
    assert _read(text) == []


@pytest.mark.rule("RC01")
@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b"<html>not found</html>",
        b'{"Node":{}}',
        b'{"Services":',
        b'{"Services":[',
        b'{"Services":[{"ID":"a"}',
        b'{"Services":[{"ID":"a"},',
        b'{"Services":[{"ID":"a"},{"ID":',
        b'{"Services":[{"ID":"a"} "b"]}',
        b'{"Services":[7]}',
        b'{"Services":[{"ID":"\xff"}]}',
    ],
)
def test_a_text_that_ends_early_or_has_something_else_is_an_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        _read(text)


@pytest.mark.rule("RC08")
def test_memory_does_not_grow_with_the_number_of_objects() -> None:
    one = json.dumps({"ID": "x" * 36, "Meta": {"k": "v" * 500}}).encode()

    def pieces(count: int) -> Iterable[bytes]:
        yield b'{"Services":['
        for _ in range(count - 1):
            yield one + b","
        yield one + b"]}"

    async def count(pieces: Iterable[bytes]) -> int:
        return sum([1 async for _ in objects_of("Services", _chunks(pieces))])

    def peak(number: int) -> int:
        tracemalloc.start()
        assert asyncio.run(count(pieces(number))) == number
        _, highest = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return highest

    peak(100)
    assert peak(20_000) < peak(1000) + 400_000
