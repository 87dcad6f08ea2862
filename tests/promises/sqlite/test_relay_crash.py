"""A relay killed with -9 at any moment, publishing from a real file into a real file."""

import asyncio
import os
import random
import signal
import time
from pathlib import Path

from podium.buses.jsonl import JsonLinesBus
from podium.log.ids import RunId
from podium.runtime.alerts import Alerting
from podium.runtime.relay import Relay
from podium.stores.sqlite import SqliteStore
from podium.testing.clock import VirtualClock
from podium.testing.events import event
from podium.testing.store_promises import started
from tests.json_lines import read_lines
from tests.promises.sqlite import writing

KILLS = 15
RUNS, STEPS = 250, 18


def test_a_relay_killed_again_and_again_delivers_everything_and_first_deliveries_in_order(
    tmp_path: Path,
) -> None:
    chance = random.Random(20260101)
    path, published = tmp_path / "podium.db", tmp_path / "events.jsonl"
    asyncio.run(_filled(path))
    at_work = 0
    deadline = time.monotonic() + 100
    for life in range(KILLS):
        before = published.stat().st_size if published.exists() else 0
        child, pipe = writing.fork(lambda pipe, life=life: _deliver(path, published, life, pipe))  # type: ignore[misc]
        assert os.read(pipe, 6) == b"begun\n"
        if life % 3:
            # Once it publishes, however busy the machine is.
            _grows(published, before, child)
        time.sleep(chance.uniform(0.002, 0.03 if life % 3 else 0.08))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert not [line for line in writing.lines_of(pipe) if line.startswith("!")]
        at_work += published.exists() and published.stat().st_size > before
        assert time.monotonic() < deadline
    child, pipe = writing.fork(lambda pipe: _deliver(path, published, KILLS, pipe))
    assert writing.lines_of(pipe) == ["begun", "done"]
    os.waitpid(child, 0)

    first: dict[str, list[int]] = {}
    lines = read_lines(published)
    for line in lines:
        seqs = first.setdefault(str(line["runId"]), [])
        if line["runSeq"] not in seqs:
            seqs.append(int(str(line["runSeq"])))
    assert first == asyncio.run(_log(path))
    # Many were killed while they published; otherwise this would prove little.
    assert at_work > KILLS / 3
    print(f"{KILLS} kills, {at_work} of relays at work; {len(lines) - RUNS * (STEPS + 2)} events came twice")


def _grows(published: Path, before: int, child: int) -> None:
    for _ in range(30_000):
        has_ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        if has_ended or (published.exists() and published.stat().st_size > before):
            return
        time.sleep(0.001)


async def _filled(path: Path) -> None:
    store = await SqliteStore.open(path, clock=VirtualClock())
    await store.add_bus("jsonl")
    for number in range(RUNS):
        name = f"r{number}"
        lease = await started(store, name)
        steps = [event(name, "StepStarted", f"s{step}") for step in range(STEPS)]
        await store.append(RunId(name), steps, fence=lease.fence)
    await store.close()


def _deliver(path: Path, published: Path, life: int, pipe: int) -> None:
    """A relay's process. Its clock is ahead of that of the life before, whose claim has lapsed."""

    async def work() -> None:
        clock = VirtualClock()
        clock.move(31 * life)
        store = await SqliteStore.open(path, clock=clock)
        relay = Relay(store, JsonLinesBus(published), Alerting(store, clock), owner=f"relay{life}")
        os.write(pipe, b"begun\n")
        while await relay.deliver_line():
            pass
        await store.close()
        os.write(pipe, b"done\n")

    asyncio.run(work())


async def _log(path: Path) -> dict[str, list[int]]:
    store = await SqliteStore.open(path, clock=VirtualClock())
    log = {
        f"r{number}": [record.run_seq for record in await store.read(RunId(f"r{number}"))]
        for number in range(RUNS)
    }
    assert await store.outbox_lines() == []
    assert await store.problems() == []
    await store.close()
    return log
