"""Workers, the server and the store fail while a run is under way: no event is lost and nothing runs twice.

Time limits are generous: the machine may be busy. What a limit shows is that a run continues by itself.
"""

import time
from collections.abc import Callable, Iterator

import pytest

from services import postgres
from services.conductor import ConductorServer
from tests.conductor.cases import Case
from tests.conductor.executions import executions_of
from tests.conductor.site import Site
from tests.engines.site import until
from tests.servers import need

SEQUENCE = """
steps:
  - {name: A, command: [mark, "0.2"]}
  - {name: B, command: [mark, "1.5"]}
  - {name: C, command: [mark, "0.2"]}
"""
LONG = SEQUENCE.replace('"1.5"', '"8"')
BRANCHES = """
steps:
  - name: P
    parallel: [{name: A, command: [mark, "1"]}, {name: B, command: [mark, "1.5"]}]
  - name: L
    for_each: {items: [1, 2, 3], steps: [{name: C, command: [mark, "0.2"]}]}
"""
# For what takes 10 s: the lease and the response timeout.
LAPSED = 60

pytestmark = pytest.mark.timeout(240, func_only=True)


# --- workers that are killed ----------------------------------------------------------------------


@pytest.mark.rule("G13")
@pytest.mark.parametrize("body", [SEQUENCE, BRANCHES], ids=["sequence", "branches"])
def test_a_worker_is_killed_in_a_step_and_another_one_repeats_it(site: Site, body: str) -> None:
    worker = site.start_worker()
    case = Case(site, body)
    killed_in = "B" if body is SEQUENCE else "P/B"
    case.wait_for_work(killed_in)
    worker.kill9()
    killed = time.time()
    site.start_worker()
    until(lambda: case.marks.count("begin", killed_in) > 1, "the step to run again", LAPSED)
    print(f"continued after {time.time() - killed:.1f} s")
    case.finish()


@pytest.mark.rule("G13")
def test_a_worker_is_killed_in_a_step_that_was_handed_out(site: Site) -> None:
    site.start_worker("--slots", "0")
    worker = site.start_worker("--steps-only")
    case = Case(site, SEQUENCE)
    case.wait_for_work("B")
    worker.kill9()
    killed = time.time()
    site.start_worker("--steps-only")
    until(lambda: case.marks.count("begin", "B") > 1, "the step to run again", LAPSED)
    print(f"continued after {time.time() - killed:.1f} s")
    case.finish()


@pytest.mark.rule("G13")
def test_the_decider_is_killed_while_a_step_runs_elsewhere_which_is_not_disturbed(site: Site) -> None:
    decider = site.start_worker("--slots", "0")
    site.start_worker("--steps-only")
    case = Case(site, LONG)
    case.wait_for_work("B")
    decider.kill9()
    killed = time.time()
    site.start_worker("--slots", "0")
    case.wait_for_event("StepStarted C", LAPSED)
    print(f"continued after {time.time() - killed:.1f} s")
    case.finish()
    assert case.marks.count("begin", "B") == 1


@pytest.mark.rule("ES20")
@pytest.mark.parametrize("handed_out", [False, True], ids=["here", "handed out"])
def test_a_step_in_doubt_runs_once(site: Site, *, handed_out: bool) -> None:
    steps = ["--steps-only"] if handed_out else []
    if handed_out:
        site.start_worker("--slots", "0")
    worker = site.start_worker(*steps)
    case = Case(site, SEQUENCE.replace('"1.5"]}', '"1.5"], idempotent: false}'))
    case.wait_for_work("B")
    worker.kill9()
    site.start_worker(*steps)
    case.wait_for_event("StepInterrupted B", LAPSED)
    time.sleep(2)
    assert case.marks.count("begin", "B") == 1
    why = site.podium("why", case.run_id, "--store", site.store, "--runs", str(site.runs)).stdout
    assert "IN_DOUBT" in why or "in doubt" in why, why
    site.signal("skip-step", case.run_id, "B")
    case.process.wait()
    assert case.marks.count("begin", "B") == 1
    assert case.marks.count("begin", "C") == 1
    case.check_leftovers()


# --- workers that are stopped ---------------------------------------------------------------------


@pytest.mark.rule("EN08")
def test_a_worker_that_is_stopped_lets_its_steps_end_and_another_one_continues_at_once(site: Site) -> None:
    workers = [site.start_worker(), site.start_worker()]
    case = Case(site, SEQUENCE)
    case.wait_for_work("B")
    assert case.performer(workers).stop() == 0
    stopped = time.time()
    case.wait_for_event("StepStarted C")
    case.finish()
    assert case.marks.count("begin", "B") == 1
    print(f"continued after {time.time() - stopped:.1f} s")


@pytest.mark.rule("EN08")
@pytest.mark.parametrize("handed_out", [False, True], ids=["here", "handed out"])
def test_a_step_that_does_not_end_in_time_is_another_workers_at_once(site: Site, *, handed_out: bool) -> None:
    steps = ["--steps-only"] if handed_out else []
    if handed_out:
        site.start_worker("--slots", "0")
    workers = [site.start_worker("--drain", "0.5", *steps), site.start_worker("--drain", "0.5", *steps)]
    case = Case(site, LONG)
    case.wait_for_work("B")
    assert case.performer(workers).stop() == 0
    stopped = time.time()
    until(lambda: case.marks.count("begin", "B") > 1, "the step to run again", LAPSED)
    continued = time.time() - stopped
    print(f"continued after {continued:.1f} s")
    case.finish()
    assert continued < 8  # less than after any timeout


