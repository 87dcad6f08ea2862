"""Pause, cancel and answers on Temporal. A limit that a busy machine could miss is generous; figures are printed."""

import asyncio
import signal

import pytest

from tests.engines.delays import answer_delays, pause_delays, processes_of, seconds_between, unanswered
from tests.engines.marks import Marks
from tests.engines.site import until
from tests.temporal.site import Site

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
    delays = pause_delays(site.log_of("paused"))
    print("from pause to the last start:", delays)
    assert max(delays) < 3


@pytest.mark.rule("G15")
def test_a_paused_run_with_a_running_step_is_draining(site: Site) -> None:
    site.start_worker()
    marks = Marks(site.folder, "draining")
    go = site.folder / "go"
    step = f'{{name: A, command: [sh, -c, "mark 0; until [ -e {go} ]; do sleep 0.1; done"]}}'
    process = site.begin(f"{marks.header}steps: [{step}]\n", "draining")
    until(lambda: marks.count("end"), "the step to begin")
    site.send("draining", "PAUSE")
    site.wait_for("draining", "RunPaused")
    for command in (("runs", "show"), ("why",)):
        shown = site.podium(*command, "draining", "--store", site.store, "--runs", str(site.runs)).stdout
        assert "DRAINING" in shown, shown
    go.touch()
    site.wait_for("draining", "StepCompleted A")
    site.send("draining", "RESUME")
    assert process.wait() == 0


@pytest.mark.rule("G23", "EN07")
@pytest.mark.parametrize("force", [False, True], ids=["cancel", "emergency stop"])
def test_the_processes_of_a_cancelled_run_are_gone_before_it_has_ended(site: Site, *, force: bool) -> None:
    site.start_worker()
    marks = Marks(site.folder, "cancelled")
    process = site.begin(marks.header + CHILDREN, "cancelled")
    until(lambda: marks.count("begin"), "the step to begin")
    assert len(processes_of(site.runs / "cancelled")) >= 3
    if force:
        site.send("cancelled", "EMERGENCY_STOP", reason="fire", forceKill=True)
    else:
        site.send("cancelled", "CANCEL")
    until(lambda: not processes_of(site.runs / "cancelled"), "its processes to end", 10)
    assert process.wait() == 2
    log = site.log_of("cancelled")
    asked = next(one for one in log if one.event_type == "SignalAccepted")
    print("from the signal to the end:", seconds_between(asked, log[-1]))
    assert log[-1].event_type == "RunCancelled"
    assert not processes_of(site.runs / "cancelled")


@pytest.mark.rule("EN07")
def test_ctrl_c_cancels_a_run_that_workers_carry_out(site: Site) -> None:
    site.start_worker()
    marks = Marks(site.folder, "interrupted")
    process = site.begin(marks.header + CHILDREN, "interrupted")
    until(lambda: marks.count("begin"), "the step to begin")
    process.send_signal(signal.SIGINT)
    assert process.wait() == 2
    assert site.events_of("interrupted")[-1] == "RunCancelled"
    assert not processes_of(site.runs / "interrupted")


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
        delays = answer_delays(site.log_of(run_id))
        assert len(delays) == 6
        assert not unanswered(site.log_of(run_id))
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


def _no_wake_up_is_left(site: Site) -> None:
    due = asyncio.run(site.with_store(lambda store: store.due("2999-01-01T00:00:00.000000Z", limit=100)))
    assert not due, due
