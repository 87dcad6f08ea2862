"""Pause, cancel and answers on Conductor. A limit that a busy machine could miss is generous; figures are printed."""

import signal
from collections.abc import Callable

import pytest

from tests.conductor.by_hand import ByHand
from tests.conductor.site import Site
from tests.engines.delays import (
    answer_delays,
    processes_of,
    recording_delays,
    seconds_between,
    started_while_paused,
    unanswered,
)
from tests.engines.marks import Marks
from tests.engines.site import until

PAUSES = 10
LOOP = f"""
max_parallel: 3
max_transitions: 1000000
steps:
  - name: L
    for_each:
      items: {list(range(400))}
      parallel: true
      steps: [{{name: A, command: [mark, "0.05"]}}]
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


def _local(site: Site) -> None:
    site.start_worker("--slots", "4")


def _remote(site: Site) -> None:
    site.start_worker("--slots", "0")
    site.start_worker("--steps-only", "--slots", "4")


def _queued(site: Site) -> None:
    """No worker has a slot: what is handed out waits in Conductor."""
    site.start_worker("--slots", "0")


@pytest.mark.rule("G14", "G15", "G37")
@pytest.mark.parametrize("workers", [_local, _remote], ids=["local", "handed out"])
def test_after_a_pause_no_step_starts_and_nothing_is_repeated(
    site: Site, workers: Callable[[Site], None]
) -> None:
    workers(site)
    by_hand, marks = ByHand(site), Marks(site.folder, "paused")
    process = site.begin(marks.header + LOOP, "paused")
    for round_ in range(1, PAUSES + 1):
        until(lambda: marks.count("begin") >= 5 * round_, "steps to begin")  # noqa: B023
        site.send("paused", "PAUSE")
        site.wait_for("paused", "RunPaused", round_)
        by_hand.wait_for_status("paused", "PAUSED")
        site.send("paused", "RESUME")
        site.wait_for("paused", "RunResumed", round_)
    site.send("paused", "PAUSE")
    site.wait_for("paused", "RunPaused", PAUSES + 1)
    until(lambda: marks.count("begin") == marks.count("end"), "what is in flight to end")
    site.send("paused", "CANCEL")
    assert process.wait() == 2
    log = site.log_of("paused")
    assert not started_while_paused(log)
    assert not marks.problems(log)
    begun = [(mark.visit, mark.attempt) for mark in marks.all() if mark.what == "begin"]
    assert len(begun) == len(set(begun))
    print("from PAUSE to RunPaused:", sorted(recording_delays(log)))


@pytest.mark.rule("G15", "G37")
@pytest.mark.parametrize("workers", [_local, _remote], ids=["local", "handed out"])
def test_a_paused_run_is_draining_until_what_is_in_flight_has_ended(
    site: Site, workers: Callable[[Site], None]
) -> None:
    workers(site)
    by_hand, marks, go = ByHand(site), Marks(site.folder, "draining"), site.folder / "go"
    step = f'{{name: A, command: [sh, -c, "mark 0; until [ -e {go} ]; do sleep 0.1; done"]}}'
    process = site.begin(f"{marks.header}steps: [{step}]\n", "draining")
    until(lambda: marks.count("end"), "the step to begin")
    site.send("draining", "PAUSE")
    site.wait_for("draining", "RunPaused")
    by_hand.wait_for_status("draining", "PAUSED")
    places = ("--store", site.store, "--runs", str(site.runs))
    for command in (("runs", "show"), ("why",)):
        assert "DRAINING" in site.podium(*command, "draining", *places).stdout
    go.touch()
    site.wait_for("draining", "StepCompleted A")
    assert "DRAINING" not in site.podium("why", "draining", *places).stdout
    assert by_hand.status("draining") == "PAUSED"
    site.send("draining", "RESUME")
    assert process.wait() == 0
    by_hand.wait_for_status("draining", "COMPLETED")
    assert marks.count("begin") == 1


@pytest.mark.rule("G23", "EN07")
@pytest.mark.parametrize("force", [False, True], ids=["cancel", "emergency stop"])
@pytest.mark.parametrize("workers", [_local, _remote], ids=["local", "handed out"])
def test_the_processes_of_a_cancelled_run_are_gone_before_it_has_ended(
    site: Site, workers: Callable[[Site], None], *, force: bool
) -> None:
    workers(site)
    marks = Marks(site.folder, "cancelled")
    process = site.begin(marks.header + CHILDREN, "cancelled")
    until(lambda: marks.count("begin"), "the step to begin")
    assert len(processes_of(site.runs / "cancelled")) >= 3
    _stop(site, "cancelled", force=force)
    until(lambda: not processes_of(site.runs / "cancelled"), "its processes to end", 10)
    assert process.wait() == 2
    _show_end(site, "cancelled")
    assert not processes_of(site.runs / "cancelled")
    ByHand(site).wait_for_status("cancelled", "TERMINATED")


@pytest.mark.rule("G23", "EN07")
@pytest.mark.parametrize("force", [False, True], ids=["cancel", "emergency stop"])
def test_a_step_that_waits_in_conductor_is_stopped_with_its_run_and_never_begins(
    site: Site, *, force: bool
) -> None:
    _queued(site)
    by_hand, marks = ByHand(site), Marks(site.folder, "queued")
    process = site.begin(marks.header + CHILDREN, "queued")
    until(lambda: by_hand.steps_of("queued"), "the step to be handed out")
    _stop(site, "queued", force=force)
    assert process.wait() == 2
    _show_end(site, "queued")
    by_hand.wait_for_status("queued", "TERMINATED")
    site.start_worker("--steps-only", "--slots", "4")
    until(lambda: not by_hand.steps_of("queued"), "what was handed out to be taken")
    assert not marks.count("begin")
    assert not processes_of(site.runs / "queued")


def _stop(site: Site, run_id: str, *, force: bool) -> None:
    if force:
        site.send(run_id, "EMERGENCY_STOP", reason="fire", forceKill=True)
    else:
        site.send(run_id, "CANCEL")


def _show_end(site: Site, run_id: str) -> None:
    log = site.log_of(run_id)
    asked = next(one for one in log if one.event_type == "SignalAccepted")
    print("from the signal to the end:", round(seconds_between(asked, log[-1]), 3))
    assert log[-1].event_type == "RunCancelled"


@pytest.mark.rule("EN07")
def test_ctrl_c_cancels_a_run_that_workers_carry_out(site: Site) -> None:
    _local(site)
    marks = Marks(site.folder, "interrupted")
    process = site.begin(marks.header + CHILDREN, "interrupted")
    until(lambda: marks.count("begin"), "the step to begin")
    process.send_signal(signal.SIGINT)
    assert process.wait() == 2
    assert site.events_of("interrupted")[-1] == "RunCancelled"
    assert not processes_of(site.runs / "interrupted")


@pytest.mark.rule("G42")
def test_a_signal_while_no_worker_runs_is_not_lost(site: Site) -> None:
    worker = site.start_worker()
    process = site.begin(
        'version: "2.0"\nname: asked\nsteps: [{name: Q, approval: {message: May it?}}]\n', "alone"
    )
    site.wait_for("alone", "StepStarted Q")
    worker.kill9()
    site.send("alone", "APPROVE", stepId="Q")
    site.start_worker()
    assert process.wait() == 0


RETRIED = """
steps:
  - {name: F, command: [test, -e, flag.txt], retry: {operator: 600}}
  - {name: Z, command: ["true"]}
