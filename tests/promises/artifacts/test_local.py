"""The store in a folder keeps the promises of every store, and some of its own."""

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from podium.artifacts.files import RealFiles
from podium.artifacts.local import LocalArtifacts
from podium.log.artifacts import ArtifactRef
from podium.ports.artifacts import ArtifactStoreUnavailable
from podium.testing.artifact_promises import HELLO, LARGE, ArtifactStorePromises
from tests.promises.artifacts.local_world import LocalWorld


@pytest.fixture
def world(tmp_path: Path) -> LocalWorld:
    return LocalWorld(tmp_path / "not" / "there" / "yet")


class TestLocalArtifacts(ArtifactStorePromises):
    @pytest.fixture
    def world(self, world: LocalWorld) -> LocalWorld:
        return world


def put(store: LocalArtifacts, content: bytes) -> ArtifactRef:
    return asyncio.run(store.put(content, kind="log"))


def files_under(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()} - {"lock"}


def test_an_artifact_lies_under_its_sha256(world: LocalWorld) -> None:
    put(world.store, HELLO)
    assert files_under(world.root) == {"09/ca7e4eaa6e8ae9c7d261167129184883644d07dfba7cbfbc4c8a2e08360d5b"}


def test_a_store_can_be_moved(world: LocalWorld) -> None:
    ref = put(world.store, HELLO)
    moved = world.root.rename(world.root.with_name("elsewhere"))
    assert ref.uri == f"sha256:{ref.sha256}"
    assert asyncio.run(LocalArtifacts(moved).read(ref)) == HELLO


def test_other_users_of_the_machine_cannot_read_artifacts(world: LocalWorld) -> None:
    ref = put(world.store, HELLO)
    assert world.root.stat().st_mode & 0o077 == 0
    assert world.path_of(ref.sha256 or "").stat().st_mode & 0o077 == 0


def test_putting_the_content_again_repairs_a_damaged_artifact(world: LocalWorld) -> None:
    ref = put(world.store, LARGE)
    world.damage(ref.sha256 or "", lambda data: data[:-1] + b"!")
    assert put(world.store, LARGE) == ref
    assert asyncio.run(world.other.read(ref)) == LARGE


def test_a_good_artifact_is_never_overwritten(world: LocalWorld) -> None:
    ref = put(world.store, HELLO)
    before = world.path_of(ref.sha256 or "").stat()
    put(world.other, HELLO)
    after = world.path_of(ref.sha256 or "").stat()
    assert before.st_ino == after.st_ino


def test_what_a_dead_process_left_is_removed_at_start_and_what_is_being_written_is_not(
    world: LocalWorld,
) -> None:
    temporary = world.root / "temporary"
    (temporary / "left-behind").write_bytes(b"half")
    (temporary / "being-written").write_bytes(b"half")
    two_hours_ago = time.time() - 7200
    os.utime(temporary / "left-behind", (two_hours_ago, two_hours_ago))
    LocalArtifacts(world.root)
    assert files_under(world.root) == {"temporary/being-written"}


def test_what_does_not_belong_into_the_folder_is_not_listed(world: LocalWorld) -> None:
    put(world.store, HELLO)
    (world.root / "09" / "notes.txt").write_text("mine")

    async def names() -> list[str]:
        return [one.sha256 async for one in world.store.list()]

    assert [name[:4] for name in asyncio.run(names())] == ["09ca"]


def test_a_folder_that_cannot_be_made_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(ArtifactStoreUnavailable, match=r"taken.*cannot be read or written: .*then try again"):
        LocalArtifacts(tmp_path / "taken")


def open_below(folder: Path) -> list[str]:
    """The files of a folder that this process holds open; other tests have files of their own."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(link)  # noqa: PTH115 - the target of a removed file is no path
        except FileNotFoundError:
            continue
        if target.startswith(f"{folder}/"):
            found.append(target)
    return found


def test_a_cancelled_put_waits_for_its_thread_and_leaves_no_file_open(world: LocalWorld) -> None:
    async def cancel_at_every_moment() -> None:
        for moment in range(40):
            task = asyncio.create_task(world.store.put(LARGE + bytes([moment]), kind="log"))
            await asyncio.sleep(moment * 0.0003)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(cancel_at_every_moment())
    assert list((world.root / "temporary").iterdir()) == []
    assert open_below(world.root) == []


# --- the race between a put and a sweep ----------------------------------------------------------


class SlowToRemove(RealFiles):
    """Dawdles between deciding that a file is old and removing it."""

    def __init__(self) -> None:
        self.about_to_remove = threading.Event()

    def remove(self, path: Path) -> None:
        self.about_to_remove.set()
        time.sleep(0.1)
        super().remove(path)


class SlowAndWithoutLock(SlowToRemove):
    @contextmanager
    def lock(self, path: Path, *, alone: bool) -> Iterator[None]:
        yield


@pytest.mark.parametrize(
    ("files_type", "kept"), [(SlowToRemove, True), (SlowAndWithoutLock, False)], ids=["lock", "no lock"]
)
def test_what_is_put_while_it_is_removed_for_its_age_is_there_afterwards(
    world: LocalWorld, files_type: type[SlowToRemove], kept: bool
) -> None:
    """Without the lock it is not: so the test can fail."""
    ref = put(world.store, HELLO)
    name = ref.sha256 or ""
    two_hours_ago = time.time() - 7200
    os.utime(world.path_of(name), (two_hours_ago, two_hours_ago))
    files = files_type()

    async def race() -> bool:
        an_hour_ago = datetime.now(UTC) - timedelta(hours=1)
        sweep = LocalArtifacts(world.root, files).delete(name, unless_modified_since=an_hour_ago)
        sweeping = asyncio.create_task(sweep)
        await asyncio.to_thread(files.about_to_remove.wait, 10)
        await LocalArtifacts(world.root, files).put(HELLO, kind="log")
        assert await sweeping
        return await world.store.exists(ref)

    assert asyncio.run(race()) is kept
