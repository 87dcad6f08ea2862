"""`podium events --follow` from another process: how soon it shows an event, and what it costs to wait."""

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from bench.report import Report, milliseconds
from podium.log.ids import RunId
from podium.stores.sqlite import SqliteStore
from podium.testing.events import event
from podium.testing.store_promises import started

_EVENTS: Final = 100
_PAUSE: Final = 0.03
_IDLE_SECONDS: Final = 5.0
_RUN: Final = RunId("r1")


def run(report: Report) -> None:
    with tempfile.TemporaryDirectory(prefix="podium-bench-") as folder:
        asyncio.run(_follow(report, Path(folder) / "podium.db"))


async def _follow(report: Report, path: Path) -> None:
    store = await SqliteStore.open(path)
    lease = await started(store, _RUN)
    command = (sys.executable, "-m", "podium", "events", _RUN, "--follow", "--json", "--store", str(path))
    following = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert following.stdout is not None
    for _ in range(2):
        await following.stdout.readline()

    delays = []
    for number in range(_EVENTS):
        await asyncio.sleep(_PAUSE)
        await store.append(_RUN, [event(_RUN, "StepStarted", f"s{number}")], fence=lease.fence)
        stored = time.perf_counter()
        shown = json.loads(await following.stdout.readline())
        delays.append(time.perf_counter() - stored)
        assert shown["stepId"] == f"s{number}"
    delays.sort()

    before, began = _processor_seconds(following.pid), time.perf_counter()
    await asyncio.sleep(_IDLE_SECONDS)
    idle = (_processor_seconds(following.pid) - before) / (time.perf_counter() - began)

    await store.append(_RUN, [event(_RUN, "RunCompleted")], fence=lease.fence)
    await following.communicate()
    await store.close()

    report.section("podium events --follow, from another process")
    report.figure("an event is shown after, median", milliseconds(delays[len(delays) // 2]))
    report.goal("99 of 100 are shown within", delays[-2] * 1000, at_most=250, unit="ms")
    report.goal("processor while nothing happens", idle * 100, at_most=1, unit="%")


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
