"""How fast workflows run: against floors, against make, and against two peers.

Floors and contestants take turns in one run, and what must hold are ratios; absolute figures are for an idle machine of
this size. The peers (DBOS on SQLite, LangGraph with its SQLite checkpointer) are installed into a venv of their own
under the system's temporary folder; a peer that cannot be installed fails the benchmark.
"""

import asyncio
import os
import queue
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import apsw
import msgspec

from bench.report import Report, microseconds, milliseconds
from podium.engines.local import LocalEngine
from podium.language.workflow import read_workflow
from podium.plan.plan import Plan
from podium.ports.engine import RunRequest
from podium.stores.sqlite import SqliteStore
from podium.wiring.stores import system_clock

_ROUNDS = 5
_STEPS = 300
_TRUES = 200
_PEERS = Path(__file__).parent / "peers"
_PODIUM = str(Path(sys.executable).parent / "podium")
_PEER_PACKAGES = ("dbos", "langgraph", "langgraph-checkpoint-sqlite", "pysqlite3-binary")


def run(report: Report) -> None:
    folder = Path(tempfile.mkdtemp(prefix="podium-bench-"))
    try:
        _sequence(report, folder)
        _many_runs(report, folder)
        _fan_out(report, folder)
        _chained_commands(report, folder)
        _start(report, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# --- sequences ------------------------------------------------------------------------------------


def _plan(text: str) -> Plan:
    plan = read_workflow(f'version: "2.0"\nname: bench\n{text}'.encode(), "bench.yaml").plan
    assert plan is not None
    return plan


def _steps(count: int) -> str:
    return "steps:\n" + "".join(f"  - {{name: s{n}, python: 'bench:nothing'}}\n" for n in range(count))


def _nothing() -> None:
    return None


def _sequence(report: Report, folder: Path) -> None:
    report.section(f"A sequence of {_STEPS} steps that do nothing, inline; per step, median of {_ROUNDS}")
    plan = _plan(_steps(_STEPS))
    python = _peers_python()
    times: dict[str, list[float]] = {"floor": [], "podium": [], "dbos": [], "langgraph": []}
    for number in range(_ROUNDS):
        times["floor"].append(_floor(folder / f"floor{number}.db", _STEPS) / _STEPS)
        times["podium"].append(_drive(plan, folder / f"sequence{number}") / _STEPS)
        for peer in ("dbos", "langgraph"):
            times[peer].append(_peer(python, peer, _STEPS, folder) / _STEPS)
    for name, durations in times.items():
        report.figure(name, microseconds(statistics.median(durations)))
    report.goal("podium / one event and one commit", _ratio(times, "podium", "floor"), at_most=2.5)
    report.goal("dbos / podium", _ratio(times, "dbos", "podium"), at_least=7)
    report.figure("langgraph / podium", f"{_ratio(times, 'langgraph', 'podium'):.2f} x")


def _floor(path: Path, steps: int) -> float:
    """One JSON event and one durable commit for each step, by hand."""
    db = _database(path)
    event = {"type": "StepCompleted", "step": "s1", "attempt": 1, "output": "x" * 100}
    began = time.perf_counter()
    for _ in range(steps):
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO events VALUES (?)", (msgspec.json.encode(event),))
        db.execute("COMMIT")
    took = time.perf_counter() - began
    db.close()
    return took


def _database(path: Path) -> apsw.Connection:
    db = apsw.Connection(str(path))
    db.execute("PRAGMA journal_mode = WAL").fetchall()
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE events (body BLOB)")
    # A write-ahead log of its usual size: growing it is what costs most.
    db.execute("INSERT INTO events VALUES (zeroblob(6000000))")
    return db


def _drive(plan: Plan, folder: Path, inputs: dict[str, Any] | None = None) -> float:
    async def driven() -> float:
        store = await SqliteStore.open(folder / "podium.db")
        engine = LocalEngine(store, system_clock(), folder, inline={"bench:nothing": _nothing})
        run_id = await engine.create(RunRequest(plan, inputs or {}))
        began = time.perf_counter()
        ended = await engine.drive(run_id)
        took = time.perf_counter() - began
        assert ended.exit_code == 0, ended
        await store.close()
        return took

    return asyncio.run(driven())


def _ratio(times: dict[str, list[float]], name: str, other: str) -> float:
    return statistics.median(ours / theirs for ours, theirs in zip(times[name], times[other], strict=True))


# --- peers ----------------------------------------------------------------------------------------


def _peers_python() -> str:
    """An interpreter with the peers, kept between runs of the benchmark."""
    venv = Path(tempfile.gettempdir()) / "podium-bench-peers"
    python = venv / "bin" / "python"
    if not (venv / "made").exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        install = [
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            *_PEER_PACKAGES,
        ]
        subprocess.run(install, check=True)
        (venv / "made").touch()
    return str(python)


def _peer(python: str, name: str, steps: int, folder: Path) -> float:
    place = Path(tempfile.mkdtemp(dir=folder))
    command = [python, str(_PEERS / f"{name}_sequence.py"), str(steps), str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=place)
    if done.returncode:
        raise RuntimeError(f"the peer {name} failed: {done.stderr[-2000:]}")
    return float(done.stdout.strip().splitlines()[-1])


# --- many runs at once ----------------------------------------------------------------------------


def _many_runs(report: Report, folder: Path) -> None:
    report.section("100 runs of 10 steps at once, in one process")
    plan = _plan(_steps(10))
    times: dict[str, list[float]] = {"floor": [], "podium": []}
    for number in range(3):
        times["floor"].append(_group_floor(folder / f"group{number}.db"))
        times["podium"].append(_drive_many(plan, folder / f"many{number}"))
    for name, durations in times.items():
        report.figure(name, milliseconds(statistics.median(durations)))
    report.goal("podium / group commit by hand", _ratio(times, "podium", "floor"), at_most=5)


def _group_floor(path: Path) -> float:
    """100 coroutines, ten appends each, through one writer thread that commits what waits."""
    db = _database(path)
    arriving: queue.SimpleQueue[Any] = queue.SimpleQueue()
    event = {"type": "StepCompleted", "step": "s1", "attempt": 1, "output": "x" * 100}

    def write(loop: asyncio.AbstractEventLoop) -> None:
        while (first := arriving.get()) is not None:
            batch = [first]
            while not arriving.empty():
                batch.append(arriving.get())
            db.execute("BEGIN IMMEDIATE")
            for _ in batch:
                db.execute("INSERT INTO events VALUES (?)", (msgspec.json.encode(event),))
            db.execute("COMMIT")
            loop.call_soon_threadsafe(_answer, batch)

    async def work() -> float:
        loop = asyncio.get_running_loop()
        writer = threading.Thread(target=write, args=(loop,))
        writer.start()

        async def caller() -> None:
            for _ in range(10):
                answer = loop.create_future()
                arriving.put(answer)
                await answer

        began = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(100)))
        took = time.perf_counter() - began
        arriving.put(None)
        await loop.run_in_executor(None, writer.join)
        return took

    took = asyncio.run(work())
    db.close()
    return took


