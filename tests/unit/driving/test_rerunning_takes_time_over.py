"""A rerun of a run in which time decided something: a limit, a pause, a loop that looks at its clock.

What was decided then is decided in the same way again, and the limits of the rerun start anew.
"""

import asyncio
from collections.abc import Sequence

import pytest

from podium.log.events import EventRecord, EventType, EventWrite
from podium.log.times import Timestamp
from podium.machine import RULES_VERSION, Machine
from podium.machine.commands import RunTask, SetTimer
from podium.runtime.takeover import Original, Takeovers
from podium.runtime.writing import foreseen
from tests.unit.machine.hosting import IDENTITY, Host, record_of

TOMORROW = "2026-01-02T12:00:00.000000Z"
NEXT_DAY = "2026-01-03T12:00:00.000000Z"
LIMITED = """
timeout: 100
steps:
  - {name: A, command: [a]}
  - {name: B, command: [b]}
  - {name: C, command: [c]}
"""
TIMED_LOOP = """
steps:
  - name: W
    while:
      condition: {expr: "${loop.elapsed} < 25"}
      max_iterations: 10
      max_duration: 1000
      check_interval: 10
      steps: [{name: X, command: [x]}]
  - {name: C, command: [c]}
"""


class _Log:
    """Enough of an `EventLog` for reading one run."""

    def __init__(self, records: Sequence[EventRecord]) -> None:
        self._records = records

    async def read(self, _run_id: str, *, after: int = 0, limit: int = 1000) -> list[EventRecord]:
        return [one for one in self._records if one.run_seq > after][:limit]


def _rerun(log: Sequence[EventRecord], host: Host, step: str, at: Timestamp = TOMORROW) -> list[EventRecord]:
    """The beginning of the log of a rerun."""
    takeovers = Takeovers(_Log(log), host.plan, "", IDENTITY, None)  # type: ignore[arg-type]
    started = {"rulesVersion": RULES_VERSION, "inputs": {}}
    takeover = asyncio.run(takeovers.of(Original(IDENTITY.run_id, "", step), started, at))
    return [_stored(write, number) for number, write in enumerate(takeover.writes, 1)]


def _stored(write: EventWrite, number: int) -> EventRecord:
    return foreseen(IDENTITY, write, number, write.payload)


def _folded(host: Host, log: Sequence[EventRecord]) -> Machine:
    machine = Machine(host.plan)
    for record in log:
        machine.advance(record)
        # A machine that is restored in the middle continues as this one does.
        machine = Machine.restore(host.plan, machine.checkpoint(""), "")
    assert not machine.inconsistent
    return machine


def _tasks(machine: Machine) -> list[str]:
    return [one.path for one in machine.outstanding() if isinstance(one, RunTask)]


def _limit(machine: Machine) -> Timestamp:
    (due,) = [one.due for one in machine.outstanding() if isinstance(one, SetTimer)]
    return due


def _held_past_its_limit() -> Host:
    """A pause of 60 s: the limit of 100 s fires and is armed again."""
    host = Host(LIMITED).start()
    host.wait(10)
    host.signal("PAUSE")
    host.wait(60)
    host.signal("RESUME")
    host.wait(50)
    host.end("A")
    host.end("B")
    host.end("C")
    assert EventType.TIMER_FIRED in [one.event_type for one in host.log], "else this tests nothing"
    assert host.ended == "Completed"
    return host


@pytest.mark.rule("G14")
def test_a_limit_whose_time_was_given_back_after_a_pause_is_not_due_in_the_rerun() -> None:
    host = _held_past_its_limit()
    machine = _folded(host, _rerun(host.log, host, "B"))
    assert _tasks(machine) == ["B"]


def test_the_limit_of_a_rerun_starts_anew_and_is_not_extended_by_pauses_of_the_earlier_run() -> None:
    host = _held_past_its_limit()
    machine = _folded(host, _rerun(host.log, host, "B"))
    assert _limit(machine) == "2026-01-02T12:01:40.000000Z"
    _fire_the_limit(machine, "2026-01-02T12:01:40.000000Z")
    assert _tasks(machine) == [], "its time is over"


def _fire_the_limit(machine: Machine, at: Timestamp) -> None:
    (key,) = [one.key for one in machine.outstanding() if isinstance(one, SetTimer)]
    fired = record_of(machine.last_seq + 1, EventType.TIMER_FIRED, None, 1, {"key": key}, at)
    machine.advance(fired)


def test_a_pause_of_the_rerun_itself_extends_its_limit() -> None:
    host = _held_past_its_limit()
    machine = _folded(host, _rerun(host.log, host, "B"))
    _signal(machine, "PAUSE", "2026-01-02T12:00:10.000000Z")
    _signal(machine, "RESUME", "2026-01-02T12:00:25.000000Z")
    _fire_the_limit(machine, "2026-01-02T12:01:40.000000Z")
    assert _tasks(machine) == ["B"]
    assert _limit(machine) == "2026-01-02T12:01:55.000000Z"


def _signal(machine: Machine, kind: str, at: Timestamp) -> None:
    body = {"signalId": f"{kind}-here", "signalType": kind, "payload": {}}
    machine.advance(record_of(machine.last_seq + 1, EventType.SIGNAL_ACCEPTED, None, 1, body, at))


def test_a_loop_that_ended_by_its_clock_has_ended_in_the_rerun() -> None:
    host = Host(TIMED_LOOP).run()
    assert host.ran() == ["W[0]/X", "W[1]/X", "W[2]/X", "W[3]/X", "C"]
    machine = _folded(host, _rerun(host.log, host, "C"))
    assert _tasks(machine) == ["C"]


def test_a_rerun_of_a_rerun_measures_by_the_times_of_the_first_run() -> None:
    first = Host(TIMED_LOOP).run()
    second = _continued(first, _rerun(first.log, first, "W[3]/X"), TOMORROW)
    assert second.run().ran() == ["W[3]/X", "C"], "the loop had run for 30 s already"
    machine = _folded(first, _rerun(second.log, first, "C", NEXT_DAY))
    assert _tasks(machine) == ["C"]


def _continued(first: Host, log: list[EventRecord], now: Timestamp) -> Host:
    """A host of a run that has this log already."""
    host = Host(first.plan)
    host.log, host.now = list(log), now
    for record in log:
        host.machine.advance(record)
    host.started = {("W", 1)}
    host.take(host.machine.outstanding())
    return host
