"""Exactly once: runs are submitted one to three times each, while worker processes are killed.

Afterwards there are as many runs as distinct requests, every one has completed, and no event of a run is there twice.

    python -m tests.torture.fleet --runs 20000 --workers 3 --store postgres
"""

import argparse
import asyncio
import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from podium.api import Workflow
from podium.log.runs import RunQuery
from podium.log.transitions import TERMINAL
from podium.operations.explaining import explain_run
from podium.operations.parts import Parts
from podium.operations.submitting import Outcome, submit_run
from podium.ports.engine import RunRequest
from podium.wiring.stores import open_store
from podium.wiring.use_cases import use_case_parts

WORKFLOW: Final = """\
version: 2.0
name: counted
steps:
  - name: first
    set: {one: 1}
  - name: second
    shell: "true"
  - name: third
    set: {two: 2}
"""
TENANTS: Final = ("acme", "other")
_ONCE: Final = ("RunQueued", "RunStarted", "RunCompleted")
_STEPS: Final = ("first", "second", "third")


class Settings(msgspec.Struct):
    runs: int = 20_000
    workers: int = 3
    seed: int = 0
    # Seconds between two kills.
    kill_every: float = 5.0
    max_kills: int = 100_000
    # Seconds without progress after which it has failed.
    patience: float = 120.0
    lease: float = 3.0


class Workers:
    """Processes that are killed and started again."""

    def __init__(self, folder: Path, url: str, settings: Settings) -> None:
        self._environment = {
            **os.environ,
            "PODIUM_STORE": url,
            "PODIUM_RUNS": str(folder / "runs"),
            "PODIUM_LEASE": f"{settings.lease:g}",
        }
        self._processes = [self._start() for _ in range(settings.workers)]
        self.kills = 0

    def _start(self) -> "subprocess.Popen[bytes]":
        tenants = itertools.chain.from_iterable(("--tenant", one) for one in TENANTS)
        command = [sys.executable, "-m", "podium", "worker", "--slots", "16", "--drain", "0", *tenants]
        return subprocess.Popen(
            command, env=self._environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def kill_one(self, random: Random) -> None:
        place = random.randrange(len(self._processes))
        self._processes[place].send_signal(signal.SIGKILL)
        self._processes[place].wait()
        self._processes[place] = self._start()
        self.kills += 1

    def stop(self) -> None:
        for one in self._processes:
            one.kill()
            one.wait()


async def torture(url: str, folder: Path, settings: Settings) -> list[str]:
    """What is wrong; nothing if all went well."""
    store = await open_store(url, create=True)
    parts = use_case_parts(store, folder / "runs", lambda _text: None)
    random = Random(settings.seed)
    workers = Workers(folder, url, settings)
    try:
        killing = asyncio.create_task(_kill(workers, random, settings))
        await _submit_all(parts, folder, settings, random)
        stuck = await _wait(parts, settings)
        killing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await killing
        print(f"{settings.runs:,} requests, {workers.kills} workers killed")
        return stuck or await _problems(parts, settings)
    finally:
        workers.stop()
        await store.close()


async def _kill(workers: Workers, random: Random, settings: Settings) -> None:
    for _ in range(settings.max_kills):
        await asyncio.sleep(settings.kill_every)
        await asyncio.to_thread(workers.kill_one, random)


async def _submit_all(parts: Parts, folder: Path, settings: Settings, random: Random) -> None:
    plan = Workflow.parse(WORKFLOW).plan
    for number in range(settings.runs):
        tenant = TENANTS[number % len(TENANTS)]
        request = RunRequest(plan, run_request_id=f"q{number}", tenant_id=tenant, workspace=folder, inputs={})
        times = random.randint(1, 3)
        found = await asyncio.gather(*(submit_run(parts, request) for _ in range(times)))
        outcomes = Counter(one.outcome is Outcome.DUPLICATE for one in found)
        assert outcomes == Counter({False: 1, True: times - 1}) - Counter(), outcomes


async def _wait(parts: Parts, settings: Settings) -> list[str]:
    open_before, changed = -1, time.monotonic()
    while (open_now := (await parts.store.stats()).open_runs) > 0:
        if open_now != open_before:
            open_before, changed = open_now, time.monotonic()
        if time.monotonic() - changed > settings.patience:
            return [f"{open_now} runs are stuck", *await _reasons(parts)]
        await asyncio.sleep(0.2)
    return []


async def _reasons(parts: Parts) -> list[str]:
    found = []
    for tenant in TENANTS:
        page = await parts.store.runs.page(tenant, RunQuery(limit=500))
        for run in [one for one in page.runs if one.status not in TERMINAL][:5]:
            run_id = run.identity.run_id
            plan = await parts.plan_of(run)
            why = await explain_run(parts.store, run, plan, parts.clock.now())
            found.append(f"{run_id}: {why}")
    return found


async def _problems(parts: Parts, settings: Settings) -> list[str]:
    found: list[str] = []
    seen = 0
    for tenant in TENANTS:
        cursor: str | None = None
        while True:
            page = await parts.store.runs.page(tenant, RunQuery(limit=500, cursor=cursor))
            seen += len(page.runs)
            for run in page.runs:
                records = await parts.store.read(run.identity.run_id)
                counted = Counter((one.event_type, one.step_id) for one in records)
                wanted = {(one, None) for one in _ONCE} | {("StepCompleted", one) for one in _STEPS}
                wrong = {key: counted[key] for key in wanted if counted[key] != 1}
                if wrong:
                    found.append(f"{run.identity.run_id} ({run.status}): {wrong}")
            cursor = page.cursor
            if cursor is None:
                break
    if seen != settings.runs:
        found.append(f"{seen} runs of {settings.runs} requests")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.fleet", description=__doc__)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kill-every", type=float, default=5.0)
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    given = parser.parse_args()
    settings = Settings(given.runs, given.workers, given.seed, given.kill_every)
    with TemporaryDirectory() as name:
        folder = Path(name)
        if given.store == "sqlite":
            problems = asyncio.run(torture(f"sqlite:{folder / 'podium.db'}", folder, settings))
        else:
            from services import postgres

            with postgres.start() as server:
                problems = asyncio.run(torture(server.url, folder, settings))
    for one in problems[:20]:
        print(one)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
