"""A worker in a process of its own, to be killed or frozen: `python -m ... FOLDER RUN GENERATION TTL PATHS...`.

`A+B` are carried out at the same time, `A B` one after the other. Prints one line for each attempt: what came of it.
"""

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

from podium.errors import PodiumError
from podium.log.ids import RunId
from podium.log.leases import Fence, Lease
from podium.runtime.attempts import Attempts
from podium.stores.sqlite import SqliteStore
from tests.unit.runtime.working import Worked, local_parts


async def main(folder: Path, run_id: str, generation: int, ttl: float, paths: list[str]) -> None:
    store = await SqliteStore.open(folder / "runs" / "podium.db")
    lease = Lease(run_id=RunId(run_id), owner="engine", fence=Fence(generation), expires_at="")
    worked = Worked(store, local_parts(store, folder), RunId(run_id), lease, folder)
    worker = worked.worker(lease=timedelta(seconds=ttl))
    for together in paths:
        await asyncio.gather(*(_perform(worker, worked, path) for path in together.split("+")))
    await worker.close()
    await store.close()


async def _perform(worker: Attempts, worked: Worked, path: str) -> None:
    try:
        ended = await worker.perform(worked.order(path), worked.lease.fence)
        print(ended.end.event_type if ended.end is not None else "stopped", flush=True)
    except PodiumError as error:
        print(error.code, flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), sys.argv[5:]))
