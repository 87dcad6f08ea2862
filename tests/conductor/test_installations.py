"""Two installations on one server do not touch each other; and tasks that Podium has not made change nothing."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from podium.engines.conductor.answers import Execution
from podium.engines.conductor.client import ConductorClient
from podium.engines.conductor.definitions import VERSION
from podium.engines.conductor.names import Domain
from tests.conductor.by_hand import ByHand
from tests.conductor.site import Site
from tests.engines.marks import Marks
from tests.engines.site import until

ASKS = (
    'steps: [{name: A, command: [mark, "0.2"]}, {name: Q, approval: go}, {name: Z, command: [mark, "0"]}]\n'
)


@pytest.mark.rule("CN03")
def test_two_installations_on_one_server_do_not_take_each_others_tasks(
    make_site: Callable[..., Site],
) -> None:
    """The same queue, host, and run ids; two stores."""
    one, other = make_site(), make_site()
    other.queue = one.queue
    for site in (one, other):
        site.start_worker("--slots", "1")
        site.start_worker("--slots", "1")
    marks = {site: Marks(site.folder, "asks") for site in (one, other)}
    clients = {site: site.begin(marks[site].header + ASKS, "same") for site in (one, other)}
    for site in (one, other):
        site.wait_for("same", "StepStarted Q")
    one.send("same", "APPROVE", stepId="Q")
    assert clients[one].wait() == 0
    ByHand(one).wait_for_status("same", "COMPLETED")
    assert "RunCompleted" not in other.events_of("same")
    assert ByHand(other).status("same") == "RUNNING"
    other.send("same", "APPROVE", stepId="Q")
    assert clients[other].wait() == 0
    ByHand(other).wait_for_status("same", "COMPLETED")
    for site in (one, other):
        assert (marks[site].count("begin"), marks[site].count("end")) == (2, 2)
        for log in site.folder.glob("worker-*.log"):
            assert "not found" not in log.read_text()


# --- forged tasks ---------------------------------------------------------------------------------


class Forger:
    """Starts executions as someone with access to the server could."""

    def __init__(self, site: Site) -> None:
        self._by_hand = ByHand(site)
        self._names = self._by_hand.names()
        self._domain = Domain.of_run(self._by_hand.run("r"))

    def step(self, **order: Any) -> str:
        return self._start(self._names.step_run, order)

    def run(self, **order: Any) -> str:
        return self._start(self._names.run, order)

    def _start(self, name: str, order: Mapping[str, Any]) -> str:
        domain, names = self._domain, self._names
        assert domain is not None

        async def start(client: ConductorClient) -> str:
            domains = domain.tasks(names)
            return await client.start(name, VERSION, correlation_id="r", order=order, domains=domains)

        return self._by_hand.ask(start)

    def ended(self, execution: str) -> Execution:
        def has_ended() -> Execution | None:
            found = self.look(execution)
            return found if not found.is_open else None

        found: Execution = until(has_ended, "the forged execution to end")
        return found

    def look(self, execution: str) -> Execution:
        found = self._by_hand.ask(lambda client: client.execution(execution, tasks=True))
        assert found is not None
        return found


@pytest.fixture(scope="module")
def forged_site(make_site: Callable[..., Site]) -> Site:
    return _with_busy_run(make_site())


def _with_busy_run(site: Site) -> Site:
    """Whose step waits for a file."""
    site.start_worker("--slots", "0")
    site.start_worker("--steps-only")
    marks = Marks(site.folder, "r")
    loop = f"mark 0; until [ -e {site.folder}/go ]; do sleep 0.1; done"
    steps = f'steps: [{{name: A, command: [sh, -c, "{loop}"]}}, {{name: Z, command: [mark, "0"]}}]\n'
    site.begin(marks.header + steps, "r")
    until(lambda: marks.count("end"), "the step to begin")
    return site


@pytest.mark.rule("CN05")
@pytest.mark.parametrize(
    "order",
    [
        {"runId": "r", "path": "A", "attempt": 1},
        {"runId": "r", "path": "A", "attempt": 2},
        {"runId": "r", "path": "A", "attempt": -1},
        {"runId": "r", "path": "Z", "attempt": 1},
        {"runId": "r", "path": "no step", "attempt": 1},
    ],
    ids=["under way already", "another attempt", "no attempt", "not reached", "no step"],
)
def test_a_forged_step_changes_nothing(forged_site: Site, order: dict[str, Any]) -> None:
    before, marks = forged_site.events_of("r"), Marks(forged_site.folder, "r")
    forger = Forger(forged_site)
    execution = forger.step(**order)
    if order == {"runId": "r", "path": "A", "attempt": 1}:
        time.sleep(1)  # it waits for the worker that has it
    else:
        assert forger.ended(execution).status == "COMPLETED"
    assert forged_site.events_of("r") == before
    assert marks.count("begin") == 1


@pytest.mark.rule("CN05")
@pytest.mark.parametrize(
    "order",
    [{}, {"runId": 5}, {"runId": "r", "path": "A"}, {"runId": "r", "path": "A", "attempt": "1"}],
    ids=["empty", "not a run id", "no attempt", "an attempt that is text"],
)
def test_a_step_with_malformed_input_fails_for_good_with_a_code(
    forged_site: Site, order: dict[str, Any]
) -> None:
    found = (forger := Forger(forged_site)).ended(forger.step(**order))
    assert found.status == "FAILED"
    assert "MALFORMED_TASK" in (found.reason_for_incompletion or "")
    assert len(found.tasks) == 1


@pytest.mark.rule("CN05")
def test_a_run_with_malformed_input_fails_for_good_with_a_code(forged_site: Site) -> None:
    for order in ({}, {"runId": ["r"]}, {"runId": "../r"}):
        found = (forger := Forger(forged_site)).ended(forger.run(**order))
        assert found.status == "FAILED"
        assert "MALFORMED_TASK" in (found.reason_for_incompletion or "")


@pytest.mark.rule("CN05")
def test_a_run_that_the_store_does_not_know_is_given_back_and_never_failed(forged_site: Site) -> None:
    forger = Forger(forged_site)
    for start in (forger.run, lambda **order: forger.step(path="A", attempt=1, **order)):
        execution = start(runId="unknown")
        until(lambda: _callback(forger.look(execution)) >= 30, "the task to be given back")  # noqa: B023
        assert forger.look(execution).status == "RUNNING"
    output = "".join(log.read_text() for log in forged_site.folder.glob("worker-*.log"))
    assert output.count("run 'unknown' not found") <= 2


def _callback(found: Execution) -> int:
    assert found.last_task is not None
    return found.last_task.callback_after_seconds


@pytest.mark.rule("CN05")
def test_a_second_execution_of_a_run_is_terminated(forged_site: Site) -> None:
    by_hand, forger = ByHand(forged_site), Forger(forged_site)
    first = by_hand.execution_id("r")
    assert forger.ended(forger.run(runId="r")).status == "TERMINATED"
    assert by_hand.execution_id("r") == first
    assert by_hand.status("r") == "RUNNING"


@pytest.mark.rule("CN05")
def test_an_execution_does_not_take_a_run_of_the_local_engine(forged_site: Site) -> None:
    site, forger = forged_site, Forger(forged_site)
    file = site.workspace / "local.yaml"
    file.write_text('version: "2.0"\nname: w\nsteps: [{name: Q, approval: {message: "May it?"}}]\n')
    site.podium(
        *("run", str(file), "--run-id", "here", "--no-wait", "--store", site.store, "--runs", str(site.runs)),
        code=5,
    )
    before = site.events_of("here")
    found = forger.ended(forger.run(runId="here"))
    assert found.status == "FAILED"
    assert "EXECUTION_REFUSED" in (found.reason_for_incompletion or "")
    found = forger.ended(forger.step(runId="here", path="Q", attempt=1))
    assert found.status == "FAILED"
    assert "EXECUTION_REFUSED" in (found.reason_for_incompletion or "")
    assert site.events_of("here") == before


@pytest.mark.rule("CN05")
def test_a_run_with_forged_steps_ends_as_if_there_were_none(site: Site) -> None:
    forged_site = _with_busy_run(site)
    forger, marks = Forger(forged_site), Marks(forged_site.folder, "r")
    twice = [forger.step(runId="r", path="A", attempt=1) for _ in range(2)]
    (forged_site.folder / "go").touch()
    forged_site.wait_for("r", "RunCompleted")
    assert [forger.ended(one).status for one in twice] == ["COMPLETED", "COMPLETED"]
    assert marks.count("begin") == 2
    ByHand(forged_site).wait_for_status("r", "COMPLETED")
