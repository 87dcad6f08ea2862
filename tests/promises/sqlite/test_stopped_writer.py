"""A process that stands still while it has the turn to write: the others are told in time, and go on after it."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from podium.errors import StoreUnavailable
from podium.log.leases import Fence
from podium.stores.sqlite import SqliteStore
from podium.testing.events import event
from podium.testing.store_promises import R1, started
from tests.promises.sqlite import writing

PATIENCE = timedelta(seconds=0.4)


@pytest.mark.parametrize("moment", ["before its transaction", "as it commits"])
def test_while_a_stopped_process_has_the_turn_appends_are_refused_in_time_and_go_on_after_it(
    moment: str, tmp_path: Path
) -> None:
    path = tmp_path / "podium.db"
    fence = asyncio.run(_prepared(path))
    child, pipe = writing.fork(lambda pipe: asyncio.run(_append_and_stop(path, fence, moment, pipe)))

    async def scenario() -> None:
        assert await asyncio.to_thread(os.read, pipe, 5) == b"open\n"
        store = await SqliteStore.open(path, patience=PATIENCE)
        os.kill(child, signal.SIGUSR1)  # now it may take its turn
        await asyncio.to_thread(_wait_until_it_stopped, child)
        writes = [event("r1", "StepStarted", f"ours{number}") for number in range(3)]
        for tries in range(2):
            began = time.monotonic()
            asked = [store.append(R1, [write], fence=fence) for write in writes[: tries * 2 + 1]]
            told = await asyncio.gather(*asked, return_exceptions=True)
            took = time.monotonic() - began
            assert [type(answer) for answer in told] == [StoreUnavailable] * len(asked)
            for answer in told:
                assert "podium.db could not be written for 0.4 seconds, nothing was stored" in str(answer)
                assert f"process {child} holds its write lock and is stopped" in str(answer)
                assert f"`kill -CONT {child}`" in str(answer)
            assert PATIENCE.total_seconds() <= took < 15
        # Whoever only reads does not notice; what the stopped process has not committed is not seen.
        assert [record.step_id for record in await store.read(R1, after=2)] == []

        os.kill(child, signal.SIGCONT)
        assert (await asyncio.to_thread(writing.lines_of, pipe)) == ["stored 3"]
        answers = [(await store.append(R1, [write], fence=fence))[0] for write in writes]
        repeated = [(await store.append(R1, [write], fence=fence))[0] for write in writes]
        # Nothing was stored, as they had been told; and now each is there once.
        assert [answer.duplicate for answer in answers] == [False] * 3
        assert [answer.record for answer in repeated] == [answer.record for answer in answers]
        steps = [str(record.step_id) for record in await store.read(R1, after=2)]
        assert steps[0] == "theirs"
        assert sorted(steps[1:]) == ["ours0", "ours1", "ours2"]
        assert await store.problems() == []
        await store.close()

    with _ended(child):
        asyncio.run(scenario())


@pytest.mark.rule("OP11")
def test_a_process_that_is_stopped_inside_a_transaction_is_named_long_before_patience_ends(
    tmp_path: Path,
) -> None:
    path = tmp_path / "podium.db"
    fence = asyncio.run(_prepared(path))
    child, pipe = writing.fork(lambda pipe: asyncio.run(_append_and_stop(path, fence, "as it commits", pipe)))

    async def scenario() -> None:
        assert await asyncio.to_thread(os.read, pipe, 5) == b"open\n"
        store = await SqliteStore.open(path, patience=timedelta(seconds=3600))
        os.kill(child, signal.SIGUSR1)
        await asyncio.to_thread(_wait_until_it_stopped, child)
        with pytest.raises(StoreUnavailable, match=f"process {child} holds its write lock and is stopped"):
            async with asyncio.timeout(60):
                await store.append(R1, [event("r1", "StepStarted", "ours")], fence=fence)
        os.kill(child, signal.SIGCONT)
        assert (await asyncio.to_thread(writing.lines_of, pipe)) == ["stored 3"]
        await store.close()

    with _ended(child):
        asyncio.run(scenario())


def test_a_store_beside_a_stopped_process_is_opened_and_read(tmp_path: Path) -> None:
    path = tmp_path / "podium.db"
    fence = asyncio.run(_prepared(path))
    child, pipe = writing.fork(
        lambda pipe: asyncio.run(_append_and_stop(path, fence, "before its transaction", pipe))
    )

    async def scenario() -> None:
        assert await asyncio.to_thread(os.read, pipe, 5) == b"open\n"
        os.kill(child, signal.SIGUSR1)
        await asyncio.to_thread(_wait_until_it_stopped, child)
        async with asyncio.timeout(20):
            store = await SqliteStore.open(path, patience=PATIENCE)
        assert await store.read(R1, after=2) == []
        os.kill(child, signal.SIGCONT)
        assert (await asyncio.to_thread(writing.lines_of, pipe)) == ["stored 3"]
        assert [record.step_id for record in await store.read(R1, after=2)] == ["theirs"]
        await store.close()

    with _ended(child):
        asyncio.run(scenario())


def test_a_store_that_has_to_be_migrated_waits_for_a_stopped_process_and_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "podium.db"
    fence = asyncio.run(_prepared(path))
    child, pipe = writing.fork(
        lambda pipe: asyncio.run(_append_and_stop(path, fence, "before its transaction", pipe))
    )
    monkeypatch.setattr(SqliteStore, "_current_version", lambda _database: None)

    async def scenario() -> None:
        assert await asyncio.to_thread(os.read, pipe, 5) == b"open\n"
        os.kill(child, signal.SIGUSR1)
        await asyncio.to_thread(_wait_until_it_stopped, child)
        began = time.monotonic()
        with pytest.raises(StoreUnavailable) as refused:
            async with asyncio.timeout(20):
                await SqliteStore.open(path, patience=PATIENCE)
        assert PATIENCE.total_seconds() <= time.monotonic() - began < 15
        told = str(refused.value)
        assert f"{path} could not be opened for 0.4 seconds, nothing was changed" in told
        assert f"process {child} holds its write lock and is stopped" in told
        # Who waits long enough comes in as soon as it continues.
        opening = asyncio.create_task(SqliteStore.open(path, patience=timedelta(seconds=20)))
        await asyncio.sleep(0.05)
        os.kill(child, signal.SIGCONT)
        store = await opening
        assert (await asyncio.to_thread(writing.lines_of, pipe)) == ["stored 3"]
        await store.close()

    with _ended(child):
        asyncio.run(scenario())


async def _prepared(path: Path) -> Fence:
    store = await SqliteStore.open(path)
    lease = await started(store)
    await store.close()
    return lease.fence


async def _append_and_stop(path: Path, fence: Fence, moment: str, pipe: int) -> None:
    """In a child: append one event, and stand still on the way."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    store = await SqliteStore.open(path)
    os.write(pipe, b"open\n")
    signal.sigwait([signal.SIGUSR1])
    if moment == "before its transaction":
        store._writer._lock.take()
        _stand_still()
        store._writer._lock.release()
    else:
        commits = iter([None, _stand_still])

        def at_commit() -> bool:
            act = next(commits)
            if act is not None:
                act()
            return False

        await store._writer.write(lambda db: db.set_commit_hook(at_commit))
    (answer,) = await store.append(R1, [event("r1", "StepStarted", "theirs")], fence=fence)
    os.write(pipe, f"stored {answer.record.run_seq}\n".encode())


def _stand_still() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _wait_until_it_stopped(child: int) -> None:
    _, status = os.waitpid(child, os.WUNTRACED)
    assert os.WIFSTOPPED(status)


@contextmanager
def _ended(child: int) -> Iterator[None]:
    """Whatever happens, the child does not stay."""
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