def _drive_many(plan: Plan, folder: Path) -> float:
    async def driven() -> float:
        store = await SqliteStore.open(folder / "podium.db")
        engine = LocalEngine(store, system_clock(), folder, inline={"bench:nothing": _nothing})
        runs = [await engine.create(RunRequest(plan)) for _ in range(100)]
        began = time.perf_counter()
        await asyncio.gather(*(engine.drive(run_id) for run_id in runs))
        took = time.perf_counter() - began
        await store.close()
        return took

    return asyncio.run(driven())


def _answer(batch: list[asyncio.Future[None]]) -> None:
    for answer in batch:
        answer.set_result(None)


# --- fan-out --------------------------------------------------------------------------------------


def _fan_out(report: Report, folder: Path) -> None:
    report.section("Fan-out of 1,000 and join")
    items = "inputs: {items: {type: list}}\nmax_parallel: 1000\nsteps:\n  - name: all\n    for_each:\n"
    body = "      items: ${inputs.items}\n      parallel: true\n      max_workers: 1000\n"
    plan = _plan(items + body + "      steps: [{name: one, python: 'bench:nothing'}]\n")
    took = [_drive(plan, folder / f"fan{number}", {"items": list(range(1000))}) for number in range(3)]
    report.goal("seconds", statistics.median(took), at_most=0.15, unit="s", decides=False)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    report.figure("peak memory of this benchmark", f"{peak:.0f} MB")


