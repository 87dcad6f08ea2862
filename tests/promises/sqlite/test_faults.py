"""When the disk fails or the power goes: a clear error, nothing acknowledged is lost, and it goes on afterwards."""

import asyncio
import random
import shutil
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import TypeVar

import apsw
import pytest

from podium.errors import StoreUnavailable
from podium.log.events import EventWrite
from podium.log.leases import Fence
from podium.stores.sqlite import SqliteStore
from podium.testing.events import event
from podium.testing.store_promises import R1, started
from tests.promises.sqlite.disks import FailingDisk, PowerlessDisk, ShortWrite, open_on

BATCHES = 8

# Where SQLite goes on after an error of the disk, apsw has nobody to raise it to.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

_T = TypeVar("_T")
_names = count()

FAULTS: dict[str, tuple[Callable[[], Exception], str]] = {
    "disk full": (lambda: apsw.FullError("database or disk is full"), "free some space"),
    "I/O error": (lambda: apsw.IOError("disk I/O error"), "check the system log"),
    "short write": (ShortWrite, "check the system log"),
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Fence]:
    """A database with a run that has begun, and who may write about it."""
    path = tmp_path_factory.mktemp("prepared") / "podium.db"

    async def prepare() -> Fence:
        store = await SqliteStore.open(path)
        lease = await started(store)
        await store.close()
        return lease.fence

    return path, asyncio.run(prepare())


def batch(number: int) -> list[EventWrite]:
    return [event("r1", "StepCompleted", f"{number}/{part}", output="x" * 3000) for part in range(3)]


async def insist(ask: Callable[[], Awaitable[_T]], complaints: list[str]) -> _T:
    """Ask again while the store is unavailable, as the runtime does within its write budget."""
    for _ in range(5):
        try:
            return await ask()
        except StoreUnavailable as error:
            complaints.append(str(error))
    raise AssertionError(f"still unavailable: {complaints[-1]}")


async def workload(disk: str, path: Path, fence: Fence, complaints: list[str]) -> None:
    """Eight batches, with the store closed and opened again in between."""
    store = await insist(lambda: open_on(disk, path), complaints)
    for number in range(BATCHES):
        if number == BATCHES // 2:
            await store.close()
            store = await insist(lambda: open_on(disk, path), complaints)
        await insist(
            lambda store=store, number=number: store.append(R1, batch(number), fence=fence),  # type: ignore[misc]
            complaints,
        )
    await store.close()


async def batches_in(path: Path) -> list[int]:
    """Which batches there are; fails unless every one is whole and the file is sound."""
    store = await SqliteStore.open(path)
    steps = [str(record.step_id) for record in await store.read(R1, after=2)]
    found = [int(step.partition("/")[0]) for step in steps[::3]]
    assert steps == [f"{number}/{part}" for number in found for part in range(3)]
    assert await store.problems() == []
    await store.close()
    return found


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_any_write_or_sync_is_told_and_loses_nothing(
    fault: str, prepared: tuple[Path, Fence], tmp_path: Path
) -> None:
    error, advice = FAULTS[fault]
    source, fence = prepared
    told = place = 0
    while True:
        place += 1
        path = tmp_path / f"at{place}" / "podium.db"
        path.parent.mkdir()
        shutil.copy(source, path)
        disk = FailingDisk(f"disk{next(_names)}", error, at=place)
        complaints: list[str] = []
        asyncio.run(workload(disk.vfs_name, path, fence, complaints))
        # Acknowledged by now: all of them, some at the second try.
        assert asyncio.run(batches_in(path)) == list(range(BATCHES)), f"at change {place}"
        assert all(advice in complaint for complaint in complaints)
        told += bool(complaints)
        disk.unregister()
        shutil.rmtree(path.parent)
        if not disk.failed:
            break
    # Faults while the log of writes is taken up need not be told: nothing depends on it yet.
    assert place > 80
    assert told > place / 3