"""


def test_a_failed_step_is_retried_or_skipped_by_an_operator(site: Site) -> None:
    _local(site)
    header = 'version: "2.0"\nname: w\n'
    retried, skipped = (site.begin(header + RETRIED, run_id) for run_id in ("retried", "skipped"))
    for run_id in ("retried", "skipped"):
        site.wait_for(run_id, "StepFailed F")
    site.signal("skip-step", "skipped", "F")
    assert skipped.wait() == 0
    (site.workspace / "flag.txt").touch()
    site.signal("retry-step", "retried", "F")
    assert retried.wait() == 0
    assert site.events_of("retried").count("StepStarted F") == 2
    for run_id in ("retried", "skipped"):
        ByHand(site).wait_for_status(run_id, "COMPLETED")


@pytest.mark.rule("G42")
def test_no_answer_is_lost(site: Site) -> None:
    """No sender nudges the server: workers find the signals by their wake-ups in the store."""
    _local(site)
    ids = [f"asked-{number}" for number in range(1, 4)]
    processes = [site.begin('version: "2.0"\nname: asked\n' + QUESTIONS, run_id) for run_id in ids]
    for item in range(6):
        question = f"L[{item}]/Q"
        for run_id in ids:
            site.wait_for(run_id, f"StepStarted {question}")
            site.send(run_id, "APPROVE", stepId=question)
    assert [process.wait() for process in processes] == [0, 0, 0]
    for run_id in ids:
        delays = answer_delays(site.log_of(run_id))
        assert len(delays) == 6
        assert not unanswered(site.log_of(run_id))
        print("from answer to continuing:", delays)