# --- commands -------------------------------------------------------------------------------------


def _chained_commands(report: Report, folder: Path) -> None:
    report.section(f"{_TRUES} commands `true`, the one-step run subtracted")
    _write_commands(folder)
    commands: dict[str, list[str]] = {
        "make": ["make", "-s", "-f", "chain.mk"],
        "make, one": ["make", "-s", "-f", "one.mk"],
        "podium": [_PODIUM, "run", "-q", "chain.yaml"],
        "podium, one": [_PODIUM, "run", "-q", "one.yaml"],
        "make -j8": ["make", "-s", "-j8", "-f", "wide.mk"],
        "podium, 8 workers": [_PODIUM, "run", "-q", "wide.yaml"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(_ROUNDS):
        for name, command in commands.items():
            times[name].append(_seconds(command, folder))
    medians = {name: statistics.median(durations) for name, durations in times.items()}
    for name, duration in medians.items():
        report.figure(name, milliseconds(duration))
    chain = (medians["podium"] - medians["podium, one"]) / (medians["make"] - medians["make, one"])
    report.goal("podium / make", chain, at_most=2.1)
    wide = (medians["podium, 8 workers"] - medians["podium, one"]) / (
        medians["make -j8"] - medians["make, one"]
    )
    report.goal("podium with 8 workers / make -j8", wide, at_most=2)


def _write_commands(folder: Path) -> None:
    chain = [f"t{n}: {f't{n - 1}' if n else ''}\n\t@true ;\n" for n in range(_TRUES)]
    (folder / "chain.mk").write_text(f"all: t{_TRUES - 1}\n" + "".join(chain))
    (folder / "one.mk").write_text("all:\n\t@true ;\n")
    wide = [f"t{n}:\n\t@true ;\n" for n in range(_TRUES)]
    (folder / "wide.mk").write_text(f"all: {' '.join(f't{n}' for n in range(_TRUES))}\n" + "".join(wide))
    head = 'version: "2.0"\nname: bench\n'
    steps = [f"  - {{name: t{n}, command: [true]}}\n".replace("[true]", '["true"]') for n in range(_TRUES)]
    (folder / "chain.yaml").write_text(head + "steps:\n" + "".join(steps))
    (folder / "one.yaml").write_text(head + "steps:\n" + steps[0])
    loop = f"steps:\n  - name: all\n    for_each:\n      items: {list(range(_TRUES))}\n      parallel: true\n"
    one = '      max_workers: 8\n      steps: [{name: t, command: ["true"]}]\n'
    (folder / "wide.yaml").write_text(head + loop + one)


def _start(report: Report, folder: Path) -> None:
    report.section(f"Start of `podium run` with one `true`, median of {_ROUNDS * 2}")
    times: dict[str, list[float]] = {"python -c pass": [], "podium run": []}
    for _ in range(_ROUNDS * 2):
        times["python -c pass"].append(_seconds([sys.executable, "-c", "pass"], folder))
        times["podium run"].append(_seconds([_PODIUM, "run", "-q", "one.yaml"], folder))
    for name, durations in times.items():
        report.figure(name, milliseconds(statistics.median(durations)))
    report.goal("podium run / python -c pass", _ratio(times, "podium run", "python -c pass"), at_most=14)


def _seconds(command: list[str], folder: Path) -> float:
    began = time.perf_counter()
    # Compiled files are what a user has; whether this process writes them is its own affair.
    environment = {**os.environ, "PODIUM_RUNS": "runs"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - began
