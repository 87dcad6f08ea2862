"""A worker against the bare run host, and what a saturated worker costs those who ask the server."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from bench.report import Report, milliseconds
from bench.server_site import Client, Site, free_port, loop_lag_p99, make_tokens, queue_runs
from podium.operations.parts import Parts
from podium.wiring.engines import run_host
from podium.wiring.stores import open_store
from podium.wiring.use_cases import use_case_parts

_RUNS: Final = 600
_ROUNDS: Final = 3
# More than the worker can drive while answers are measured.
_SATURATING: Final = 16_000
_ASKED: Final = 500
_PAUSE: Final = 0.01


def run(report: Report) -> None:
    report.section(f"{_RUNS} queued runs of three steps: a worker against the bare run host")
    rates = [(_rate(_by_worker), _rate(_by_host)) for _ in range(_ROUNDS)]
    report.figure("runs/s of the worker", f"{statistics.median(one for one, _ in rates):.0f}")
    report.figure("runs/s of the bare run host", f"{statistics.median(one for _, one in rates):.0f}")
    ratio = statistics.median(worker / host for worker, host in rates)
    report.goal("worker / bare run host", ratio, at_least=0.8)
    report.section("Answers while a worker is saturated, and the lag of event loops: p99")
    with tempfile.TemporaryDirectory(prefix="podium-bench-") as folder:
        asyncio.run(_saturate(report, Site(Path(folder))))


def _rate(work: Callable[[Site], Coroutine[Any, Any, float]]) -> float:
    with tempfile.TemporaryDirectory(prefix="podium-bench-") as folder:
        return asyncio.run(work(Site(Path(folder))))


async def _opened(site: Site) -> Parts:
    store = await open_store(str(site.folder / "podium.db"), create=True)
    return use_case_parts(store, site.folder / "runs", lambda _text: None)


async def _by_worker(site: Site) -> float:
    parts = await _opened(site)
    await queue_runs(parts, site.folder, 20, "warm")
    with site.process("podium", "worker", "--drain", "0"):
        await _until_done(parts)
        # Measured from the moment at which they are all there: it is a worker that has run before.
        rate = await _timed(parts, site)
    await parts.store.close()
    return rate


async def _by_host(site: Site) -> float:
    parts = await _opened(site)
    await queue_runs(parts, site.folder, 20, "warm")
    stop = asyncio.Event()
    host = run_host(parts.store, site.folder / "runs", pool="default")
    serving = asyncio.create_task(host.serve(stop, drain=0))
    await _until_done(parts)
    rate = await _timed(parts, site)
    stop.set()
    await serving
    await parts.store.close()
    return rate


async def _timed(parts: Parts, site: Site) -> float:
    started = time.perf_counter()
    await queue_runs(parts, site.folder, _RUNS, "timed")
    await _until_done(parts)
    return _RUNS / (time.perf_counter() - started)


async def _until_done(parts: Parts) -> None:
    while (await parts.store.stats()).open_runs:
        await asyncio.sleep(0.02)


async def _saturate(report: Report, site: Site) -> None:
    parts = await _opened(site)
    tokens = await make_tokens(parts)
    await queue_runs(parts, site.folder, 1, "seen")
    with site.server() as (_, port):
        client = Client(port, tokens)
        idle = await asyncio.to_thread(_p99, client)
        metrics = free_port()
        await queue_runs(parts, site.folder, _SATURATING, "load")
        with site.process("podium", "worker", "--drain", "0", "--metrics", str(metrics)):
            # A new one: the server closes connections that were not used while the runs were queued.
            client = Client(port, tokens)
            busy = await asyncio.to_thread(_p99, client)
            left = (await parts.store.stats()).open_runs
            if not left:
                raise RuntimeError("the worker was idle before answers had been measured; queue more runs")
            worker_metrics = (await asyncio.to_thread(Client(metrics, tokens).get, "/metrics")).decode()
            server_metrics = (await asyncio.to_thread(client.get, "/api/v1/metrics")).decode()
    await parts.store.close()
    report.figure("answers on an idle machine", milliseconds(idle))
    report.figure("runs left when it was measured", str(left))
    report.goal("answers beside a saturated worker", busy / idle, at_most=2)
    for name, text in (("server", server_metrics), ("worker", worker_metrics)):
        report.goal(f"lag of the loop of the {name}", loop_lag_p99(text) * 1000, at_most=10, unit="ms")


def _p99(client: Client) -> float:
    taken = []
    for _ in range(_ASKED):
        started = time.perf_counter()
        client.get("/api/v1/runs/seen-0")
        taken.append(time.perf_counter() - started)
        time.sleep(_PAUSE)
    return sorted(taken)[int(len(taken) * 0.99) - 1]
