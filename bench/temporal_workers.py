"""The workers that `bench.temporal` compares, each a process of its own: Podium's, and one that is written by hand.

python -m bench.temporal_workers podium|hand ADDRESS FOLDER
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from podium.engines.local import LEASE, LOCK_WAIT
    from podium.engines.parts import LocalParts
    from podium.engines.temporal.connection import Connection
    from podium.engines.temporal.names import Queues
    from podium.engines.temporal.worker import TemporalWorker
    from podium.runtime.outages import OUTAGE
    from podium.stores.sqlite import SqliteStore
    from podium.wiring.artifacts import payload_store
    from podium.wiring.plans import plan_loader
    from podium.wiring.stores import system_clock

HAND_QUEUE: Final = "hand"
NOTHING: Final = "bench:nothing"
LARGE: Final = "bench:large"
LENGTH: Final = "bench:length"
_LARGE_CHARACTERS: Final = 1_000_000
_READY: Final = "ready"


def functions() -> dict[str, Callable[..., Any]]:
    """What the steps of benchmarks and tests call in the worker's process."""
    return {NOTHING: lambda: None, LARGE: lambda: "x" * _LARGE_CHARACTERS, LENGTH: len_of}


def len_of(text: str) -> int:
    return len(text)


def parts(store: SqliteStore, folder: Path) -> LocalParts:
    return LocalParts(
        store=store,
        clock=system_clock(),
        runs=folder,
        secrets={},
        inline=functions(),
        lease=LEASE,
        lock_wait=LOCK_WAIT,
        outage=OUTAGE,
        artifacts=payload_store,
        providers=None,
        recordings=None,
    )


def queues(folder: Path) -> Queues:
    return Queues.beside_store("bench", "bench", database(folder))


def database(folder: Path) -> Path:
    return folder / "podium.db"


# --- by hand --------------------------------------------------------------------------------------


@activity.defn
async def nothing(_step: str) -> dict[str, Any]:
    """Its result is what a step of Podium records."""
    return {"exitCode": 0, "json": None, "output": "null"}


@workflow.defn
class Hand:
    @workflow.run
    async def run(self, steps: int) -> int:
        for number in range(steps):
            await workflow.execute_activity(
                nothing, f"s{number}", start_to_close_timeout=timedelta(seconds=60)
            )
        return steps


# --- processes ------------------------------------------------------------------------------------


def start(kind: str, address: str, folder: Path) -> "subprocess.Popen[str]":
    """It serves its queue when this returns."""
    command = [sys.executable, "-m", "bench.temporal_workers", kind, address, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    if process.stdout.readline().strip() != _READY:
        raise RuntimeError(f"the worker {kind!r} did not start")
    return process


def processor_of(pid: int) -> float:
    """For how many seconds the processor has worked for a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _say_ready() -> None:
    print(_READY, flush=True)


async def _serve_podium(address: str, folder: Path) -> None:
    store = await SqliteStore.open(database(folder))
    worker = TemporalWorker(
        parts(store, folder),
        Connection(address),
        queues(folder),
        plan_loader().plan_of,
        drain=timedelta(seconds=1),
    )
    await worker.serve(asyncio.Event(), _say_ready)


async def _serve_hand(address: str) -> None:
    client = await Client.connect(address)
    async with Worker(client, task_queue=HAND_QUEUE, workflows=[Hand], activities=[nothing]):
        _say_ready()
        await asyncio.Event().wait()


def main() -> None:
    kind, address, folder = sys.argv[1:]
    asyncio.run(_serve_podium(address, Path(folder)) if kind == "podium" else _serve_hand(address))
    # The SDK at times aborts the process when the interpreter ends.
    os._exit(0)


if __name__ == "__main__":
    main()
