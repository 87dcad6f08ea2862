"""Podium on Conductor, taking turns with workflows that are written by hand there; the better way by hand counts.

The server starts with an empty folder: its file grows with every execution, and it slows down.
"""

import asyncio
import statistics
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from bench import conductor_hand as hand
from bench.conductor_workers import Podium, Worker, plan_of, sequence
from bench.report import Report, milliseconds
from podium.log.events import EventType
from podium.log.ids import RunId
from podium.log.times import moment
from podium.plan.plan import Plan
from services import conductor
from services.missing import ServiceMissing

_ROUNDS: Final = 11
_SLOTS: Final = 8
_SLEEPS: Final = 400
_SLEEP_SECONDS: Final = 0.3
_LONG: Final = 1_000
Side: TypeAlias = Callable[[], Awaitable[float]]


def run(report: Report) -> None:
    for measure in (_sequence, _fan_out, _sleeps, _flat):
        try:
            with conductor.start(private=True) as server, _folder() as folder:
                asyncio.run(measure(report, server.address, Path(folder)))
        except ServiceMissing as missing:
            report.section("Conductor")
            report.figure("not measured", str(missing))
            return


def _folder() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="podium-bench-", ignore_cleanup_errors=True)


# --- steps one after the other --------------------------------------------------------------------


async def _sequence(report: Report, address: str, folder: Path) -> None:
    report.section(f"Conductor: {hand.STEPS} steps that do nothing, one after the other, median of {_ROUNDS}")
    here, elsewhere = folder / "here", folder / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    async with hand.open_client(address) as client:
        podium, remote = await Podium.open(address, here), await Podium.open(address, elsewhere)
        workers = [
            Worker(address, here, slots=_SLOTS),
            Worker(address, elsewhere, slots=0),
            Worker(address, elsewhere, slots=_SLOTS, decides=False),
        ]
        plan = sequence(hand.STEPS)
        sides: dict[str, Side] = {f"by hand, {way}": partial(hand.measure, client, way) for way in hand.WAYS}
        sides["podium"] = partial(_seconds, podium, plan)
        sides["podium, handed out"] = partial(_seconds, remote, plan)
        try:
            with _by_hand(address, *hand.WAYS, slots=1):
                found = await _in_turns(sides)
            calls = await _calls_of(podium, workers[0])
        finally:
            for worker in workers:
                worker.stop()
            await podium.close()
            await remote.close()
    for name, seconds in found.items():
        report.figure(f"{name}, per step", milliseconds(statistics.median(seconds) / hand.STEPS))
    best = [min(both) for both in zip(*(found[f"by hand, {way}"] for way in hand.WAYS), strict=True)]
    report.goal("podium / hand", _ratio(found["podium"], best), at_most=0.2)
    report.goal("podium, handed out / hand", _ratio(found["podium, handed out"], best), at_most=2.2)
    report.goal("calls of a run", calls, at_most=40, unit="calls")


async def _in_turns(sides: dict[str, Side]) -> dict[str, list[float]]:
    """By side, in seconds."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for perform in sides.values():
        await perform()  # to warm up
    turn = list(sides.items())
    for _ in range(_ROUNDS):
        for name, perform in turn:
            seconds[name].append(await perform())
        turn.reverse()
    return seconds


def _ratio(ours: list[float], theirs: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


async def _seconds(podium: Podium, plan: Plan) -> float:
    return (await podium.perform(plan))[0]


async def _calls_of(podium: Podium, worker: Worker) -> float:
    """Requests of the worker during a run, without those by which it asks for more work in the same time."""
    await asyncio.sleep(3)
    idle_before = worker.calls
    await asyncio.sleep(2)
    idle_per_second = (worker.calls - idle_before) / 2
    before = worker.calls
    seconds, _ = await podium.perform(sequence(hand.STEPS))
    await asyncio.sleep(0.2)
    return worker.calls - before - idle_per_second * (seconds + 0.2)


# --- many at once ---------------------------------------------------------------------------------


async def _fan_out(report: Report, address: str, folder: Path) -> None:
    report.section(f"Conductor: {hand.BRANCHES} steps at once")
    plan = plan_of(
        f"max_parallel: {hand.BRANCHES}\nsteps:\n  - name: L\n    for_each:\n"
        f"      items: [{', '.join(map(str, range(hand.BRANCHES)))}]\n      as: n\n      parallel: true\n"
        f"      max_workers: {hand.BRANCHES}\n      steps: [{{name: S, python: 'bench:nothing'}}]\n"
    )
    podium, worker = await Podium.open(address, folder), Worker(address, folder, slots=_SLOTS)
    try:
        async with hand.open_client(address) as client:
            await _seconds(podium, sequence(1))
            ours, _ = await podium.perform(plan)
            with _by_hand(address, hand.TASKS, slots=_SLOTS):
                theirs = await hand.measure(client, hand.TASKS, fan_out=True)
    finally:
        worker.stop()
        await podium.close()
    report.figure("podium", f"{ours:.1f} s")
    report.figure("by hand, FORK_JOIN_DYNAMIC", f"{theirs:.1f} s")
    report.goal("podium / hand", ours / theirs, at_most=0.2)


async def _sleeps(report: Report, address: str, folder: Path) -> None:
    report.section(f"Conductor: {_SLEEPS} steps of {_SLEEP_SECONDS} s on two workers of {_SLOTS} slots")
    plan = plan_of(
        f"max_parallel: 100\nsteps:\n  - name: L\n    for_each:\n"
        f"      items: [{', '.join(map(str, range(_SLEEPS)))}]\n      as: n\n      parallel: true\n"
        f"      max_workers: 100\n      steps: [{{name: S, command: [sleep, '{_SLEEP_SECONDS}']}}]\n"
    )
    podium = await Podium.open(address, folder)
    workers = [Worker(address, folder, slots=_SLOTS) for _ in range(2)]
    try:
        await _seconds(podium, sequence(1))
        seconds, _ = await podium.perform(plan)
    finally:
        for worker in workers:
            worker.stop()
        await podium.close()
    possible = _SLEEPS * _SLEEP_SECONDS / (2 * _SLOTS)
    report.figure("podium", f"{seconds:.1f} s")
    report.goal("podium / possible", seconds / possible, at_most=1.5)


# --- a long run -----------------------------------------------------------------------------------


async def _flat(report: Report, address: str, folder: Path) -> None:
    report.section(f"Conductor: a run of {_LONG} steps")
    podium, worker = await Podium.open(address, folder), Worker(address, folder, slots=_SLOTS)
    try:
        await _seconds(podium, sequence(1))
        seconds, run_id = await podium.perform(sequence(_LONG))
        first, last = await _ends_of(podium, run_id)
    finally:
        worker.stop()
        await podium.close()
    report.figure("per step", milliseconds(seconds / _LONG))
    report.goal("last fifth / first fifth", last / first, at_most=1.2)


async def _ends_of(podium: Podium, run_id: RunId) -> tuple[float, float]:
    """Seconds for the first and the last fifth of the steps."""
    records = await podium.store.read(run_id, limit=1_000_000)
    at = [moment(one.persisted_at) for one in records if one.event_type == EventType.STEP_COMPLETED]
    fifth = len(at) // 5
    return (at[fifth] - at[0]).total_seconds(), (at[-1] - at[-1 - fifth]).total_seconds()


@contextmanager
def _by_hand(address: str, *ways: str, slots: int) -> Iterator[None]:
    started = [hand.start_worker(way, address, slots) for way in ways]
    try:
        yield
    finally:
        for worker in started:
            worker.kill()
            worker.wait()
