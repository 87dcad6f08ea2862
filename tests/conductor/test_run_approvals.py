"""Runs on Conductor that wait for an approval of their plan: nothing starts before, and no approval is lost."""

import hashlib
import signal

import pytest

from podium.operations.signal_refusals import SignalWouldBeIgnored
from tests.conductor.by_hand import ByHand
from tests.conductor.site import Site
from tests.engines.marks import Marks
from tests.engines.site import Process, until

WAITING = """
approval: required
steps:
  - {name: A, command: [mark, "0"]}
"""


def begun(site: Site, run_id: str, more: str = "") -> tuple[Marks, Process]:
    marks = Marks(site.folder, run_id)
    process = site.begin(marks.header + more + WAITING, run_id)
    until(lambda: "waits for the approval of its plan" in process.output, "the run to wait")
    return marks, process


def plan_sha256(site: Site, run_id: str) -> str:
    return hashlib.sha256((site.runs / run_id / "plan.json").read_bytes()).hexdigest()


def shown(site: Site, run_id: str) -> list[str]:
    """The statuses of its executions: none has claimed the run before it may start."""
    return [one.status for one in ByHand(site).executions_of(run_id)]


def types(site: Site, run_id: str) -> list[str]:
    return [record.event_type for record in site.log_of(run_id)]


@pytest.mark.rule("G11", "G42")
def test_an_approved_run_starts_also_if_its_worker_was_away(site: Site) -> None:
    worker = site.start_worker()
    marks, process = begun(site, "approved")
    worker.kill9()
    site.signal("approve", "approved", "--plan-sha256", plan_sha256(site, "approved"))
    assert types(site, "approved") == ["RunQueued", "SignalAccepted", "RunApproved"]
    site.start_worker()
    assert process.wait() == 0
    assert marks.count("begin") == 1


@pytest.mark.rule("G11")
def test_nothing_starts_before_the_approval_and_a_wrong_one_changes_nothing(site: Site) -> None:
    site.start_worker()
    marks, process = begun(site, "waits")
    why = ("why", "waits", "--store", site.store, "--runs", str(site.runs))
    assert "WAITING_APPROVAL" in site.podium(*why).stdout
    wrong = ("approve", "waits", "--plan-sha256", "0" * 64, "--store", site.store, "--runs", str(site.runs))
    assert "APPROVAL_PLAN_MISMATCH" in site.podium(*wrong, code=65).stderr
    with pytest.raises(SignalWouldBeIgnored):
        site.send("waits", "PAUSE")
    assert not marks.count("begin")
    assert types(site, "waits") == ["RunQueued", "SignalRejected", "SignalRejected"]
    site.signal("approve", "waits", "--plan-sha256", plan_sha256(site, "waits"))
    assert process.wait() == 0
    assert marks.count("begin") == 1


@pytest.mark.rule("G11")
@pytest.mark.parametrize("verb", ["reject", "cancel"])
def test_a_run_that_is_rejected_or_cancelled_never_starts_and_its_execution_ends(
    site: Site, verb: str
) -> None:
    site.start_worker()
    marks, process = begun(site, verb)
    site.signal(verb, verb)
    assert process.wait() == {"reject": 1, "cancel": 2}[verb]
    assert not marks.count("begin")
    assert "RunStarted" not in types(site, verb)
    until(
        lambda: shown(site, verb) == [{"reject": "FAILED", "cancel": "TERMINATED"}[verb]],
        "the execution to end",
    )


@pytest.mark.rule("G11")
def test_ctrl_c_of_a_client_that_waits_cancels_the_run(site: Site) -> None:
    site.start_worker()
    marks, process = begun(site, "interrupted")
    process.send_signal(signal.SIGINT)
    assert process.wait() == 2
    assert not marks.count("begin")


@pytest.mark.rule("G11", "G47")
def test_a_run_that_waits_for_its_approval_takes_no_slot(site: Site) -> None:
    site.start_worker()
    concurrency = "concurrency: {key: shared, limit: 1}\n"
    _, process = begun(site, "first", concurrency)
    marks = Marks(site.folder, "second")
    other = site.begin(marks.header + concurrency + WAITING.replace("approval: required\n", ""), "second")
    assert other.wait() == 0
    site.signal("approve", "first", "--plan-sha256", plan_sha256(site, "first"))
    assert process.wait() == 0


@pytest.mark.rule("G11", "CN04")
@pytest.mark.parametrize("how", ["terminated", "deleted", "paused"])
def test_what_is_done_in_conductor_to_a_run_that_waits_for_its_approval(site: Site, how: str) -> None:
    site.start_worker()
    by_hand = ByHand(site)
    marks, process = begun(site, how)
    until(lambda: by_hand.executions_of(how), "the execution")
    (execution,) = by_hand.executions_of(how)
    if how == "terminated":
        by_hand.terminate_execution(execution.workflow_id)
        assert process.wait() == 2
        until(lambda: shown(site, how) == ["TERMINATED"], "the execution to end")
        assert not marks.count("begin")
        return
    if how == "deleted":
        by_hand.remove(execution.workflow_id)
        until(lambda: shown(site, how) == ["RUNNING"], "a new execution")
    else:
        by_hand.pause_execution(execution.workflow_id)
    site.signal("approve", how, "--plan-sha256", plan_sha256(site, how))
    assert process.wait() == 0
    assert marks.count("begin") == 1
    until(lambda: shown(site, how) == ["COMPLETED"], "the execution to end")
