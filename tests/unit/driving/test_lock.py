"""The lock of a run: who holds it, when it is stale, and what a frozen holder finds when it comes back (D32)."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from podium.log.ids import RunId
from podium.log.leases import Fence, Lease
from podium.runtime import lock as lock_module
from podium.runtime.lock import RunLock, RunLocked

LEASE = Lease(
    run_id=RunId("r1"), owner="me", fence=Fence(generation=3), expires_at="2026-01-01T12:00:00.000000Z"
)
_HOLDER = """
import asyncio, sys, time
from pathlib import Path
from podium.runtime import lock as lock_module
from podium.runtime.lock import RunLock
async def nobody():
    return None
lock = RunLock(Path(sys.argv[1]), "r1")
asyncio.run(lock.take(nobody))
print("held", flush=True)
time.sleep(60)
"""


async def nobody() -> Lease | None:
    return None


def take(lock: RunLock, wait: float = 0.0, claim: Any = nobody) -> Lease | None:
    return asyncio.run(lock.take(claim, wait=wait))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".lock"


@pytest.mark.rule("D32", "R081", "R082")
def test_a_live_holder_is_waited_for_and_then_named(path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", _HOLDER, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        path.write_text(json.dumps({"pid": holder.pid, "hostname": "here"}))
        began = time.monotonic()
        with pytest.raises(RunLocked, match=f"process {holder.pid} on here"):
            take(RunLock(path, "r1"), wait=0.3)
        assert time.monotonic() - began >= 0.3
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        take(RunLock(path, "r1"))
    finally:
        holder.kill()
        holder.communicate()


@pytest.mark.rule("D32", "R081")
def test_a_live_holder_is_waited_for_ten_seconds_unless_told_otherwise(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += max(seconds, 0.001)

    holder = RunLock(path, "r1")
    take(holder)
    monkeypatch.setattr("podium.runtime.lock.time.monotonic", lambda: now)
    monkeypatch.setattr("podium.runtime.lock.asyncio.sleep", sleep)
    with pytest.raises(RunLocked):
        asyncio.run(RunLock(path, "r1").take(nobody))
    holder.release()
    assert 10 <= now < 11


@pytest.mark.rule("D32", "OP09", "R080")
@pytest.mark.parametrize(
    "left",
    [
        b"",
        b"garbage",
        b'{"pid": 1, "timestamp": 99999999999',
        b"[1, 2]",
        b'{"pid": 999999999, "hostname": "here", "run_id": "r1"}',
        b'{"pid": 1, "boot_id": "another", "hostname": "here", "lease": {"owner": 3}}',
    ],
    ids=["empty", "garbage", "torn", "no object", "dead", "another boot"],
)
def test_what_a_dead_holder_left_is_taken_over_at_once(path: Path, left: bytes) -> None:
    path.write_bytes(left)
    lock = RunLock(path, "r1")
    take(lock)
    assert lock.lease_before() is None
    lock.record_lease(LEASE)
    told = json.loads(path.read_bytes())
    assert (told["pid"], told["run_id"]) == (os.getpid(), "r1")
    lock.release()
    assert not path.exists()


@pytest.mark.rule("D32")
def test_the_lease_of_a_process_that_is_gone_is_known_to_its_successor(path: Path) -> None:
    first = RunLock(path, "r1")
    take(first)
    first.record_lease(LEASE)
    kept = path.read_bytes()
    first.release()
    path.write_bytes(kept)
    second = RunLock(path, "r1")
    take(second)
    assert second.lease_before() == LEASE
    # Another host's process may live: its lease lapses in its own time.
    elsewhere = {**json.loads(kept), "hostname": "elsewhere"}
    second.release()
    path.write_bytes(msgspec.json.encode(elsewhere))
    third = RunLock(path, "r1")
    take(third)
    assert third.lease_before() is None


@pytest.mark.rule("D32")
def test_who_gets_the_lease_of_a_frozen_holder_has_a_lock_of_its_own(path: Path) -> None:
    frozen = RunLock(path, "r1")
    take(frozen)
    frozen.record_lease(LEASE)

    async def lapsed() -> Lease | None:
        return msgspec.structs.replace(LEASE, owner="successor")

    successor = RunLock(path, "r1")
    got = take(successor, claim=lapsed)
    assert got is not None
    assert got.owner == "successor"
    successor.record_lease(got)
    # The old holder comes back and gives up: what it finds is not its own.
    frozen.release()
    assert json.loads(path.read_bytes())["lease"]["owner"] == "successor"
    with pytest.raises(RunLocked):
        take(RunLock(path, "r1"))
    successor.release()
    assert not path.exists()


@pytest.mark.rule("D32")
def test_a_shorter_story_leaves_nothing_of_a_longer_one(path: Path) -> None:
    path.write_text(json.dumps({"pid": 1, "remark": "x" * 5000}))
    lock = RunLock(path, "r1")
    take(lock)
    lock.record_lease(LEASE)
    assert json.loads(path.read_bytes())["pid"] == os.getpid()


@pytest.mark.rule("D32", "OP09")
def test_a_holder_puts_a_deleted_lock_file_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_module, "_LOOK_SECONDS", 0.01)

    async def scenario() -> None:
        held = RunLock(path, "r1")
        await held.take(nobody)
        held.record_lease(LEASE)
        refreshing = asyncio.create_task(held.refresh())
        path.unlink()
        async with asyncio.timeout(20):
            while not held.is_held():
                await asyncio.sleep(0.01)
        refreshing.cancel()
        assert json.loads(path.read_bytes())["lease"]["owner"] == "me"
        with pytest.raises(RunLocked):
            await RunLock(path, "r1").take(nobody, wait=0)
        held.release()
        assert not path.exists()

    asyncio.run(scenario())


@pytest.mark.rule("D32", "OP09")
def test_a_holder_leaves_the_lock_file_of_its_successor_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_module, "_LOOK_SECONDS", 0.01)

    async def scenario() -> None:
        held, successor = RunLock(path, "r1"), RunLock(path, "r1")
        await held.take(nobody)
        held.record_lease(LEASE)
        path.unlink()
        await successor.take(nobody)
        refreshing = asyncio.create_task(held.refresh())
        await asyncio.sleep(0.1)
        refreshing.cancel()
        assert successor.is_held()
        assert not held.is_held()

    asyncio.run(scenario())
