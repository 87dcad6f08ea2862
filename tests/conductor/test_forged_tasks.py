"""Tasks and executions that someone changed or made up in Conductor: no run is stuck, and nothing of it is shown."""

import pytest

from podium.engines.conductor.answers import Task
from podium.engines.conductor.client import ConductorClient
from tests.conductor.by_hand import ByHand
from tests.conductor.site import Site
from tests.engines.site import until

ASK = "{name: Ask, approval: {message: go, timeout: 8}}"
TIMED = f'version: "2.0"\nname: w\nsteps: [{ASK}]\nfinally: [{{name: F, command: ["true"]}}]\n'
WAITS = 'version: "2.0"\nname: w\nsteps: [{name: Ask, approval: go}]\n'
FAILS = 'version: "2.0"\nname: w\nsteps: [{name: A, command: ["sh", "-c", "exit 7"]}]\n'


@pytest.fixture
def by_hand(site: Site) -> ByHand:
    return ByHand(site)


def _waits(site: Site, by_hand: ByHand, workflow: str) -> Task:
    """A run that was given back; returns its task."""
    site.start_worker()
    site.begin(workflow, "r")
    site.wait_for("r", "StepStarted Ask")
    until(lambda: by_hand.task("r").callback_after_seconds, "the run to be given back")
    return by_hand.task("r")


def _forge(by_hand: ByHand, named: str, domain: str) -> str:
    """An execution of our definition with the correlation id of run `r`."""
    names = by_hand.names()

    async def start(client: ConductorClient) -> str:
        domains = {names.decider: domain}
        return await client.start(names.run, 1, correlation_id="r", order={"runId": named}, domains=domains)

    return by_hand.ask(start)


@pytest.mark.rule("CN21")
def test_the_timer_of_a_run_fires_although_its_task_was_put_off_by_hand(site: Site, by_hand: ByHand) -> None:
    task = _waits(site, by_hand, TIMED)
    by_hand.ask(lambda client: client.update(task, "IN_PROGRESS", callback_after=100_000))
    site.wait_for("r", "RunFailed")


@pytest.mark.rule("CN05")
def test_a_forged_execution_does_not_show_how_a_run_of_another_engine_ended(
    site: Site, by_hand: ByHand
) -> None:
    _waits(site, by_hand, WAITS)
    (site.folder / "fails.yaml").write_text(FAILS)
    place = ("--store", site.store, "--runs", str(site.runs))
    site.podium("run", str(site.folder / "fails.yaml"), "--run-id", "local-run", *place, code=1)
    forged = _forge(by_hand, "local-run", by_hand.task("r").domain or "")

    def reason() -> str:
        found = by_hand.ask(lambda client: client.execution(forged))
        return (found.reason_for_incompletion if found is not None else None) or ""

    assert "EXECUTION_REFUSED" in until(reason, "the forged execution to be refused")


@pytest.mark.rule("CN05")
@pytest.mark.parametrize("named", ["r", "another"])
def test_a_forged_execution_does_not_take_the_place_of_one_that_was_deleted(
    site: Site, by_hand: ByHand, named: str
) -> None:
    """No worker serves its domain, or it names another run: the run would wait for ever."""
    domain = _waits(site, by_hand, WAITS).domain or ""
    own = by_hand.execution_id("r")
    forged = _forge(by_hand, named, "no-worker" if named == "r" else domain)
    by_hand.remove(own)
    until(lambda: by_hand.execution_id("r") not in (own, forged), "another execution", 30)
    site.signal("approve", "r", "Ask")
    site.wait_for("r", "RunCompleted")


@pytest.mark.rule("CN05")
def test_a_forged_step_does_not_keep_a_step_from_being_repeated(site: Site, by_hand: ByHand) -> None:
    """It names an attempt that has started, in a domain that no worker serves; then the attempt's worker is killed."""
    worker = site.start_worker()
    site.begin('version: "2.0"\nname: w\nsteps: [{name: A, command: [sleep, "4"]}]\n', "r")
    site.wait_for("r", "StepStarted A")
    names = by_hand.names()

    async def forge(client: ConductorClient) -> str:
        order = {"runId": "r", "path": "A", "attempt": 1}
        return await client.start(
            names.step_run, 1, correlation_id="r", order=order, domains={names.step: "none"}
        )

    by_hand.ask(forge)
    worker.kill9()
    site.start_worker()
    site.wait_for("r", "RunCompleted")
