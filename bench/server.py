"""The server and its worker, each figure against its floor in the same run.

answers     that read one run, against a constant answer of the same server
POST /runs  against creating the run in the store, and the constant answer
a worker    against the bare run host in this process
latency     of answers while a worker is saturated, against an idle machine; lag of both event loops
streams     memory and processor time for each of 1,000 clients
start       of `podium up` until it answers, against a process that imports the same libraries
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench import server_load, server_start, server_streams
from bench.report import Report, milliseconds
from bench.server_site import FLOW, Client, Site, make_tokens, processor_seconds, publish, queue_runs
from podium.api import Workflow
from podium.operations.parts import Parts
from podium.ports.engine import RunRequest
from podium.wiring.engines import run_host
from podium.wiring.stores import open_store
from podium.wiring.use_cases import use_case_parts

_ROUNDS: Final = 15
_ASKED: Final = 20
_ORDERS: Final = 8
# Who asks, from memory: all that is around every answer, and nothing of a run.
_FLOOR: Final = "/api/v1/me"
_VIEWS: Final = {
    "run": "",
    "its steps": "/steps",
    "its events": "/events?limit=50",
    "its inputs": "/inputs",
    "its spans": "/spans",
    "why": "/why",
    "its picture": "/boxes",
    "its report": "/report",
}


def run(report: Report) -> None:
    with tempfile.TemporaryDirectory(prefix="podium-bench-") as folder:
        asyncio.run(_measure(report, Site(Path(folder))))
    server_load.run(report)
    server_streams.run(report)
    server_start.run(report)


async def _measure(report: Report, site: Site) -> None:
    store = await open_store(str(site.folder / "podium.db"), create=True)
    parts = use_case_parts(store, site.folder / "runs", lambda _text: None)
    try:
        tokens, reference = await make_tokens(parts), await publish(parts)
        await _finish_one(parts, site.folder)
        with site.server() as (pid, port):
            client = Client(port, tokens)
            await asyncio.to_thread(_answers, report, client, pid)
            await _orders(report, parts, client, reference)
    finally:
        await store.close()


async def _finish_one(parts: Parts, folder: Path) -> None:
    """A run to look at, which has ended."""
    await queue_runs(parts, folder, 1, "seen")
    stop = asyncio.Event()
    host = run_host(parts.store, folder / "runs", pool="default")
    serving = asyncio.create_task(host.serve(stop, drain=0))
    while (await parts.store.stats()).open_runs:
        await asyncio.sleep(0.05)
    stop.set()
    await serving


def _answers(report: Report, client: Client, pid: int) -> None:
    report.section("Answers that read one run, compared with a constant answer: processor time of the server")
    paths = {name: f"/api/v1/runs/seen-0{rest}" for name, rest in _VIEWS.items()}
    times = _in_turns({"floor": _FLOOR, **paths}, client, pid)
    floor = statistics.median(times["floor"])
    report.figure("the constant answer", milliseconds(floor))
    for name in paths:
        ratio = statistics.median(one / base for one, base in zip(times[name], times["floor"], strict=True))
        report.goal(name, ratio, at_most=2.5)


def _in_turns(paths: dict[str, str], client: Client, pid: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in paths}
    for path in paths.values():
        client.get(path)  # what is loaded with the first answer belongs to none
    for _ in range(_ROUNDS):
        for name, path in paths.items():
            times[name].append(_each(lambda path=path: client.get(path), _ASKED, pid))  # type: ignore[misc]
    return times


def _each(job: Callable[[], object], count: int, pid: int) -> float:
    before = processor_seconds(pid)
    for _ in range(count):
        job()
    return (processor_seconds(pid) - before) / count


async def _orders(report: Report, parts: Parts, client: Client, reference: str) -> None:
    report.section("POST /runs, compared with creating a run in the store and a constant answer: seconds")
    order = {"plan": reference, "pool": "nowhere"}
    plan, ratios, taken = Workflow.parse(FLOW).plan, [], []
    for number in range(_ROUNDS):
        started = time.perf_counter()
        for index in range(_ORDERS):
            request = RunRequest(plan, run_id=f"direct-{number}-{index}", pool="nowhere")
            await parts.create_in_pool(request)
        created = time.perf_counter() - started
        floor = await asyncio.to_thread(_seconds, lambda: client.get(_FLOOR))

        asked = await asyncio.to_thread(_seconds, lambda: client.post("/api/v1/runs", order))
        ratios.append(asked / (created + floor))
        taken.append(asked / _ORDERS)
    report.figure("POST /runs", milliseconds(statistics.median(taken)))
    report.goal("POST /runs / (create_run + floor)", statistics.median(ratios), at_most=2)


def _seconds(job: Callable[[], object]) -> float:
    started = time.perf_counter()
    for _ in range(_ORDERS):
        job()
    return time.perf_counter() - started
