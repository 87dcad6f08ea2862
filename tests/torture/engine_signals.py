"""Pauses, cancellations and answers to runs on a real Temporal or Conductor server, many of each, and their times.

    python -m tests.torture.engine_signals [--engine conductor] [--pauses 100] [--cancels 50] [--answers 1000]

- After a pause no step starts later than 1 s (99 of 100), on Conductor none at all once it is recorded, which takes at
  most 1 s; the steps that run finish.
- The processes of a cancelled run are gone within 2 s, and then it is recorded as cancelled.
- No answer is lost or used twice, although one worker loses every nudge and the other one every tenth.
- One run continues within 0.15 s after an answer (95 of 100).

The limits are for a machine that is not overloaded: the load is printed with the figures.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from podium.log.events import EventRecord
from podium.log.ids import DEFAULT_TENANT, RunId
from podium.operations.signals import signal_run
from podium.ports.store import Store
from podium.wiring.stores import open_store
from podium.wiring.use_cases import use_case_parts
from services import conductor, temporal
from services.conductor import ConductorServer
from services.temporal import TemporalServer
from tests.conductor.site import Site as ConductorSite
from tests.engines.delays import (
    answer_delays,
    next_start_delays,
    pause_delays,
    processes_of,
    recording_delays,
    seconds_of,
    started_while_paused,
    unanswered,
)
from tests.engines.marks import Marks
from tests.engines.site import PATIENCE, Process, Site
from tests.temporal.site import Site as TemporalSite
from tests.torture.figures import distribution, load, percentile

_PAUSED_RUNS = 2
# A run may be sent 60 signals a minute.
_PAUSED_SECONDS = (1.9, 2.3)
_CANCELLED_AT_ONCE = 5
_ASKED_RUNS = 10
_ANSWERS_OF_ONE_RUN = 60
_NEXT_START_SECONDS = 0.15
# A step of a run may be answered 60 times a minute.
_ANSWER_SECONDS = 1.1
_LOOP = """
max_transitions: 1000000
steps:
  - name: L
    for_each:
      items: %s
      steps:
        - {name: A, command: [mark, "0.05"]}
        - name: P
          parallel: [{name: B, command: [mark, "0.2"]}, {name: C, command: [mark, "0.1"]}]
"""
_CHILDREN = """
steps: [{name: A, command: [sh, -c, "%s sleep 1000 & sleep 1000 & mark 1000"]}]
"""
_QUESTIONS = """version: "2.0"
name: asked
steps:
  - name: L
    for_each: {items: %s, steps: [{name: Q, approval: {message: "May it?"}}]}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=["temporal", "conductor"], default="temporal")
    parser.add_argument("--pauses", type=int, default=100)
    parser.add_argument("--cancels", type=int, default=50)
    parser.add_argument("--answers", type=int, default=1000)
    given = parser.parse_args()
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as folder, _server(given.engine) as server:
        for check, number in (
            (pause_often, given.pauses),
            (cancel_often, given.cancels),
            (answer_often, given.answers),
            (answer_one_run, min(given.answers, _ANSWERS_OF_ONE_RUN)),
        ):
            site = _site(Path(folder) / check.__name__, server)
            try:
                problems += asyncio.run(check(site, number)) if number else []
            finally:
                site.close()
    print("\n".join(problems) or "no problem")
    return 1 if problems else 0


def _server(engine: str) -> TemporalServer | ConductorServer:
    return conductor.start() if engine == "conductor" else temporal.start(durable=True)


def _site(folder: Path, server: TemporalServer | ConductorServer) -> Site:
    if isinstance(server, ConductorServer):
        return ConductorSite(folder, server)
    return TemporalSite(folder, server)


class Signaller:
    """Sends signals to the runs of a site, and reads their logs."""

    def __init__(self, site: Site, store: Store) -> None:
        self.store = store
        self._parts = use_case_parts(store, site.runs, print)

    async def send(self, run_id: str, signal_type: str, **payload: Any) -> None:
        await signal_run(self._parts, DEFAULT_TENANT, run_id, signal_type, **payload)

    async def log(self, run_id: str, after: int = 0) -> list[EventRecord]:
        return await self.store.read(RunId(run_id), after=after, limit=1_000_000)

    async def wait_for(self, run_id: str, event: str, step: str | None = None, after: int = 0) -> int:
        """Until it is in the log behind a record; returns its number."""
        end = time.monotonic() + 2 * PATIENCE
        while time.monotonic() < end:
            for record in await self.log(run_id, after):
                if record.event_type == event and (step is None or record.step_id == step):
                    return record.run_seq
            await asyncio.sleep(0.05)
        raise AssertionError(f"waited too long for {event} {step or ''} of {run_id}")


