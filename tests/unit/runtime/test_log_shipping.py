"""Logs are copied into segments while they are written, and are read as one whole."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from podium.artifacts.folder_segments import FolderSegments
from podium.ports.artifacts import ArtifactStoreUnavailable
from podium.ports.logs import LogName, Segment, Segments
from podium.runtime.log_files import FileLogs, MergedLogs
from podium.runtime.log_segments import SEGMENT_BYTES, SegmentKey, SegmentLogs, parse_key
from podium.runtime.log_shipping import LogShipper

OUT = LogName("Build", 1, "out")


class Place:
    """A folder of logs, and segments that count what is put, and can be taken away."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "steps"
        self.folder.mkdir()
        self.segments = FolderSegments(root / "bucket")
        self.puts: list[int] = []
        self.is_away = False

    def shipper(self, generation: int = 1, *, is_new: bool = True) -> LogShipper:
        async def segments() -> Segments:
            return self

        return LogShipper(self.folder, segments, generation, is_new=is_new)

    async def put(self, name: str, content: bytes) -> None:
        if self.is_away:
            raise ArtifactStoreUnavailable("away")
        self.puts.append(len(content))
        await self.segments.put(name, content)

    async def read(self, name: str, start: int, end: int) -> bytes:
        return await self.segments.read(name, start, end)

    async def list(self, folder: str = "") -> Sequence[Segment]:
        return await self.segments.list(folder)

    def write(self, text: str, name: str = "Build.1.out") -> None:
        with (self.folder / name).open("a") as file:
            file.write(text)

    async def shown(self, name: LogName = OUT, start: int = 0, most: int = 1 << 30) -> bytes:
        logs = SegmentLogs(self.segments)
        await logs.list()
        return await logs.read(name, start, most)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_what_is_written_is_copied_in_rounds(place: Place) -> None:
    async def scenario() -> None:
        shipper = place.shipper()
        await shipper.ship()
        assert await place.shown() == b""
        place.write("one\n")
        await shipper.ship()
        assert await place.shown() == b"one\n"
        place.write("two\n")
        await shipper.ship()
        assert await place.shown() == b"one\ntwo\n"

    asyncio.run(scenario())


def test_a_round_without_news_asks_the_bucket_nothing(place: Place) -> None:
    async def scenario() -> None:
        shipper = place.shipper()
        place.write("one\n")
        await shipper.ship()
        place.is_away = True
        await shipper.ship()
        assert place.puts == [4]

    asyncio.run(scenario())


def test_a_long_log_has_few_segments_and_is_read_from_any_byte(place: Place) -> None:
    async def scenario() -> None:
        shipper = place.shipper()
        text = ""
        for number in range(5):
            piece = f"{number}" * (SEGMENT_BYTES // 2 + 7)
            text += piece
            place.write(piece)
            await shipper.ship()
        assert max(place.puts) == SEGMENT_BYTES
        assert len(await place.segments.list()) == 3
        content = text.encode()
        for start in (0, 1, SEGMENT_BYTES - 1, SEGMENT_BYTES, 2 * SEGMENT_BYTES + 3, len(content) - 1):
            assert await place.shown(start=start) == content[start:]
            assert await place.shown(start=start, most=9) == content[start : start + 9]
        assert await place.shown(start=len(content) + 1) == b""

    asyncio.run(scenario())


def test_an_attempt_that_is_carried_out_again_replaces_its_log(place: Place) -> None:
    """Also if the new log is shorter, and whichever host wrote the first one."""

    async def scenario() -> None:
        place.write("a long first try, cut off\n")
        await place.shipper(generation=3).ship()
        (place.folder / "Build.1.out").unlink()
        place.write("again\n")
        await place.shipper(generation=4, is_new=False).ship()
        assert await place.shown() == b"again\n"

    asyncio.run(scenario())


def test_a_log_that_is_written_from_its_start_under_the_same_lease_replaces_the_first_one(
    place: Place,
) -> None:
    async def scenario() -> None:
        shipper = place.shipper()
        place.write("first\n")
        await shipper.ship()
        (place.folder / "other").write_text("keeps the inode of the first one in use")
        (place.folder / "Build.1.out").rename(place.folder / "kept")
        place.write("new\n")
        await shipper.ship()
        assert await place.shown() == b"new\n"

    asyncio.run(scenario())


def test_a_host_that_takes_a_run_again_copies_only_what_is_missing(place: Place) -> None:
    async def scenario() -> None:
        place.write("done\n")
        place.write("cut o", "Test.1.out")
        await place.shipper(generation=1).ship()
        place.write("ff\n", "Test.1.out")
        place.puts.clear()
        await place.shipper(generation=2, is_new=False).ship()
        assert place.puts == [8]
        assert await place.shown() == b"done\n"
        assert await place.shown(LogName("Test", 1, "out")) == b"cut off\n"

    asyncio.run(scenario())


def test_what_a_bucket_did_not_take_is_copied_when_it_is_back(place: Place) -> None:
    async def scenario() -> None:
        shipper = place.shipper()
        place.write("one\n")
        place.is_away = True
        with pytest.raises(ArtifactStoreUnavailable):
            await shipper.ship()
        place.is_away = False
        assert await shipper.finish() is None
        assert await place.shown() == b"one\n"

    asyncio.run(scenario())


def test_links_and_other_files_are_not_copied(place: Place, tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "secret").write_text("not of this run")
        (place.folder / "Link.1.out").symlink_to(tmp_path / "secret")
        place.write("what an agent was asked", "Ask.1.prompt")
        await place.shipper().ship()
        assert await place.segments.list() == []

    asyncio.run(scenario())


def test_logs_that_only_this_host_has_are_shown_beside_those_of_the_bucket(place: Place) -> None:
    async def scenario() -> None:
        place.write("copied\n")
        await place.shipper().ship()
        place.write("and more that is on its way\n")
        place.write("local\n", "Old.1.err")
        logs = MergedLogs(SegmentLogs(place.segments), FileLogs(place.folder))
        assert [log.name for log in await logs.list()] == [OUT, LogName("Old", 1, "err")]
        assert await logs.find(OUT) == (OUT, 7, (await logs.list())[0].modified)
        assert await logs.find(LogName("../../x", 1, "out")) is None
        assert await logs.read(OUT, 0, 100) == b"copied\n"
        assert await logs.read(LogName("Old", 1, "err"), 1, 100) == b"ocal\n"
        assert await logs.read(LogName("None", 1, "err"), 0, 100) == b""

    asyncio.run(scenario())


@pytest.mark.parametrize("step", ["Build", "Group~Build[2]#1", "a b, c=d@e+", ".hidden", "x" * 163])
def test_every_name_of_a_file_has_a_key_of_its_own(step: str) -> None:
    key = SegmentKey(LogName(step, 12, "err"), 7, 1, 3)
    assert parse_key(key.text()) == key
    assert all(one.isalnum() or one in "-_./" for one in key.text())


@pytest.mark.parametrize("text", ["", "a", "ab/cdef", "!.1.out/1.1.1", "QQ.x.out/1.1.1", "QQ.1.out/1.1"])
def test_what_is_not_a_segment_is_passed_over(text: str) -> None:
    assert parse_key(text) is None