# --- workers that are frozen ----------------------------------------------------------------------


@pytest.mark.rule("G45")
@pytest.mark.parametrize("slots", ["8", "0"], ids=["with its steps", "without steps"])
def test_a_decider_that_was_frozen_and_thawed_writes_nothing_more(site: Site, slots: str) -> None:
    workers = [site.start_worker("--slots", slots), site.start_worker("--slots", slots)]
    site.start_worker("--steps-only")
    case = Case(site, LONG)
    case.wait_for_work("B")
    decider = case.decider(workers)
    decider.freeze()
    frozen = time.time()
    case.wait_for_event("StepStarted C", LAPSED)
    print(f"continued after {time.time() - frozen:.1f} s")
    decider.thaw()
    case.finish()
    if slots == "0":
        assert case.marks.count("begin", "B") == 1


@pytest.mark.rule("G45")
def test_a_step_worker_that_was_frozen_and_thawed_does_not_disturb_the_one_that_took_over(site: Site) -> None:
    site.start_worker("--slots", "0")
    workers = [site.start_worker("--steps-only"), site.start_worker("--steps-only")]
    case = Case(site, LONG)
    case.wait_for_work("B")
    performer = case.performer(workers)
    performer.freeze()
    case.wait_for_event("StepStarted C", LAPSED)
    performer.thaw()
    case.finish()


def test_a_worker_that_is_thawed_after_the_run_has_ended_does_nothing_more(site: Site) -> None:
    workers = [site.start_worker(), site.start_worker()]
    case = Case(site, SEQUENCE)
    case.wait_for_work("B")
    decider = case.decider(workers)
    decider.freeze()
    case.finish()
    before = case.marks.all()
    decider.thaw()
    time.sleep(3)
    assert decider.is_alive
    assert case.marks.all() == before
    case.check()


# --- the server -----------------------------------------------------------------------------------


@pytest.mark.timeout(600, func_only=True)
@pytest.mark.parametrize("handed_out", [False, True], ids=["here", "handed out"])
def test_the_server_is_killed_and_restarted_with_a_step_running(
    make_site: Callable[..., Site], own_server: ConductorServer, *, handed_out: bool
) -> None:
    site = make_site("sqlite", own_server)
    site.start_worker("--slots", "0" if handed_out else "8")
    site.start_worker("--steps-only")
    case = Case(site, SEQUENCE)
    case.wait_for_work("B")
    own_server.kill9()
    case.wait_for_work("B", "end")
    if not handed_out:
        # The deciding worker needs no server.
        case.wait_for_event("RunCompleted", LAPSED)
    own_server.restart()
    case.finish()
    assert case.marks.count("begin") == 3


@pytest.mark.timeout(600, func_only=True)
def test_the_server_is_away_while_a_run_ends(
    make_site: Callable[..., Site], own_server: ConductorServer
) -> None:
    site = make_site("sqlite", own_server)
    site.start_worker()
    case = Case(site, SEQUENCE)
    case.wait_for_work("B")
    own_server.pause()
    assert case.process.wait() == 0, case.process.output
    own_server.restart()
    case.check()


# --- the store ------------------------------------------------------------------------------------


@pytest.mark.rule("G17")
@pytest.mark.parametrize("handed_out", [False, True], ids=["here", "handed out"])
def test_the_store_is_unavailable_for_twenty_seconds(
    make_site: Callable[..., Site], database: postgres.PostgresServer, *, handed_out: bool
) -> None:
    site = make_site("sqlite")
    parts = dict(part.split("=", 1) for part in database.conninfo.split())
    site.store = f"postgresql://{parts['user']}@{parts['host']}:{parts['port']}/{parts['dbname']}"
    site.start_worker("--slots", "0" if handed_out else "8")
    site.start_worker("--steps-only")
    case = Case(site, SEQUENCE)
    case.wait_for_work("B")
    database.kill9()
    time.sleep(20)
    database.restart()
    case.finish()
    assert case.marks.count("begin") == 3


@pytest.fixture
def database() -> Iterator[postgres.PostgresServer]:
    with need(postgres.start) as server:
        yield server


# --- tasks ----------------------------------------------------------------------------------------


@pytest.mark.rule("G45")
@pytest.mark.parametrize("seed", ["1", "2"])
def test_every_task_is_delivered_twice_late_and_out_of_order(site: Site, seed: str) -> None:
    for slots in ("1", "2"):
        site.start_worker("--slots", slots, fault=f"repeat {seed}")
    case = Case(site, BRANCHES.replace("[1, 2, 3]", "[1, 2, 3], parallel: true"))
    case.finish()
    runs, _ = executions_of(site, case.run_id)
    assert len(runs) == 1


@pytest.mark.parametrize("slots", ["8", "0"], ids=["here", "handed out"])
def test_a_step_goes_to_a_worker_that_can_prepare_the_run(site: Site, slots: str) -> None:
    decider = site.start_worker("--slots", slots, fault="unprepared")
    unable = site.start_worker("--steps-only", fault="unprepared")
    case = Case(site, SEQUENCE)
    until(lambda: "not prepared" in decider.output + unable.output, "a worker that cannot")
    time.sleep(3)
    # It is not asked all the time.
    assert (decider.output + unable.output).count("not prepared") < 40
    site.start_worker("--steps-only")
    case.finish()
