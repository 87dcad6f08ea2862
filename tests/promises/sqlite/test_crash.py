"""Killed at any moment, a writer has lost nothing that it acknowledged and left nothing half done."""

import asyncio
import os
import random
import select
import signal
import time
from pathlib import Path

from podium.log.ids import RunId
from podium.log.leases import Fence
from podium.stores.sqlite import SqliteStore
from podium.testing.store_promises import started
from tests.promises.sqlite import writing

KILLS = 300
# Writers at work at once, on one file: while one dies the others go on.
AT_ONCE = 3
ROUNDS_PER_CHECK = 10


def test_nothing_acknowledged_is_lost_and_nothing_is_half_written_by_kill_9(tmp_path: Path) -> None:
    chance = random.Random(20260101)
    path = tmp_path / "podium.db"
    fence = asyncio.run(_prepared(path))
    acknowledged: set[str] = set()
    kills = caught_at_work = 0
    deadline = time.monotonic() + 100
    rounds = 0
    while kills < KILLS:
        assert time.monotonic() < deadline, f"only {kills} kills in 100 seconds"
        children = [_writer(path, fence, f"{rounds}.{n}", tasks=1 if n else 4) for n in range(AT_ONCE)]
        if rounds % 4:
            # Once one of them is at work, however busy the machine is.
            select.select([pipe for _, pipe in children], [], [], 30)
            time.sleep(chance.uniform(0, 0.02))
        else:
            # The first moments are those of opening: migrations are checked, the log of writes is recovered.
            time.sleep(chance.uniform(0.001, 0.1))
        chance.shuffle(children)
        for child, _ in children:
            time.sleep(chance.uniform(0, 0.004))
            os.kill(child, signal.SIGKILL)
        for child, pipe in children:
            os.waitpid(child, 0)
            # The last line may be cut: an acknowledgement that nobody got.
            said = writing.lines_of(pipe)
            assert not [line for line in said if line.startswith("!")]
            acknowledged.update(said)
            caught_at_work += bool(said)
            kills += 1
        rounds += 1
        if rounds % ROUNDS_PER_CHECK == 0:
            asyncio.run(_check(path, acknowledged))
    asyncio.run(_check(path, acknowledged))
    # Many were really writing; otherwise this would prove little. The others were caught while opening.
    assert caught_at_work > KILLS / 5
    print(f"{kills} kills, {caught_at_work} of writers at work, {len(acknowledged)} batches acknowledged")


async def _prepared(path: Path) -> Fence:
    store = await SqliteStore.open(path)
    lease = await started(store)
    await store.close()
    return lease.fence


def _writer(path: Path, fence: Fence, name: str, tasks: int) -> tuple[int, int]:
    return writing.fork(
        lambda pipe: asyncio.run(writing.append_batches(path, "r1", fence, name, pipe, tasks=tasks))
    )


async def _check(path: Path, acknowledged: set[str]) -> None:
    store = await SqliteStore.open(path)
    records = await store.read(RunId("r1"), limit=10_000_000)
    assert [record.run_seq for record in records] == list(range(1, len(records) + 1))
    steps = [str(record.step_id) for record in records if record.step_id is not None]
    batches = [step.rpartition("/")[0] for step in steps[::3]]
    # Three by three, in order: each batch is there whole, or not at all.
    assert steps == [f"{batch}/{part}" for batch in batches for part in range(3)]
    assert acknowledged <= set(batches)
    assert await store.problems() == []
    await store.close()
