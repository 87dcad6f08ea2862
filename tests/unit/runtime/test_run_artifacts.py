"""The part of a bucket that belongs to one run."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from podium.artifacts.local import LocalArtifacts
from podium.errors import ContentMissing
from podium.log.artifacts import ArtifactRef
from podium.log.ids import RunId
from podium.ports.artifacts import ArtifactCorrupt, ArtifactNotFound
from podium.runtime.run_artifacts import ArtifactNotStored, RunArtifacts
from podium.runtime.spilling import RunValues
from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock
from podium.testing.store_promises import started
from tests.unit.runtime.folder_bucket import FolderBucket


async def of_run(bucket: FolderBucket, run_id: str = "r1", outage: float = 0) -> RunArtifacts:
    store = MemoryStore(VirtualClock())
    await started(store, run_id)
    return RunArtifacts(bucket, store, run_id, timedelta(seconds=outage))


def damage(part: Path) -> None:
    for file in part.glob("??/*"):
        file.chmod(0o600)
        file.write_bytes(b"other")


@pytest.mark.rule("OP14")
def test_a_large_value_is_read_from_the_store_the_own_part_its_uri_and_the_directory(tmp_path: Path) -> None:
    async def scenario() -> None:
        bucket, store = FolderBucket(tmp_path / "bucket"), MemoryStore(VirtualClock())
        await started(store, "r1")
        own = RunArtifacts(bucket, store, "r1")
        elsewhere = await bucket.store("another/part").put(b"large", kind="payload")
        values = RunValues(store, "r1", lambda: LocalArtifacts(tmp_path / "payloads"), own)
        with pytest.raises(ContentMissing):
            await values.read(ArtifactRef("sha256:?", "payload", elsewhere.sha256))
        assert await values.read(elsewhere) == b"large"  # where its URI says
        unnamed = ArtifactRef(f"sha256:{elsewhere.sha256}", "payload", elsewhere.sha256, 5)
        await values.copy(b"large")
        assert await values.read(unnamed) == b"large"  # in the directory
        await bucket.remove("another/part")
        await own.put(lambda: b"large", "payload")
        await LocalArtifacts(tmp_path / "payloads").delete(str(elsewhere.sha256))
        assert await values.read(unnamed) == b"large"  # in the run's own part
        await values.put(b"large", kind="payload")
        await own.remove()
        await LocalArtifacts(tmp_path / "payloads").delete(str(elsewhere.sha256))
        assert await values.read(elsewhere) == b"large"  # in the store

    asyncio.run(scenario())


@pytest.mark.rule("OP14")
def test_what_is_damaged_in_the_own_part_comes_from_where_its_uri_says(tmp_path: Path) -> None:
    async def scenario() -> None:
        bucket = FolderBucket(tmp_path)
        artifacts = await of_run(bucket)
        ref = await bucket.store("another/part").put(b"report", kind="file")
        await artifacts.put(lambda: b"report", "file")
        damage(tmp_path / await artifacts.name())
        await artifacts.fetch(ref, tmp_path / "report.txt")
        assert (tmp_path / "report.txt").read_bytes() == b"report"

    asyncio.run(scenario())


def test_nothing_is_left_of_a_file_that_is_damaged_in_the_bucket(tmp_path: Path) -> None:
    async def scenario() -> None:
        artifacts = await of_run(FolderBucket(tmp_path / "bucket"))
        ref = await artifacts.put(lambda: b"report", "file")
        damage(tmp_path / "bucket" / await artifacts.name())
        (tmp_path / "there").mkdir()
        with pytest.raises(ArtifactCorrupt):
            await artifacts.fetch(ref, tmp_path / "there" / "report.txt")
        assert list((tmp_path / "there").iterdir()) == []

    asyncio.run(scenario())


@pytest.mark.rule("OP15")
def test_a_put_is_repeated_until_the_bucket_is_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        bucket = FolderBucket(tmp_path)
        artifacts = await of_run(bucket, outage=600)
        bucket.failures = 2
        ref = await artifacts.put(lambda: b"report", "file")
        assert bucket.puts == 3
        assert await artifacts.read(ref) == b"report"

    asyncio.run(scenario())


@pytest.mark.rule("OP15")
def test_a_bucket_that_stays_away_is_not_waited_for_longer_than_allowed(tmp_path: Path) -> None:
    async def scenario() -> None:
        bucket = FolderBucket(tmp_path)
        artifacts = await of_run(bucket, outage=0.5)
        bucket.failures = 1_000
        with pytest.raises(ArtifactNotStored, match=r"for 0.5 seconds \(PODIUM_ARTIFACT_OUTAGE\)"):
            await artifacts.put(lambda: b"report", "file")
        assert artifacts.uri_of("") is None
        assert 1 < bucket.puts < 1_000

    asyncio.run(scenario())


@pytest.mark.rule("OP13")
def test_the_part_of_a_run_is_named_by_its_id_and_its_first_event(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = MemoryStore(VirtualClock())
        await started(store, "r1")
        first = (await store.read(RunId("r1")))[0].event_id
        assert await RunArtifacts(FolderBucket(tmp_path), store, "r1").name() == f"r1/{first}"

    asyncio.run(scenario())


@pytest.mark.rule("OP14")
def test_what_a_rerun_takes_over_is_copied_once_and_what_is_gone_stays_gone(tmp_path: Path) -> None:
    async def scenario() -> None:
        bucket = FolderBucket(tmp_path)
        earlier, later = await of_run(bucket, "r1"), await of_run(bucket, "r2")
        ref = await earlier.put(lambda: b"report", "file")
        await later.take_over(ref, earlier)
        await later.take_over(ref, earlier)
        assert bucket.puts == 2
        await earlier.remove()
        assert await later.read(ref) == b"report"
        gone = await earlier.put(lambda: b"gone", "file")
        await earlier.remove()
        await later.take_over(gone, earlier)
        with pytest.raises(ArtifactNotFound):
            await later.read(gone)

    asyncio.run(scenario())
