"""Long runs on a Temporal server: what a step costs at the beginning and at the end of a run, and what histories hold.

What is compared is the time of the processor, in the worker and in the server, for the first and for the last thousand
steps: neighbours on the machine are felt in it least. Executions change about every 700 steps.
"""

import asyncio
import tempfile
import time
from bisect import bisect_left
from pathlib import Path
from typing import Final

import msgspec

from bench import temporal_workers as workers
from bench.report import Report, milliseconds
from bench.temporal_histories import defects, histories
from bench.temporal_runs import Podium, plan_of, sequence_of
from bench.temporal_workers import LARGE, LENGTH, NOTHING, processor_of
from podium.engines.temporal.names import workflow_id
from podium.log.ids import RunId
from podium.log.transitions import TERMINAL
from podium.plan.plan import Plan
from services import temporal
from services.missing import ServiceMissing

_STEPS: Final = 5_000
_COMPARED: Final = 1_000
_LOOK_SECONDS: Final = 0.1
_SETTINGS: Final = {"history.workflowIdReuseMinimalInterval": '"0s"'}
# In the plan, 200 kB of it, and nowhere else.
_MARK: Final = "only-in-the-plan-"
_LARGE_STEPS: Final = (
    f"  - {{name: large, python: '{LARGE}'}}\n"
    f"  - {{name: taken, python: {{function: '{LENGTH}', args: {{text: '${{steps.large.json}}'}}}}}}\n"
    f"  - {{name: constant, python: {{function: '{LENGTH}', args: {{text: '{_MARK * 12_000}'}}}}}}\n"
)
_LOOP: Final = (
    "  - name: all\n    for_each: {items: '${inputs.items}', parallel: true, max_workers: 10, "
    f"steps: [{{name: one, python: '{NOTHING}'}}]}}\n"
)


def run(report: Report) -> None:
    sequence = plan_of(f"steps:\n{_LARGE_STEPS}{sequence_of(_STEPS)}")
    loop = plan_of(f"inputs: {{items: {{type: list}}}}\nsteps:\n{_LARGE_STEPS}{_LOOP}")
    cases: list[tuple[str, Plan, dict[str, object]]] = [
        (f"{_STEPS:,} steps, one after the other", sequence, {}),
        (f"for_each over {_STEPS:,} items, 10 at once", loop, {"items": list(range(_STEPS))}),
    ]
    for title, plan, inputs in cases:
        report.section(f"Temporal: {title}")
        try:
            with temporal.start(settings=_SETTINGS) as server, tempfile.TemporaryDirectory() as folder:
                asyncio.run(_measure(report, server, Path(folder), plan, inputs))
        except ServiceMissing as missing:
            report.figure("not measured", str(missing))


class Mark(msgspec.Struct, frozen=True):
    """How far a run was, and what had been spent for it."""

    events: int
    seconds: float
    worker: float
    server: float

    @property
    def processor(self) -> float:
        return self.worker + self.server


async def _measure(
    report: Report, server: temporal.TemporalServer, folder: Path, plan: Plan, inputs: dict[str, object]
) -> None:
    worker = workers.start("podium", server.address, folder)
    podium = await Podium.open(server.address, folder)
    try:
        run_id = await podium.start(plan, inputs)
        marks = await _marks(podium, run_id, worker.pid, server.pid)
        await podium.wait(run_id)
        found = await histories(podium.client, workflow_id(run_id))
    finally:
        worker.kill()
        worker.wait()
        await podium.store.close()
    _report(report, marks)
    report.figure("executions", str(len(found)))
    report.figure("events of the longest history", f"{max(map(len, found)):,}")
    wrong = defects(found, _MARK.encode())
    for one in wrong[:5]:
        report.figure("history", one)
    report.goal("large payloads and parts of the plan", len(wrong), at_most=0, unit="found")


async def _marks(podium: Podium, run_id: RunId, worker: int, server: int) -> list[Mark]:
    marks, began = [], time.perf_counter()
    while True:
        run = await podium.store.get_run(run_id)
        spent = processor_of(worker), processor_of(server)
        marks.append(Mark(run.head, time.perf_counter() - began, *spent))
        if run.status in TERMINAL:
            return marks
        await asyncio.sleep(_LOOK_SECONDS)


def _report(report: Report, marks: list[Mark]) -> None:
    head = marks[-1].events
    compared = head * _COMPARED // _STEPS
    # The start of a run, its large steps and its end are not what a step costs.
    first, last = (
        _between(marks, compared // 5, compared),
        _between(marks, head - compared, head - compared // 5),
    )
    report.figure("seconds", f"{marks[-1].seconds:.1f} s")
    for name, (earlier, later) in (("first", first), ("last", last)):
        steps = (later.events - earlier.events) * _STEPS / head
        report.figure(f"{name} thousand, per step", milliseconds((later.seconds - earlier.seconds) / steps))
        report.figure(f"{name} thousand, worker", milliseconds((later.worker - earlier.worker) / steps))
        report.figure(f"{name} thousand, server", milliseconds((later.server - earlier.server) / steps))
    report.goal("processor, last / first", _cost(*last) / _cost(*first), at_most=1.2)


def _between(marks: list[Mark], start: int, end: int) -> tuple[Mark, Mark]:
    events = [mark.events for mark in marks]
    return marks[bisect_left(events, start)], marks[min(bisect_left(events, end), len(marks) - 1)]


def _cost(earlier: Mark, later: Mark) -> float:
    return (later.processor - earlier.processor) / (later.events - earlier.events)
