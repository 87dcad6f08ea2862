"""Segments of logs behave alike in a folder and in an object store."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from podium.artifacts.address import S3Address
from podium.artifacts.bucket import S3Bucket
from podium.artifacts.folder_bucket import FolderBucket
from podium.artifacts.s3 import S3Artifacts
from podium.ports.artifacts import ArtifactBucket, ArtifactStoreUnavailable
from podium.ports.logs import LogName
from podium.runtime.log_segments import SegmentKey
from services import s3
from tests.servers import need

NAME = SegmentKey(LogName("Group~Build[2]#1, x", 1, "out"), 1, 0, 0).text()
PART = "r1:a@b+c/6f9619ff-8b86-4d01-b42d-00cf4fc964ff/logs"


@pytest.fixture(scope="module")
def server() -> Iterator[s3.S3Server]:
    with need(s3.start) as server:
        server.create_bucket("podium-test")
        yield server


@pytest.fixture(params=["folder", "s3"])
def bucket(request: pytest.FixtureRequest, tmp_path: Path) -> ArtifactBucket:
    if request.param == "folder":
        return FolderBucket(tmp_path)
    return in_s3(request.getfixturevalue("server"))


def in_s3(server: s3.S3Server) -> S3Bucket:
    def opened(address: S3Address) -> S3Artifacts:
        return S3Artifacts(
            address.bucket,
            prefix=address.prefix,
            endpoint=server.endpoint,
            access_key_id=server.access_key_id,
            secret_access_key=server.secret_access_key,
        )

    return S3Bucket(S3Address("podium-test", uuid4().hex), opened)


def test_a_segment_is_replaced_as_a_whole_and_read_from_any_byte(bucket: ArtifactBucket) -> None:
    async def scenario() -> None:
        writer, reader = bucket.segments(PART), bucket.segments(PART)
        await writer.put(NAME, b"one")
        await writer.put(NAME, b"one two")
        assert [(one.name, one.size) for one in await reader.list()] == [(NAME, 7)]
        assert await reader.read(NAME, 0, 7) == b"one two"
        assert await reader.read(NAME, 4, 6) == b"tw"
        assert await reader.read(NAME, 4, 100) == b"two"
        assert await reader.read(NAME, 4, 4) == b""
        await writer.put("other/1", b"x")
        assert [one.name for one in await reader.list("other")] == ["other/1"]
        assert await reader.list("oth") == []

    asyncio.run(scenario())


def test_what_is_not_there_is_empty(bucket: ArtifactBucket) -> None:
    async def scenario() -> None:
        segments = bucket.segments(PART)
        assert await segments.list() == []
        assert await segments.read(NAME, 0, 10) == b""

    asyncio.run(scenario())


def test_parts_do_not_see_each_other_and_are_removed_with_their_run(bucket: ArtifactBucket) -> None:
    async def scenario() -> None:
        run = PART.removesuffix("/logs")
        await bucket.segments(PART).put(NAME, b"one")
        await bucket.segments(f"{run}x/logs").put(NAME, b"another run")
        ref = await bucket.store(run).put(b"an artifact", kind="output")
        assert [one.size for one in await bucket.segments(PART).list()] == [3]
        assert [one.sha256 async for one in bucket.store(run).list()] == [ref.sha256]
        await bucket.remove(run)
        assert await bucket.segments(PART).list() == []
        assert [one.size for one in await bucket.segments(f"{run}x/logs").list()] == [11]

    asyncio.run(scenario())


def test_a_folder_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "file").write_text("not a folder")
        segments = FolderBucket(tmp_path / "file").segments(PART)
        with pytest.raises(ArtifactStoreUnavailable):
            await segments.put(NAME, b"one")

    asyncio.run(scenario())


def test_a_bucket_that_does_not_exist_is_unavailable(server: s3.S3Server) -> None:
    async def scenario() -> None:
        store = S3Artifacts(
            "not-made",
            prefix="p",
            endpoint=server.endpoint,
            access_key_id=server.access_key_id,
            secret_access_key=server.secret_access_key,
        )
        with pytest.raises(ArtifactStoreUnavailable):
            await store.segments().put(NAME, b"one")

    asyncio.run(scenario())
