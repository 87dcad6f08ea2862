"""Memory of a server and its worker while runs are started over HTTP at a steady rate, for an hour.

`python -m bench.server_memory [--minutes N] [--rate N]`. Not part of `python -m bench`, because of its time.
"""

import argparse
import asyncio
import contextlib
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from bench.report import Report
from bench.server_site import Client, Site, make_tokens, publish
from podium.wiring.stores import open_store
from podium.wiring.use_cases import use_case_parts

_SAMPLE_SECONDS: Final = 5.0
_BURST_SECONDS: Final = 0.1
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
# The median of the last third over that of the second one: caches fill up in the first.
_MAX_GROWTH: Final = 1.02


def run(report: Report, *, minutes: float, rate: int) -> None:
    report.section(f"Memory over {minutes:g} minutes of {rate} runs a second")
    with tempfile.TemporaryDirectory(prefix="podium-bench-") as folder:
        asyncio.run(_measure(report, Site(Path(folder)), minutes * 60, rate))


async def _measure(report: Report, site: Site, seconds: float, rate: int) -> None:
    store = await open_store(str(site.folder / "podium.db"), create=True)
    parts = use_case_parts(store, site.folder / "runs", lambda _text: None)
    tokens, reference = await make_tokens(parts), await publish(parts)
    with contextlib.ExitStack() as processes:
        server, port = processes.enter_context(site.server())
        worker, _ = processes.enter_context(site.process("podium", "worker", "--drain", "0"))
        client = Client(port, tokens)
        order = {"plan": reference}
        pids = {"server": server, "worker": worker.pid}
        sizes: dict[str, list[int]] = {name: [] for name in pids}
        began = time.monotonic()
        started, next_sample = 0, began
        while (now := time.monotonic()) - began < seconds:
            for _ in range(int((now - began) * rate) - started):
                client.post("/api/v1/runs", order)
                started += 1
            if now >= next_sample:
                next_sample += _SAMPLE_SECONDS
                for name, pid in pids.items():
                    sizes[name].append(_own_bytes(pid))
            time.sleep(_BURST_SECONDS)
        left = (await store.stats()).open_runs
    await store.close()
    report.figure("runs started a second", f"{started / seconds:.1f}")
    report.figure("open at the end", str(left))
    for name, found in sizes.items():
        third = len(found) // 3
        second, last = statistics.median(found[third : 2 * third]), statistics.median(found[2 * third :])
        report.figure(f"{name}, last third", f"{last / 1e6:.1f} MB")
        report.goal(f"{name}: last third / second third", last / second, at_most=_MAX_GROWTH)


def _own_bytes(pid: int) -> int:
    """Without what it shares with others."""
    resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[1:3]
    return (int(resident) - int(shared)) * _PAGE


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.server_memory", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=int, default=100)
    given = parser.parse_args()
    report = Report()
    report.machine()
    run(report, minutes=given.minutes, rate=given.rate)
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
