"""Workflows that are written by hand on a Conductor server, both ways taking turns; the better one counts.

The server starts with an empty folder: its file grows with every execution, and it slows down.
"""

import asyncio
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import httpx2

from bench import conductor_hand as hand
from bench.report import Report, milliseconds
from services import conductor
from services.missing import ServiceMissing

_ROUNDS: Final = 11
# Tasks of a fan-out that the worker carries out concurrently. In a sequence there is one at a time.
_SLOTS: Final = 8


def run(report: Report) -> None:
    report.section(f"Conductor: {hand.STEPS} tasks one after the other, median of {_ROUNDS}")
    try:
        with conductor.start(private=True) as server:
            asyncio.run(_compare(report, server.address))
    except ServiceMissing as missing:
        report.figure("not measured", str(missing))


async def _compare(report: Report, address: str) -> None:
    async with hand.open_client(address) as client:
        with _workers(address, *hand.WAYS, slots=1):
            seconds = await _sequences(client)
        for way, taken in seconds.items():
            report.figure(f"by hand, {way}, per task", milliseconds(statistics.median(taken) / hand.STEPS))
        better = min(seconds, key=lambda way: statistics.median(seconds[way]))
        with _workers(address, better, slots=_SLOTS):
            fan_out = await hand.measure(client, better, fan_out=True)
        report.figure(f"by hand, {better}, {hand.BRANCHES} branches of a dynamic fork", f"{fan_out:.1f} s")


async def _sequences(client: httpx2.AsyncClient) -> dict[str, list[float]]:
    """By way, in seconds."""
    seconds: dict[str, list[float]] = {way: [] for way in hand.WAYS}
    turn = list(hand.WAYS)
    for way in turn:
        await hand.run_sequence(client, way)  # to warm up
    for _ in range(_ROUNDS):
        for way in turn:
            seconds[way].append(await hand.measure(client, way))
        turn.reverse()
    return seconds


@contextmanager
def _workers(address: str, *ways: str, slots: int) -> Iterator[None]:
    started = [hand.start_worker(way, address, slots) for way in ways]
    try:
        yield
    finally:
        for worker in started:
            worker.kill()
            worker.wait()
