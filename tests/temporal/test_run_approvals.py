"""Runs on Temporal that wait for an approval of their plan: nothing starts before, and no approval is lost."""

import asyncio
import hashlib
import signal

import pytest
from temporalio.client import Client

from podium.engines.temporal.client import is_open
from podium.operations.signal_refusals import SignalWouldBeIgnored
from tests.engines.marks import Marks
from tests.engines.site import Process, until
from tests.temporal.site import Site

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


async def has_execution(site: Site, run_id: str) -> bool:
    return await is_open(await Client.connect(site.server.address, namespace=site.namespace), run_id)


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
    until(lambda: not asyncio.run(has_execution(site, verb)), "the execution to end")


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
