"""The store in a bucket keeps the promises of every store, against a server that speaks S3."""

import asyncio
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import obstore
import pytest
from obstore.store import S3Store

from podium.artifacts.address import S3Address
from podium.artifacts.bucket import S3Bucket
from podium.artifacts.s3 import S3Artifacts
from podium.ports.artifacts import ArtifactStoreUnavailable
from podium.testing.artifact_promises import HELLO, ArtifactStorePromises, Change, pieces, stored
from services import s3
from tests.servers import need

ROOT = Path(__file__).parents[3]


def artifacts(
    server: s3.S3Server, bucket: str, prefix: str = "artifacts", renew_after: timedelta = timedelta(minutes=5)
) -> S3Artifacts:
    return S3Artifacts(
        bucket,
        prefix=prefix,
        endpoint=server.endpoint,
        access_key_id=server.access_key_id,
        secret_access_key=server.secret_access_key,
        renew_after=renew_after,
    )


class S3World:
    def __init__(self, server: s3.S3Server, bucket: str, renew_after: timedelta) -> None:
        self.prefix = f"test/{uuid4().hex}"
        self.store = artifacts(server, bucket, self.prefix, renew_after)
        self.other = artifacts(server, bucket, self.prefix, renew_after)
        self.behind = S3Store(
            bucket,
            config={
                "endpoint": server.endpoint,
                "access_key_id": server.access_key_id,
                "secret_access_key": server.secret_access_key,
            },
            client_options={"allow_http": True},
        )

    def damage(self, name: str, change: Change) -> None:
        key = f"{self.prefix}/{name[:2]}/{name[2:]}"
        content = bytes(obstore.get(self.behind, key).bytes())
        obstore.put(self.behind, key, change(content))

    async def tick(self) -> None:
        # S3 counts in seconds.
        await asyncio.sleep(1.1)


@pytest.fixture(scope="module")
def server() -> Iterator[s3.S3Server]:
    with need(s3.start) as server:
        server.create_bucket("podium-test")
        yield server


class TestS3Artifacts(ArtifactStorePromises):
    @pytest.fixture
    def world(self, server: s3.S3Server) -> S3World:
        # Always sent again: the promises put the same content twice within a second.
        return S3World(server, "podium-test", renew_after=timedelta(0))


class TestAPartOfTheBucket(ArtifactStorePromises):
    """What the configuration file names, with the prefix of one run."""

    @pytest.fixture
    def world(self, server: s3.S3Server) -> S3World:
        world = S3World(server, "podium-test", renew_after=timedelta(0))
        bucket = S3Bucket(
            S3Address("podium-test", world.prefix),
            lambda address: artifacts(server, address.bucket, address.prefix, timedelta(0)),
        )
        world.prefix += "/r1:a@b+c/6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
        world.store = world.other = bucket.store("r1:a@b+c/6f9619ff-8b86-4d01-b42d-00cf4fc964ff")
        return world


@pytest.fixture
def world(server: s3.S3Server) -> S3World:
    return S3World(server, "podium-test", renew_after=timedelta(minutes=5))


def test_the_uri_names_bucket_and_object(world: S3World) -> None:
    ref = asyncio.run(world.store.put(HELLO, kind="log"))
    assert ref.uri == (
        f"s3://podium-test/{world.prefix}/09/ca7e4eaa6e8ae9c7d261167129184883644d07dfba7cbfbc4c8a2e08360d5b"
    )


def test_what_was_put_a_moment_ago_is_not_sent_again(world: S3World) -> None:
    ref = asyncio.run(world.store.put(HELLO, kind="log"))
    before = obstore.head(world.behind, ref.uri.removeprefix("s3://podium-test/"))
    asyncio.run(world.tick())
    assert asyncio.run(world.other.put(HELLO, kind="log")) == ref
    assert obstore.head(world.behind, ref.uri.removeprefix("s3://podium-test/")) == before


def test_content_of_several_parts_is_one_artifact(world: S3World) -> None:
    part = bytes(range(256)) * 4096
    ref = asyncio.run(world.store.put(pieces(*[part] * 34), kind="log"))
    assert ref.size_bytes == 34 << 20
    assert asyncio.run(world.store.read(ref)) == part * 34


def test_objects_of_others_in_the_bucket_are_not_listed(world: S3World) -> None:
    asyncio.run(world.store.put(HELLO, kind="log"))
    obstore.put(world.behind, f"{world.prefix}/notes.txt", b"mine")
    obstore.put(world.behind, f"{world.prefix}-other/09/{'0' * 62}", b"not ours")
    assert len(asyncio.run(stored(world.store))) == 1


def test_a_bucket_that_is_not_there_is_told(server: s3.S3Server) -> None:
    store = artifacts(server, "nobody-made-it")
    with pytest.raises(
        ArtifactStoreUnavailable, match=r"s3://nobody-made-it/artifacts cannot be .* try again"
    ):
        asyncio.run(store.put(HELLO, kind="log"))


def test_a_server_that_does_not_answer_is_told_without_the_credentials() -> None:
    with s3.start() as gone:
        gone.pause()
        store = S3Artifacts(
            "bucket", endpoint=gone.endpoint, access_key_id="id", secret_access_key="s3cr3t-key"
        )
        for ask in (store.put(HELLO, kind="log"), stored(store)):
            with pytest.raises(ArtifactStoreUnavailable) as told:
                asyncio.run(ask)
            assert "s3cr3t-key" not in f"{told.value} {told.value.__cause__}"


def test_a_temporary_folder_that_is_full_is_told() -> None:
    store = S3Artifacts("bucket", endpoint="http://127.0.0.1:9", access_key_id="id", secret_access_key="key")
    _, hard = before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(ArtifactStoreUnavailable, match=r"gathered in /.*: File too large\. .* try again"):
            asyncio.run(store.put(bytes(9 << 20), kind="log"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_the_server_ends_when_whoever_started_it_is_killed() -> None:
    program = (
        "import time; from services import s3\n"
        "server = s3.start()\n"
        "print(server.endpoint, flush=True)\n"
        "time.sleep(60)"
    )
    starter = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    with starter:
        assert starter.stdout is not None
        port = int(starter.stdout.readline().rpartition(":")[2])
        starter.kill()
    until = time.monotonic() + 20
    while answers(port):
        assert time.monotonic() < until, "it still answers"
        time.sleep(0.05)


def answers(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0
