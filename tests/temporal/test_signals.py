"""Pause, cancel and answers on Temporal. A limit that a busy machine could miss is generous; figures are printed."""

import asyncio
import signal
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pytest

from podium.log.events import EventRecord
from podium.testing.engine_promises.histories import payload_of
from tests.temporal.marks import Marks
from tests.temporal.site import Site, until

LOOP = """
steps:
  - name: L
    for_each: {items: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], steps: [{name: A, command: [mark, "0.1"]}]}
"""
CHILDREN = """
steps:
  - {name: A, command: [sh, -c, "sleep 1000 & sleep 1000 & mark 1000"]}
"""
QUESTIONS = """
steps:
  - name: L
    for_each: {items: [1, 2, 3, 4, 5, 6], steps: [{name: Q, approval: {message: "May it?"}}]}
"""


@pytest.mark.rule("G14", "G15")
def test_after_a_pause_no_step_starts_and_running_ones_finish(site: Site) -> None:
    site.start_worker()
    marks = Marks(site.folder, "paused")
    process = site.begin(marks.header + LOOP, "paused")
    for round_ in range(1, 4):
        _wait_for_ends(marks, 3 * round_)
        site.send("paused", "PAUSE")
        site.wait_for("paused", "RunPaused", round_)
        started = marks.count("begin")
        _wait_for_ends(marks, started)
        assert marks.count("begin") == started
        site.send("paused", "RESUME")
    assert process.wait() == 0
    delays = _pause_delays(site.log_of("paused"))
    print("from pause to the last start:", delays)
    assert max(delays) < 3


@pytest.mark.rule("G15")
def test_a_paused_run_with_a_running_step_is_draining(site: Site) -> None:
    site.start_worker()
    marks = Marks(site.folder, "draining")
    process = site.begin(marks.header + 'steps: [{name: A, command: [mark, "6"]}]\n', "draining")
    until(lambda: marks.count("begin"), "the step to begin")
    site.send("draining", "PAUSE")
    site.wait_for("draining", "RunPaused")
    shown = site.podium("runs", "show", "draining", "--store", site.store, "--runs", str(site.runs)).stdout
    assert marks.count("end") > 0 or "DRAINING" in shown, shown
    site.send("draining", "RESUME")
    assert process.wait() == 0


@pytest.mark.rule("G23", "EN07")
@pytest.mark.parametrize("force", [False, True], ids=["cancel", "emergency stop"])
def test_the_processes_of_a_cancelled_run_are_gone_before_it_has_ended(site: Site, *, force: bool) -> None:
    site.start_worker()
    marks = Marks(site.folder, "cancelled")
    process = site.begin(marks.header + CHILDREN, "cancelled")
    until(lambda: marks.count("begin"), "the step to begin")
    assert len(_processes(site, "cancelled")) >= 3
    if force:
        site.send("cancelled", "EMERGENCY_STOP", reason="fire", forceKill=True)
    else:
        site.send("cancelled", "CANCEL")
    until(lambda: not _processes(site, "cancelled"), "its processes to end", 10)
    assert process.wait() == 2
    log = site.log_of("cancelled")
    asked = next(one for one in log if one.event_type == "SignalAccepted")
    print("from the signal to the end:", _seconds(asked, log[-1]))
    assert log[-1].event_type == "RunCancelled"
    assert not _processes(site, "cancelled")


@pytest.mark.rule("EN07")
def test_ctrl_c_cancels_a_run_that_workers_carry_out(site: Site) -> None:
    site.start_worker()
    marks = Marks(site.folder, "interrupted")
    process = site.begin(marks.header + CHILDREN, "interrupted")
    until(lambda: marks.count("begin"), "the step to begin")
    process.send_signal(signal.SIGINT)
    assert process.wait() == 2
    assert site.events_of("interrupted")[-1] == "RunCancelled"
    assert not _processes(site, "interrupted")


@pytest.mark.rule("G42")
def test_no_answer_is_lost(site: Site) -> None:
    """No sender nudges the server: workers find the signals by their wake-ups in the store."""
    site.start_worker()
    ids = [f"asked-{number}" for number in range(1, 5)]
    header = 'version: "2.0"\nname: asked\n'
    processes = [site.begin(header + QUESTIONS, run_id) for run_id in ids]
    for item in range(6):
        question = f"L[{item}]/Q"
        for run_id in ids:
            site.wait_for(run_id, f"StepStarted {question}")
            site.send(run_id, "APPROVE", stepId=question)
    assert [process.wait() for process in processes] == [0, 0, 0, 0]
    for run_id in ids:
        delays = _answer_delays(site.log_of(run_id))
        assert len(delays) == 6
        print("from answer to continuing:", delays)
    _no_wake_up_is_left(site)


@pytest.mark.rule("G42")
def test_a_signal_while_no_worker_runs_is_not_lost(site: Site) -> None:
    worker = site.start_worker()
    header = 'version: "2.0"\nname: asked\n'
    process = site.begin(header + "steps: [{name: Q, approval: {message: May it?}}]\n", "alone")
    site.wait_for("alone", "StepStarted Q")
    worker.kill9()
    site.send("alone", "APPROVE", stepId="Q")
    site.start_worker()
    assert process.wait() == 0


def _wait_for_ends(marks: Marks, wanted: int) -> None:
    until(lambda: marks.count("end") >= wanted, f"{wanted} steps to end")


def _pause_delays(log: Sequence[EventRecord]) -> list[float]:
    """For each pause: how long after its signal the last step started."""
    delays, asked, last = [], None, 0.0
    for record in log:
        if record.event_type == "SignalAccepted" and payload_of(record)["signalType"] == "PAUSE":
            asked, last = record, 0.0
        elif record.event_type == "RunResumed":
            delays.append(last)
            asked = None
        elif asked is not None and record.event_type == "StepStarted":
            last = _seconds(asked, record)
    return delays


def _answer_delays(log: Sequence[EventRecord]) -> list[float]:
    answers = {payload_of(one)["signalId"]: one for one in log if one.event_type == "SignalAccepted"}
    ends = [one for one in log if one.event_type == "StepCompleted" and "signalId" in payload_of(one)]
    return [_seconds(answers[payload_of(end)["signalId"]], end) for end in ends]


def _seconds(one: EventRecord, other: EventRecord) -> float:
    begin, end = (datetime.fromisoformat(record.persisted_at) for record in (one, other))
    return (end - begin).total_seconds()


def _processes(site: Site, run_id: str) -> list[int]:
    """Every process that a step of this run has started and that has not ended."""
    wanted = f"PODIUM_RUN_DIR={(site.runs / run_id).absolute()}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environment = (entry / "environ").read_bytes().split(b"\0")
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if wanted in environment and state not in "ZX":
                found.append(int(entry.name))
    return found


def _no_wake_up_is_left(site: Site) -> None:
    due = asyncio.run(site.with_store(lambda store: store.due("2999-01-01T00:00:00.000000Z", limit=100)))
    assert not due, due
