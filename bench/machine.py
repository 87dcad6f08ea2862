"""The machine alone: how many events a second it folds, and how that grows with the run.

`python -m bench.machine` measures the full cases, `python -m bench` smaller ones. The events are those that a host
would append, recorded once beforehand; what is measured is `advance` with typed commands and nothing else. The floor is
what anybody pays who handles the same events in Python: decode each payload and append it to a list.
"""

import gc
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from bench.measure import processor_seconds
from bench.report import Report, milliseconds
from podium.expressions.types import Data, Reference
from podium.log.events import EventRecord, EventType, RunIdentity
from podium.log.ids import RunId
from podium.log.times import Timestamp
from podium.machine import Machine
from podium.machine.commands import Probe, Record, RunTask, SetTimer
from podium.plan.conditions import Condition
from podium.plan.loading import plan_of
from podium.plan.plan import Block, Command, ForEach, Gate, Parallel, Plan, Step, While, Workflow

_START: Final = "2026-01-01T12:00:00.000000Z"
_IDENTITY: Final = RunIdentity(
    run_id=RunId("r1"), tenant_id="t", project_id="p", environment_id="e", plan_id="plan", plan_version="1"
)
_COMPLETED: Final = msgspec.json.encode({"exitCode": 0, "durationMs": 12, "output": "built\n"})
_ROUNDS: Final = 3


class Case(NamedTuple):
    name: str
    plan: Plan
    inputs: dict[str, Any]


def run(report: Report, size: int = 2_000) -> None:
    """`size`: steps of the sequence and of the graph; loops are five times as long."""
    report.section("The machine alone")
    for case in _cases(size):
        log = list(_recorded(case))
        _speed(report, case, log)
        _growth(report, case, log)
    _memory(report, size * 5)
    _checkpoint(report, size)


# --- cases ----------------------------------------------------------------------------------------


def _cases(size: int) -> Iterator[Case]:
    items = {"items": list(range(size * 5))}
    yield Case(f"sequence of {size:,} steps", _plan(*(_task(f"s{n}") for n in range(size))), {})
    yield Case(f"for_each {size * 5:,}, sequential", _plan(_for_each(_task("a"))), items)
    yield Case(f"for_each {size * 5:,}, 10 workers", _plan(_for_each(_task("a"), workers=10)), items)
    yield Case(f"for_each {size * 5:,} of gates", _plan(_for_each(Step("g", Gate()))), items)
    yield Case(f"while, {size:,} passes with interval", _plan(_while(_task("a"), size)), {})
    yield Case(f"graph of {size:,}, 3 dependencies each", _plan(*_graph(size), discipline="graph"), {})
    fan = [_task("first"), *(_task(f"m{n}", depends_on=("first",)) for n in range(size))]
    last = _task("last", depends_on=tuple(step.step_id for step in fan[1:]))
    yield Case(f"graph 1 -> {size:,} -> 1", _plan(*fan, last, discipline="graph"), {})
    branches = Block("branch", tuple(_task(f"b{n}") for n in range(size)))
    yield Case(f"parallel {size:,}", _plan(Step("p", Parallel(branches, max_workers=size))), {})


def _plan(*steps: Step, discipline: Any = "implied") -> Plan:
    return plan_of(Workflow("bench", Block(discipline, steps)))


def _task(name: str, **facts: Any) -> Step:
    return Step(name, Command(("true",)), **facts)


def _for_each(step: Step, workers: int = 0) -> Step:
    items: Data = Reference(("inputs", "items"))
    block = Block("branch", (step,))
    return Step("loop", ForEach(items, block, parallel=workers > 0, max_workers=workers or None))


def _while(step: Step, passes: int) -> Step:
    always: Condition = True
    loop = While(always, Block("pass", (step,)), max_iterations=passes, check_interval=1, max_duration=10**8)
    return Step("loop", loop)


def _graph(size: int) -> Iterator[Step]:
    for number in range(size):
        needs = tuple(f"s{other}" for other in range(max(0, number - 3), number))
        yield _task(f"s{number}", depends_on=needs)


# --- a log ----------------------------------------------------------------------------------------


