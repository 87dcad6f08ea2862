"""Workers, the server and the store fail while a run is under way: no event is lost and nothing runs twice.

Time limits are generous: the machine may be busy. What a limit shows is that a run continues by itself.
"""

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from services import postgres
from services.temporal import TemporalServer
from tests.engines.cases import Case
from tests.engines.site import WorkerProcess, until
from tests.servers import need
from tests.temporal.site import Site

SEQUENCE = """
steps:
  - {name: A, command: [mark, "0.2"]}
  - {name: B, command: [mark, "1.5"]}
  - {name: C, command: [mark, "0.2"]}
"""
BRANCHES = """
steps:
  - name: P
    parallel: [{name: A, command: [mark, "1"]}, {name: B, command: [mark, "1.5"]}]
  - name: L
    for_each: {items: [1, 2, 3], steps: [{name: C, command: [mark, "0.2"]}]}
"""


@pytest.mark.rule("G13")
@pytest.mark.parametrize("body", [SEQUENCE, BRANCHES], ids=["sequence", "branches"])
def test_a_worker_is_killed_in_a_step_and_another_one_repeats_it(site: Site, body: str) -> None:
    worker = site.start_worker()
    case = Case(site, body)
    killed_in = "B" if body is SEQUENCE else "P/B"
    case.wait_for_work(killed_in)
    worker.kill9()
    site.start_worker()
    until(lambda: case.marks.count("begin", killed_in) > 1, "the step to run again", 30)
    case.finish()


def test_a_worker_is_killed_after_the_work_of_a_step(site: Site) -> None:
    worker = site.start_worker()
    case = Case(site, SEQUENCE)
    case.wait_for_work("B", "end")
    worker.kill9()
    site.start_worker()
    case.finish()


@pytest.mark.rule("EN08")
def test_a_worker_that_is_stopped_lets_its_steps_end(site: Site) -> None:
    first = site.start_worker()
    case = Case(site, SEQUENCE)
    case.wait_for_work("B")
    site.start_worker()
    assert first.stop() == 0
    case.finish()
    assert case.marks.count("begin", "B") == 1


def test_a_run_waits_for_a_worker_that_comes_later(site: Site) -> None:
    worker = site.start_worker()
    case = Case(site, SEQUENCE)
    case.wait_for_work("A")
    worker.kill9()
    time.sleep(1)
    assert case.process.is_alive
    began = time.monotonic()
    site.start_worker()
    case.wait_for_event("StepStarted B", 30)
    assert time.monotonic() - began < 20
    case.finish()


@pytest.mark.rule("G45")
@pytest.mark.timeout(180)
def test_a_worker_that_was_frozen_and_thawed_does_not_disturb_the_one_that_took_over(site: Site) -> None:
    workers = [site.start_worker(), site.start_worker()]
    case = Case(site, SEQUENCE)
    case.wait_for_work("B")
    holder = _holder(case, workers)
    holder.freeze()
    case.wait_for_event("StepStarted C", 60)
    holder.thaw()
    case.finish()


@pytest.mark.timeout(180)
def test_a_worker_that_is_thawed_after_the_run_has_ended_does_nothing_more(site: Site) -> None:
    workers = [site.start_worker(), site.start_worker()]
    case = Case(site, SEQUENCE)
    case.wait_for_work("B")
    holder = _holder(case, workers)
    holder.freeze()
    case.finish()
    holder.thaw()
    before = case.marks.all()
    until(lambda: holder.is_alive, "the worker")
    time.sleep(3)
    assert case.marks.all() == before
    case.check()


@pytest.mark.timeout(180)
def test_the_server_is_restarted(make_site: Callable[..., Site], durable_server: TemporalServer) -> None:
    site = make_site("sqlite", durable_server)
    site.start_worker()
    case = Case(site, SEQUENCE)
    case.wait_for_work("B")
    durable_server.kill9()
    case.wait_for_work("B", "end")
    durable_server.restart()
    began = time.monotonic()
    case.wait_for_event("StepStarted C", 60)
    assert time.monotonic() - began < 30
    case.finish()
    assert case.marks.count("begin", "B") == 1


@pytest.mark.rule("G17")
@pytest.mark.timeout(240)
def test_the_store_is_unavailable_for_twenty_seconds(
    make_site: Callable[..., Site], database: postgres.PostgresServer
) -> None:
    site = make_site("sqlite")
    parts = dict(part.split("=", 1) for part in database.conninfo.split())
    site.store = f"postgresql://{parts['user']}@{parts['host']}:{parts['port']}/{parts['dbname']}"
    site.start_worker()
    case = Case(site, SEQUENCE)
    case.wait_for_work("B")
    database.kill9()
    time.sleep(20)
    database.restart()
    case.finish()
    assert case.marks.count("begin") == 3


@pytest.mark.rule("G13", "EN15")
def test_an_execution_that_was_terminated_by_hand_is_replaced(site: Site) -> None:
    site.start_worker()
    case = Case(site, SEQUENCE)
    case.wait_for_work("B")
    terminate = ("workflow", "terminate", "--workflow-id", f"podium-{case.run_id}")
    site.server.command(*terminate, "--namespace", site.namespace, "--reason", "by hand")
    case.finish()


@pytest.mark.rule("ES20")
@pytest.mark.timeout(180)
def test_a_step_in_doubt_runs_once(site: Site) -> None:
    worker = site.start_worker()
    case = Case(site, SEQUENCE.replace('"1.5"]}', '"1.5"], idempotent: false}'))
    case.wait_for_work("B")
    worker.kill9()
    site.start_worker()
    case.wait_for_event("StepInterrupted B")
    time.sleep(2)
    assert case.marks.count("begin", "B") == 1
    why = site.podium("why", case.run_id, "--store", site.store, "--runs", str(site.runs)).stdout
    assert "IN_DOUBT" in why or "in doubt" in why, why
    site.signal("skip-step", case.run_id, "B")
    case.process.wait()
    assert case.marks.count("begin", "B") == 1
    assert case.marks.count("begin", "C") == 1


@pytest.mark.timeout(240)
def test_workers_are_killed_at_random_moments(site: Site) -> None:
    """A sample of `python -m tests.torture.temporal_kills`."""
    chance = random.Random(int(os.environ.get("PYTEST_RANDOMLY_SEED", "7")))
    case = Case(site, BRANCHES.replace('"1"', '"0.1"').replace('"1.5"', '"0.3"'))
    for _ in range(4):
        worker = site.start_worker()
        time.sleep(chance.uniform(0, 2))
        worker.kill9()
        if not case.process.is_alive:
            break
    site.start_worker()
    case.finish()


@pytest.fixture
def database() -> Iterator[postgres.PostgresServer]:
    with need(postgres.start) as server:
        yield server


def _holder(case: Case, workers: list[WorkerProcess]) -> WorkerProcess:
    """The worker that carries out the step which is under way."""
    pid = case.marks.all()[-1].pid
    while pid > 1:
        found = [worker for worker in workers if worker.pid == pid]
        if found:
            return found[0]
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    raise AssertionError("no worker carries out the step")