# --- pauses ---------------------------------------------------------------------------------------


async def pause_often(site: Site, pauses: int) -> list[str]:
    site.start_worker()
    each = -(-pauses // _PAUSED_RUNS)
    store = await open_store(site.store)
    delays: list[float] = []
    recorded: list[float] = []
    problems: list[str] = []
    try:
        signaller = Signaller(site, store)
        results = await asyncio.gather(
            *(_pause_run(site, signaller, f"paused-{number}", each) for number in range(_PAUSED_RUNS))
        )
        for log, wrong in results:
            delays += pause_delays(log)
            recorded += recording_delays(log)
            problems += wrong + (started_while_paused(log) if isinstance(site, ConductorSite) else [])
    finally:
        await store.close()
    print(distribution("from a pause to the last start of a step", delays) + f"; {load()}", flush=True)
    if percentile(delays, 0.99) > 1:
        problems.append(f"a step started {percentile(delays, 0.99):.2f} s after a pause (p99)")
    print(distribution("from a pause to RunPaused", recorded), flush=True)
    if isinstance(site, ConductorSite) and percentile(recorded, 0.99) > 1:
        problems.append(f"RunPaused was recorded {percentile(recorded, 0.99):.2f} s after a pause (p99)")
    return problems


async def _pause_run(
    site: Site, signaller: Signaller, run_id: str, pauses: int
) -> tuple[Sequence[EventRecord], list[str]]:
    chance, seen = random.Random(run_id), 0
    marks = Marks(site.folder, run_id)
    process = site.begin(marks.header + _LOOP % list(range(100_000)), run_id)
    await _begun(site, run_id, process)
    for _ in range(pauses):
        seen = await signaller.wait_for(run_id, "StepStarted", after=seen)
        await asyncio.sleep(chance.uniform(0, 0.5))
        await signaller.send(run_id, "PAUSE")
        seen = await signaller.wait_for(run_id, "RunPaused", after=seen)
        await asyncio.sleep(chance.uniform(*_PAUSED_SECONDS))
        await signaller.send(run_id, "RESUME")
        seen = await signaller.wait_for(run_id, "RunResumed", after=seen)
    await signaller.send(run_id, "PAUSE")
    await signaller.wait_for(run_id, "RunPaused", after=seen)
    await asyncio.sleep(2)
    log = await signaller.log(run_id)
    ends = marks.count("begin"), marks.count("end")
    await signaller.send(run_id, "CANCEL")
    await asyncio.to_thread(process.wait, 2 * PATIENCE)
    problems = marks.problems(log)
    if ends[0] != ends[1]:
        problems.append(f"{run_id}: {ends[0]} steps started and {ends[1]} finished")
    return log, problems


async def _begun(site: Site, run_id: str, process: Process) -> None:
    end = time.monotonic() + 2 * PATIENCE
    while "RunStarted" not in await asyncio.to_thread(site.events_of, run_id):
        assert process.is_alive, process.output
        assert time.monotonic() < end, "the run does not start"
        await asyncio.sleep(0.2)


# --- cancellations --------------------------------------------------------------------------------


async def cancel_often(site: Site, cancels: int) -> list[str]:
    site.start_worker()
    store = await open_store(site.store, create=True)
    problems: list[str] = []
    gone: dict[bool, list[float]] = {False: [], True: []}
    recorded: list[float] = []
    try:
        signaller = Signaller(site, store)
        for start in range(0, cancels, _CANCELLED_AT_ONCE):
            numbers = range(start, min(start + _CANCELLED_AT_ONCE, cancels))
            begun = {number: _begin_children(site, number) for number in numbers}
            for number, (marks, process) in begun.items():
                force = number % 2 == 1
                await _until_begun(marks)
                seen, seconds, end = await _cancel(site, signaller, f"cancelled-{number}", force=force)
                gone[force].append(seconds)
                recorded.append(end)
                if end < seen:
                    problems.append(f"cancelled-{number} was recorded before its processes were gone")
                await asyncio.to_thread(process.wait, PATIENCE)
    finally:
        await store.close()
    print(distribution("from a cancel to the end of the last process", gone[False]))
    print(distribution("from a forced stop to the end of processes that ignore SIGTERM", gone[True]))
    print(distribution("from either to RunCancelled", recorded) + f"; {load()}", flush=True)
    late = [seconds for seconds in gone[False] + gone[True] if seconds > 2]
    if late:
        problems.append(f"{len(late)} of {cancels} cancelled runs had processes for more than 2 s: {late}")
    return problems


def _begin_children(site: Site, number: int) -> tuple[Marks, Process]:
    """With every second one's processes ignoring SIGTERM."""
    run_id = f"cancelled-{number}"
    marks = Marks(site.folder, run_id)
    ignoring = "trap '' TERM;" if number % 2 == 1 else ""
    return marks, site.begin(marks.header + _CHILDREN % ignoring, run_id)


async def _until_begun(marks: Marks) -> None:
    end = time.monotonic() + 2 * PATIENCE
    while not marks.count("begin"):
        assert time.monotonic() < end, "the step does not begin"
        await asyncio.sleep(0.05)


async def _cancel(
    site: Site, signaller: Signaller, run_id: str, *, force: bool
) -> tuple[float, float, float]:
    """Seconds from the signal to the last moment with processes, the first without any, and to RunCancelled."""
    if force:
        await signaller.send(run_id, "EMERGENCY_STOP", reason="fire", forceKill=True)
    else:
        await signaller.send(run_id, "CANCEL")
    end = time.monotonic() + PATIENCE
    # On a busy machine it takes a while to look at all processes.
    seen, looked = 0.0, time.time()
    while await asyncio.to_thread(processes_of, site.runs / run_id):
        assert time.monotonic() < end, f"{run_id} has processes"
        seen, looked = looked, time.time()
    gone = time.time()
    await signaller.wait_for(run_id, "RunCancelled")
    log = await signaller.log(run_id)
    asked = seconds_of(next(one for one in log if one.event_type == "SignalAccepted"))
    return seen - asked, gone - asked, seconds_of(log[-1]) - asked


# --- answers --------------------------------------------------------------------------------------


async def answer_often(site: Site, answers: int) -> list[str]:
    problems, _ = await _answered(site, answers, _ASKED_RUNS, ("lose 1", "lose 10"))
    return problems


async def answer_one_run(site: Site, answers: int) -> list[str]:
    """How soon one run continues on a machine that has little else to do."""
    problems, starts = await _answered(site, answers, 1, ("",))
    if percentile(starts, 0.95) > _NEXT_START_SECONDS:
        problems.append(f"the next step started {percentile(starts, 0.95):.2f} s after an answer (p95)")
    return problems


async def _answered(
    site: Site, answers: int, runs: int, faults: Sequence[str]
) -> tuple[list[str], list[float]]:
    """What is wrong, and the seconds from each answer to the start of the next step."""
    workers = [site.start_worker(fault=fault) for fault in faults]
    each = -(-answers // runs)
    ids = [f"asked-{number}" for number in range(runs)]
    processes = [site.begin(_QUESTIONS % list(range(each)), run_id) for run_id in ids]
    store = await open_store(site.store)
    try:
        signaller = Signaller(site, store)
        for run_id, process in zip(ids, processes, strict=True):
            await _begun(site, run_id, process)
        await asyncio.gather(*(_answer(signaller, run_id, each) for run_id in ids))
        codes = await asyncio.gather(*(asyncio.to_thread(one.wait, 2 * PATIENCE) for one in processes))
        logs = [await signaller.log(run_id) for run_id in ids]
        left = await store.due("2999-01-01T00:00:00.000000Z", limit=100)
    finally:
        await store.close()
    lost = [worker.output.count("lost a nudge") for worker in workers]
    problems = _judge(logs, codes, [one.key for one in left], lost, each * len(ids))
    return problems, [delay for log in logs for delay in next_start_delays(log)]


async def _answer(signaller: Signaller, run_id: str, questions: int) -> None:
    seen = 0
    for item in range(questions):
        question = f"L[{item}]/Q"
        pace = asyncio.create_task(asyncio.sleep(_ANSWER_SECONDS))
        seen = await signaller.wait_for(run_id, "StepStarted", question, after=seen)
        await signaller.send(run_id, "APPROVE", stepId=question)
        await pace


def _judge(
    logs: Sequence[Sequence[EventRecord]],
    codes: Sequence[int],
    left: Sequence[str],
    lost: Sequence[int],
    answers: int,
) -> list[str]:
    delays = [delay for log in logs for delay in answer_delays(log)]
    print(distribution("from an answer to the end of its step", delays) + f"; {load()}")
    starts = [delay for log in logs for delay in next_start_delays(log)]
    print(distribution("from an answer to the start of the next step", starts))
    print(f"nudges lost by each worker: {', '.join(map(str, lost))}", flush=True)
    problems = [problem for log in logs for problem in unanswered(log)]
    if len(delays) != answers:
        problems.append(f"{answers} answers were to be sent, {len(delays)} were used")
    if any(codes):
        problems.append(f"runs ended with {codes}")
    if left:
        problems.append(f"wake-ups are left: {left}")
    return problems


if __name__ == "__main__":
    sys.exit(main())
