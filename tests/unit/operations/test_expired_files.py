"""Files of ended runs are removed when their time is over and somebody asks."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from podium.log.ids import RunId
from podium.log.leases import Lease
from podium.log.times import timestamp
from podium.operations.expired_files import Expired, prune_expired
from podium.operations.parts import Parts
from podium.operations.run_files import list_artifacts, open_artifact
from podium.ports.artifacts import ArtifactNotFound, ArtifactStoreUnavailable
from podium.runtime.lock import RunLock, no_lease
from podium.runtime.run_artifacts import RunArtifacts
from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock
from podium.testing.events import event, new_run
from podium.testing.store_promises import started
from tests.unit.runtime.folder_bucket import FolderBucket, FolderPart

REPORT = b"report"


def nothing(*_: Any) -> Any:
    raise AssertionError


class Place:
    """A store, the directories of its runs, and a bucket."""

    def __init__(self, folder: Path) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)
        self.bucket = FolderBucket(folder / "bucket")
        self.runs = folder / "runs"
        self.parts = Parts(
            self.store, self.clock, self.runs, nothing, nothing, nothing, nothing, self.bucket, is_owner=True
        )

    def later(self, **age: int) -> str:
        return timestamp(self.clock.now() + timedelta(**age))

    async def leave(
        self, run_id: str, lease: Lease, step: str, path: str, expires_at: str | None, content: bytes = REPORT
    ) -> None:
        """A step ends and leaves a file, which the bucket has, too."""
        file = self.file(run_id, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        ref = await RunArtifacts(self.bucket, self.store, run_id).put(lambda: content, "file")
        fact = {"path": path, "sha256": sha256(content).hexdigest(), "uri": ref.uri}
        if expires_at is not None:
            fact["expiresAt"] = expires_at
        ended = event(run_id, "StepCompleted", step, exitCode=0, artifacts=[fact])
        await self.store.append(RunId(run_id), [event(run_id, "StepStarted", step), ended], fence=lease.fence)

    async def end(self, run_id: str, lease: Lease, how: str = "RunCompleted") -> None:
        await self.store.append(RunId(run_id), [event(run_id, how)], fence=lease.fence)
        await self.store.release(lease)

    async def ended(self, run_id: str, expires_at: str | None, path: str = "report.txt") -> None:
        lease = await started(self.store, run_id)
        await self.leave(run_id, lease, "a", path, expires_at)
        await self.end(run_id, lease)

    def file(self, run_id: str, path: str = "report.txt") -> Path:
        return self.runs / run_id / "artifacts" / path

    async def copies(self, run_id: str) -> list[str]:
        first = (await self.store.read(RunId(run_id)))[0].event_id
        return await self.bucket.store(f"{run_id}/{first}").names()

    async def prune(self, *, dry_run: bool = False) -> list[Expired]:
        return [one async for one in prune_expired(self.parts, "default", dry_run=dry_run)]

    async def pruned(self, *, dry_run: bool = False) -> dict[str, tuple[str, ...]]:
        return {one.run.identity.run_id: one.names for one in await self.prune(dry_run=dry_run)}


def scenario(folder: Path, test: Callable[[Place], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test(Place(folder)))


@pytest.mark.rule("OP18")
def test_a_file_is_removed_with_its_copy_when_its_time_is_over(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        await place.ended("soon", place.later(days=1))
        await place.ended("later", place.later(days=9))
        await place.ended("never", None)
        assert await place.pruned() == {}
        place.clock.move(timedelta(days=2).total_seconds())
        assert await place.pruned(dry_run=True) == {"soon": ("report.txt",)}
        assert place.file("soon").exists()
        assert await place.pruned() == {"soon": ("report.txt",)}
        assert not place.file("soon").exists()
        assert await place.copies("soon") == []
        for name in ("later", "never"):
            assert place.file(name).read_bytes() == REPORT
            assert len(await place.copies(name)) == 1
        assert await place.pruned() == {}

    scenario(tmp_path, test)


@pytest.mark.rule("OP18")
def test_the_run_still_says_what_it_had_and_since_when_that_is_gone(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        expires_at = place.later(days=1)
        await place.ended("r1", expires_at)
        place.clock.move(timedelta(days=2).total_seconds())
        await place.pruned()
        listed = await list_artifacts(place.parts, "default", "r1")
        assert [(one.name, one.ref.expires_at) for one in listed] == [("report.txt", expires_at)]
        with pytest.raises(ArtifactNotFound, match=f"'report.txt' expired at {expires_at}"):
            await open_artifact(place.parts, "default", "r1", "report.txt")

    scenario(tmp_path, test)


@pytest.mark.rule("OP18")
def test_what_another_reference_of_the_run_needs_is_kept(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        lease = await started(place.store, "r1")
        await place.leave("r1", lease, "a", "old.txt", place.later(days=1))
        await place.leave("r1", lease, "b", "new.txt", place.later(days=9))
        await place.end("r1", lease)
        place.clock.move(timedelta(days=2).total_seconds())
        assert await place.pruned() == {}
        assert len(await place.copies("r1")) == 1
        place.clock.move(timedelta(days=8).total_seconds())
        assert await place.pruned() == {"r1": ("new.txt", "old.txt")}

    scenario(tmp_path, test)


@pytest.mark.rule("OP18")
def test_a_file_that_is_not_what_was_recorded_is_kept(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        await place.ended("r1", place.later(days=1))
        place.file("r1").write_bytes(b"written by hand")
        place.clock.move(timedelta(days=2).total_seconds())
        assert await place.pruned() == {"r1": ("report.txt",)}  # the copy
        assert place.file("r1").read_bytes() == b"written by hand"
        assert await place.copies("r1") == []

    scenario(tmp_path, test)


@pytest.mark.rule("OP18")
def test_a_name_that_leads_out_of_the_run_removes_nothing(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        await place.ended("other", None)
        await place.ended("r1", place.later(days=1), path="../../other/artifacts/report.txt")
        place.clock.move(timedelta(days=2).total_seconds())
        await place.pruned()
        assert place.file("other").read_bytes() == REPORT

    scenario(tmp_path, test)


@pytest.mark.rule("OP18")
def test_an_open_run_keeps_its_files_and_those_of_the_runs_that_it_repeats(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        lease = await started(place.store, "open")
        await place.leave("open", lease, "a", "report.txt", place.later(days=1))
        for name, original in (("first", None), ("second", "first")):
            queued = event(name, "RunQueued", originalRunId=original)
            await place.store.create_run(new_run(name), [queued])
            taken = await place.store.claim(RunId(name), owner="driver", ttl=timedelta(days=1))
            assert taken is not None
            await place.store.append(RunId(name), [event(name, "RunStarted")], fence=taken.fence)
            await place.leave(name, taken, "a", "report.txt", place.later(days=1))
            await place.end(name, taken)
        await place.store.create_run(new_run("third"), [event("third", "RunQueued", originalRunId="second")])
        place.clock.move(timedelta(days=2).total_seconds())
        assert await place.pruned() == {}
        assert all(place.file(name).exists() for name in ("open", "first", "second"))
        third = await place.store.claim(RunId("third"), owner="driver", ttl=timedelta(days=1))
        assert third is not None
        await place.store.append(
            RunId("third"), [event("third", "RunStarted"), event("third", "RunCompleted")], fence=third.fence
        )
        assert await place.pruned() == {"first": ("report.txt",), "second": ("report.txt",)}
        assert place.file("open").exists()

    scenario(tmp_path, test)


@pytest.mark.rule("OP18")
def test_a_run_that_a_process_resumes_is_left_alone(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        await place.ended("r1", place.later(days=1))
        place.clock.move(timedelta(days=2).total_seconds())
        lock = RunLock(place.parts.directory("r1").lock, "r1")
        await lock.take(no_lease, wait=0)
        assert await place.pruned() == {}
        assert place.file("r1").exists()
        lock.release()
        assert await place.pruned() == {"r1": ("report.txt",)}

    scenario(tmp_path, test)


class AwayPart(FolderPart):
    async def delete(self, sha256: str, **_: Any) -> bool:
        raise ArtifactStoreUnavailable("the bucket does not answer")


class AwayBucket(FolderBucket):
    def store(self, name: str) -> FolderPart:
        return AwayPart(self, name)


@pytest.mark.rule("OP18")
def test_a_copy_that_cannot_be_reached_is_reported_and_removed_the_next_time(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        await place.ended("r1", place.later(days=1))
        place.clock.move(timedelta(days=2).total_seconds())
        away = replace(place.parts, bucket=AwayBucket(place.bucket.folder))
        found = [one async for one in prune_expired(away, "default")]
        assert [one.names for one in found] == [("report.txt",)]
        assert found[0].left_behind is not None
        assert "the bucket does not answer" in found[0].left_behind
        assert await place.pruned() == {"r1": ("report.txt",)}
        assert await place.copies("r1") == []

    scenario(tmp_path, test)