def _recorded(case: Case) -> Iterator[EventRecord]:
    """What a host appends that performs every command at once, in order."""
    machine = Machine(case.plan)
    events: list[tuple[str, str | None, int, bytes]] = [
        (EventType.RUN_STARTED, None, 1, msgspec.json.encode({"inputs": case.inputs}))
    ]
    now: Timestamp = _START
    place = 0
    while place < len(events):
        event_type, path, attempt, payload = events[place]
        place += 1
        record = _event(place, event_type, path, attempt, payload, now)
        yield record
        for command in machine.advance(record):
            match command:
                case RunTask():
                    events.append((EventType.STEP_STARTED, command.path, command.attempt, b"{}"))
                    events.append((EventType.STEP_COMPLETED, command.path, command.attempt, _COMPLETED))
                case Record():
                    encoded = msgspec.json.encode(command.payload)
                    events.append((command.event_type, command.path, command.attempt, encoded))
                case SetTimer() if "limit" not in command.key:
                    now = max(now, command.due)
                    events.append((EventType.TIMER_FIRED, None, 1, msgspec.json.encode({"key": command.key})))
                case Probe():
                    raise AssertionError("these plans ask nothing")
                case _:
                    pass
    if not machine.terminal:
        raise AssertionError(f"{case.name} did not end")


def _event(
    seq: int, event_type: str, path: str | None, attempt: int, payload: bytes, now: Timestamp
) -> EventRecord:
    return EventRecord(_IDENTITY, seq, f"e{seq}", event_type, path, attempt, 1, f"k{seq}", now, now, payload)


# --- measuring ------------------------------------------------------------------------------------


def _speed(report: Report, case: Case, log: list[EventRecord]) -> None:
    program = Machine(case.plan).program
    decode = msgspec.json.Decoder().decode

    def ours() -> None:
        advance = Machine(case.plan, program).advance
        for record in log:
            advance(record)

    def floor() -> list[Any]:
        kept: list[Any] = []
        for record in log:
            kept.append((record.event_type, record.step_id, decode(record.payload)))  # noqa: PERF401
        return kept

    ours_seconds, floor_seconds = [], []
    for _ in range(_ROUNDS):
        ours_seconds.append(processor_seconds(ours))
        floor_seconds.append(processor_seconds(floor))
    report.figure(f"{case.name}: the floor", f"{len(log) / min(floor_seconds):,.0f} events/s")
    report.goal(case.name, len(log) / min(ours_seconds), at_least=100_000, unit="events/s", decides=False)


def _growth(report: Report, case: Case, log: list[EventRecord]) -> None:
    """The last tenth of the log against the first, and the longest `advance`."""
    machine = Machine(case.plan)
    machine.advance(log[0])
    rest = log[1:]
    tenth = len(rest) // 10
    best: list[float] = []
    longest = 0.0
    for _ in range(_ROUNDS):
        machine = Machine(case.plan, machine.program)
        started = time.thread_time()
        machine.advance(log[0])
        longest = time.thread_time() - started
        times = []
        gc.collect()
        for number in range(10):
            started = time.thread_time()
            for record in rest[number * tenth : (number + 1) * tenth]:
                machine.advance(record)
            times.append(time.thread_time() - started)
        best = [min(pair) for pair in zip(best, times, strict=True)] if best else times
    report.figure(f"{case.name}: its first advance", milliseconds(longest))
    if "->" in case.name or "parallel" in case.name:
        return  # the first half begins, the second half ends: tenths cannot be compared
    report.goal(f"{case.name}: last tenth / first", best[-1] / best[0], at_most=1.5)


def _memory(report: Report, items: int) -> None:
    """What a loop keeps of the iterations that are over."""
    case = Case("loop", _plan(_for_each(_task("a"))), {"items": list(range(items))})
    log = list(_recorded(case))
    machine = Machine(case.plan)
    first = len(log) // 10

    def fold(part: list[EventRecord]) -> None:
        for record in part:
            machine.advance(record)

    fold(log[:first])
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    fold(log[first : 9 * first])
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    per_item = (after - before) / (items * 0.8)
    report.goal("memory per finished iteration", per_item, at_most=1.0, unit="bytes")


def _checkpoint(report: Report, size: int) -> None:
    plan = _plan(*_graph(size), discipline="graph")
    machine = Machine(plan)
    for record in list(_recorded(Case("graph", plan, {})))[: size // 2]:
        machine.advance(record)
    encoded = machine.checkpoint()
    again: Callable[[], object] = lambda: Machine.restore(plan, encoded, program=machine.program)  # noqa: E731
    report.figure("checkpoint of a graph, encoded", f"{len(encoded) / 1024:,.0f} KiB")
    report.figure("  made", milliseconds(processor_seconds(machine.checkpoint, 3)))
    report.figure("  decoded and restored", milliseconds(processor_seconds(again, 3)))


if __name__ == "__main__":
    shown = Report()
    run(shown, 20_000)
    sys.exit(1 if shown.missed else 0)
