"""Lines that others write into the file of a topic: whatever they are, they are read, and so is what follows them."""

import asyncio
from pathlib import Path

import pytest

from podium.buses.json_topics import JsonTopics, JsonTopicsSource
from podium.ports.events_in import Incoming

_NEXT = b'{"value": {"n": 1}}'
_HOSTILE = {
    "deep": b'{"value": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep headers": b'{"headers": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b', "value": 1}',
    "a return inside": b'{"value":\r{"n": 2}}',
    "a return before": b"\rnot json",
    "longer than what is read at a time": b'{"value": "' + b"x" * (5 * 1024 * 1024) + b'"}',
    "half a character in a key": b'{"key": "\\ud800", "value": 1}',
    "half a character in a header": b'{"headers": {"a": "\\udfff"}, "value": 1}',
    "not text": b"\xff\xfe\x00",
}


async def _all(folder: Path) -> list[Incoming]:
    source = JsonTopicsSource(folder, "t", "g")
    await source.open()
    try:
        found: list[Incoming] = []
        while more := await source.receive(10):
            found += more
            await source.commit(more)
        return found
    finally:
        await source.close()


@pytest.mark.parametrize("which", _HOSTILE)
def test_what_follows_a_hostile_line_is_read(tmp_path: Path, which: str) -> None:
    (tmp_path / "t.jsonl").write_bytes(_HOSTILE[which] + b"\n" + _NEXT + b"\n")
    found = asyncio.run(_all(tmp_path))
    assert [one.offset for one in found] == [0, 1]
    assert found[1].value == b'{"n": 1}'


@pytest.mark.parametrize("which", _HOSTILE)
def test_a_hostile_line_can_be_put_aside(tmp_path: Path, which: str) -> None:
    (tmp_path / "t.jsonl").write_bytes(_HOSTILE[which] + b"\n")
    (tmp_path / "t.dead.jsonl").touch()

    async def bury() -> list[Incoming]:
        (hostile,) = await _all(tmp_path)
        source = JsonTopicsSource(tmp_path, "t", "other")
        await source.bury(hostile, "EVENT_NOT_JSON")
        dead = JsonTopicsSource(tmp_path, "t.dead", "g")
        await dead.open()
        try:
            return [hostile, *await dead.receive(10)]
        finally:
            await dead.close()

    hostile, buried = asyncio.run(bury())
    assert buried.value == hostile.value
    assert (b"dead_code", b"EVENT_NOT_JSON") in [(name.encode(), text) for name, text in buried.headers]


def test_a_line_that_is_still_being_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(_NEXT + b"\n" + _NEXT[:7])
    assert len(asyncio.run(_all(tmp_path))) == 1
    with path.open("ab") as file:
        file.write(_NEXT[7:] + b"\n")
    assert [one.offset for one in asyncio.run(_all(tmp_path))] == [1]


def test_the_command_that_creates_a_topic_can_be_pasted(tmp_path: Path) -> None:
    topics = JsonTopics(tmp_path / "not there" / "topics")
    command = topics.how_to_create("t")
    assert command == f"mkdir -p '{tmp_path}/not there/topics' && touch '{tmp_path}/not there/topics/t.jsonl'"