@pytest.mark.parametrize("place", [1, 9, 25])
def test_a_disk_that_stays_full_refuses_every_append_until_there_is_room(
    place: int, prepared: tuple[Path, Fence], tmp_path: Path
) -> None:
    path = tmp_path / "podium.db"
    shutil.copy(prepared[0], path)
    disk = FailingDisk(f"disk{next(_names)}", FAULTS["disk full"][0], at=-1, for_good=True)

    async def scenario() -> None:
        store = await open_on(disk.vfs_name, path)
        disk.fail_from(disk.changes + place)
        acknowledged: list[int] = []
        told: list[str] = []
        for number in range(BATCHES):
            try:
                await store.append(R1, batch(number), fence=prepared[1])
            except StoreUnavailable as error:
                told.append(str(error))
            else:
                acknowledged.append(number)
        assert len(acknowledged) < BATCHES
        assert all("free some space" in text for text in told)
        # Whoever only reads goes on, and sees everything that was acknowledged.
        seen = {str(record.step_id).partition("/")[0] for record in await store.read(R1, after=2)}
        assert {str(number) for number in acknowledged} <= seen
        disk.repair()
        await asyncio.gather(
            *(store.append(R1, batch(number), fence=prepared[1]) for number in range(BATCHES))
        )
        await store.close()

    asyncio.run(scenario())
    assert sorted(asyncio.run(batches_in(path))) == list(range(BATCHES))
    disk.unregister()


def test_a_store_that_could_not_be_made_can_be_made_later(tmp_path: Path) -> None:
    for place in count(1):
        path = tmp_path / f"at{place}" / "podium.db"
        disk = FailingDisk(f"disk{next(_names)}", FAULTS["I/O error"][0], at=place)
        complaints: list[str] = []

        async def scenario(
            path: Path = path, name: str = disk.vfs_name, told: list[str] = complaints
        ) -> None:
            store = await insist(lambda: SqliteStore.open(path, vfs=name), told)
            await store.close()
            sound = await SqliteStore.open(path)
            await started(sound)
            assert await sound.problems() == []
            await sound.close()

        asyncio.run(scenario())
        disk.unregister()
        if not disk.failed:
            break
        assert complaints or place > 1


# --- power ----------------------------------------------------------------------------------------


def lost_to_power_cuts(prepared: tuple[Path, Fence], folder: Path, synchronous: str) -> int:
    """Cut the power after every acknowledgement; how many acknowledged batches were missing in all."""
    chance = random.Random(7)
    disk = PowerlessDisk(f"disk{next(_names)}")
    path = folder / "podium.db"
    folder.mkdir()
    shutil.copy(prepared[0], path)
    lost = 0

    async def scenario() -> None:
        nonlocal lost
        store = await open_on(disk.vfs_name, path, synchronous)
        for number in range(3 * BATCHES):
            await store.append(R1, batch(number), fence=prepared[1])
            for attempt in range(3):
                after_the_cut = folder / f"cut{number}.{attempt}"
                after_the_cut.mkdir()
                disk.cut(after_the_cut, chance)
                found = await batches_in(after_the_cut / "podium.db")
                lost += len(set(range(number + 1)) - set(found))
                shutil.rmtree(after_the_cut)
        await store.close()

    asyncio.run(scenario())
    disk.unregister()
    return lost


@pytest.mark.rule("OP10")
def test_no_acknowledged_event_is_lost_when_the_power_goes(
    prepared: tuple[Path, Fence], tmp_path: Path
) -> None:
    assert lost_to_power_cuts(prepared, tmp_path / "full", "FULL") == 0


@pytest.mark.parametrize("level", ["NORMAL", "OFF"])
def test_less_than_full_would_lose_some(level: str, prepared: tuple[Path, Fence], tmp_path: Path) -> None:
    """The same cuts, so that we know that they would be noticed. Without any sync the file itself may break."""
    try:
        lost = lost_to_power_cuts(prepared, tmp_path / level, level)
    except (AssertionError, StoreUnavailable):
        if level == "NORMAL":
            raise
    else:
        assert lost > 0
