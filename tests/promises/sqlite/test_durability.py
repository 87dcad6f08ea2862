"""A commit is made durable after the write lock was released, and before it is acknowledged."""

import asyncio
import errno
import os
import shutil
import signal
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from podium.errors import StoreUnavailable
from podium.log.leases import Fence
from podium.stores.sqlite import SqliteStore
from podium.testing.events import event
from podium.testing.store_promises import R1, started
from tests.promises.sqlite import writing
from tests.promises.sqlite.disks import _Disk

_names = count()


async def prepared(path: Path) -> Fence:
    store = await SqliteStore.open(path)
    lease = await started(store)
    await store.close()
    return lease.fence


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def wait_until_it_stopped(child: int) -> None:
    _, status = os.waitpid(child, os.WUNTRACED)
    assert os.WIFSTOPPED(status)


class StoppingDisk(_Disk):
    """Stops the process as it syncs the database itself: in the middle of a checkpoint."""

    def change(self, path: str, kind: str, offset: int, data: bytes) -> bytes | None:
        if kind == "sync" and not path.endswith("-wal"):
            stop()
        return data


async def append_and_stop(path: Path, fence: Fence, moment: str) -> None:
    """In a child, which stops on its way."""
    if moment == "in a sync":
        store = await SqliteStore.open(path)
        store._writer._wal.fdatasync = lambda _file: stop()
    else:
        disk = StoppingDisk(f"stopping{next(_names)}")
        store = await SqliteStore.open(path, vfs=disk.vfs_name)
        store._writer.checkpoint_pages = 1
    await store.append(R1, [event("r1", "StepStarted", "theirs")], fence=fence)


@pytest.mark.rule("OP11")
@pytest.mark.parametrize("moment", ["in a sync", "in a checkpoint"])
def test_a_process_that_is_stopped_while_it_waits_for_the_disk_keeps_no_other_from_writing(
    moment: str, tmp_path: Path
) -> None:
    path = tmp_path / "podium.db"
    fence = asyncio.run(prepared(path))
    child, pipe = writing.fork(lambda _pipe: asyncio.run(append_and_stop(path, fence, moment)))

    async def scenario() -> None:
        await asyncio.to_thread(wait_until_it_stopped, child)
        store = await SqliteStore.open(path, patience=timedelta(seconds=30))
        for number in range(3):
            await store.append(R1, [event("r1", "StepStarted", f"ours{number}")], fence=fence)
        steps = [str(record.step_id) for record in await store.read(R1, after=2)]
        assert steps == ["theirs", "ours0", "ours1", "ours2"]
        await store.close()

    try:
        asyncio.run(scenario())
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(pipe)


def on_store(path: Path, scenario: "Callable[[SqliteStore, Fence], object]") -> None:
    async def run() -> None:
        fence = await prepared(path)
        store = await SqliteStore.open(path)
        await scenario(store, fence)  # type: ignore[misc]
        await store.close()

    asyncio.run(run())


@pytest.mark.rule("OP10", "G08")
def test_a_repeated_event_is_answered_after_a_sync_too(tmp_path: Path) -> None:
    """The first one may come from another process that has not synced it yet."""

    async def scenario(store: SqliteStore, fence: Fence) -> None:
        other = await SqliteStore.open(store.path)
        write = event("r1", "StepStarted", "A")
        await other.append(R1, [write], fence=fence)
        synced: list[int] = []
        store._writer._wal.fdatasync = synced.append
        (answer,) = await store.append(R1, [write], fence=fence)
        assert answer.duplicate
        assert len(synced) == 1
        await other.close()

    on_store(tmp_path / "podium.db", scenario)


@pytest.mark.rule("OP10", "G17")
@pytest.mark.parametrize(("number", "advice"), [(errno.EIO, "system log"), (errno.ENOSPC, "free some space")])
def test_what_cannot_be_synced_is_unknown_and_written_once_more(
    number: int, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel tells of a failed sync once, and takes what it could not write for written."""
    written: dict[int, bytes] = {}
    pwrite = os.pwrite

    def noting(file: int, content: bytes, offset: int) -> int:
        written[offset] = content
        return pwrite(file, content, offset)

    async def scenario(store: SqliteStore, fence: Fence) -> None:
        writes = [event("r1", "StepStarted", "A")]
        answers = iter([OSError(number, os.strerror(number))])

        def fails_once(file: int) -> None:
            if error := next(answers, None):
                raise error
            os.fdatasync(file)

        await store.append(R1, [event("r1", "StepStarted", "before")], fence=fence)
        store._writer._wal.fdatasync = fails_once
        with pytest.raises(StoreUnavailable, match=f"it is unknown whether this is stored.*{advice}"):
            await store.append(R1, writes, fence=fence)
        log = Path(f"{store.path}-wal").read_bytes()
        monkeypatch.setattr(os, "pwrite", noting)
        (answer,) = await store.append(R1, writes, fence=fence)
        assert answer.duplicate
        assert b"".join(content for _, content in sorted(written.items()))[: len(log)] == log
        written.clear()
        await store.append(R1, [event("r1", "StepStarted", "B")], fence=fence)
        assert not written

    on_store(tmp_path / "podium.db", scenario)


@pytest.mark.rule("OP10")
def test_the_log_that_is_synced_is_the_one_that_is_written(tmp_path: Path) -> None:
    """Also after it was taken up, began again, and was removed and made anew."""

    async def scenario(store: SqliteStore, fence: Fence) -> None:
        synced: list[tuple[int, int]] = []

        def note(file: int) -> None:
            known = Path(f"{store.path}-wal").stat()
            synced.append((os.fstat(file).st_ino, known.st_ino))

        for number in range(40):
            store._writer._wal.fdatasync = note
            store._writer.checkpoint_pages = 5
            await store.append(R1, [event("r1", "StepStarted", f"A{number}")], fence=fence)
            if number % 10 == 9:
                await store._writer.alone(lambda db: db.wal_checkpoint(mode=3))
            if number % 10 == 5:
                store._reader.close()
                store._writer._give_up_connection()
                assert not Path(f"{store.path}-wal").exists()
                store._reader = store._database.connect()
        assert len(synced) >= 40
        assert all(ours == written for ours, written in synced)

    on_store(tmp_path / "podium.db", scenario)
    shutil.rmtree(tmp_path)
