"""What people change on the page of Conductor: an operator's wish, or nothing that a run could lose.

How long it took until a worker noticed is printed. A limit that a busy machine could miss is generous.
"""

from collections.abc import Callable
from datetime import datetime

import pytest

from podium.testing.engine_promises.histories import payload_of
from tests.conductor.by_hand import ByHand
from tests.conductor.site import Site
from tests.engines.marks import Marks
from tests.engines.site import Process, until

HEADER = 'version: "2.0"\nname: w\n'
FINALLY = 'finally: [{name: F, command: ["true"]}]\n'
WAITING = f'{HEADER}steps: [{{name: Q, approval: {{message: "May it?"}}}}, {{name: Z, command: ["true"]}}]\n{FINALLY}'
STATES = ["in progress", "waiting", "paused", "paused in progress"]
# 5 s on a machine that has nothing else to do.
_NOTICED = 30.0


@pytest.fixture(scope="module")
def site(make_site: Callable[..., Site]) -> Site:
    """With two workers, which may notice the same change."""
    site = make_site()
    site.start_worker("--slots", "4")
    site.start_worker("--slots", "4")
    return site


@pytest.fixture
def by_hand(site: Site) -> ByHand:
    return ByHand(site)


class Subject:
    """A run in a state, started by a real client."""

    def __init__(self, site: Site, by_hand: ByHand, state: str, run_id: str) -> None:
        self.site, self.by_hand, self.run_id = site, by_hand, run_id
        self.is_paused = "paused" in state
        self.is_in_progress = "in progress" in state
        self._go = site.folder / f"{run_id}.go"
        self.client: Process = site.begin(self._busy() if self.is_in_progress else WAITING, run_id)
        site.wait_for(run_id, "StepStarted A" if self.is_in_progress else "StepStarted Q")
        if self.is_paused:
            site.send(run_id, "PAUSE")
            site.wait_for(run_id, "RunPaused")
            by_hand.wait_for_status(run_id, "PAUSED")
        if not self.is_in_progress:
            until(self._is_given_back, "the run to be given back")
        self.before = len(site.log_of(run_id))

    def _busy(self) -> str:
        loop = f"until [ -e {self._go} ]; do sleep 0.05; done"
        steps = f'steps: [{{name: A, command: [sh, -c, "{loop}"]}}, {{name: Z, command: ["true"]}}]\n'
        return HEADER + steps + FINALLY

    def _is_given_back(self) -> bool:
        return self.by_hand.task(self.run_id).callback_after_seconds > 60

    def noticed(self, at: float, event: str) -> None:
        """An event after the change that was made at that time."""
        site, run_id = self.site, self.run_id
        found = until(
            lambda: [one for one in site.log_of(run_id)[self.before :] if one.event_type == event],
            f"{event} of {run_id}",
            _NOTICED,
        )
        seconds = datetime.fromisoformat(found[0].persisted_at).timestamp() - at
        print(f"{run_id}: {event} after {seconds:.2f} s")

    def let_it_end(self) -> None:
        self._go.touch()
        if not self.is_in_progress:
            self.site.send(self.run_id, "APPROVE", stepId="Q")

    def ends(self, code: int, status: str) -> None:
        assert self.client.wait() == code, self.client.output
        self.by_hand.wait_for_status(self.run_id, status)


def _name(what: str, state: str) -> str:
    return f"{what}-{state.replace(' ', '-')}"


@pytest.mark.rule("CN04")
@pytest.mark.parametrize("state", ["in progress", "waiting"])
def test_a_pause_and_a_resume_in_conductor_pause_and_resume_the_run(
    site: Site, by_hand: ByHand, state: str
) -> None:
    run = Subject(site, by_hand, state, _name("pause", state))
    run.noticed(by_hand.pause(run.run_id), "RunPaused")
    if run.is_in_progress:
        shown = site.podium("why", run.run_id, "--store", site.store, "--runs", str(site.runs)).stdout
        assert "DRAINING" in shown
    by_hand.wait_for_status(run.run_id, "PAUSED")
    run.noticed(by_hand.resume(run.run_id), "RunResumed")
    run.let_it_end()
    run.ends(0, "COMPLETED")
    wishes = [one for one in by_hand.wishes(run.run_id) if one[0] != "APPROVE"]
    assert wishes == [("PAUSE", "paused in Conductor"), ("RESUME", "")]


@pytest.mark.rule("CN04")
@pytest.mark.parametrize("state", ["paused", "paused in progress"])
def test_a_paused_run_that_is_resumed_in_conductor_continues(site: Site, by_hand: ByHand, state: str) -> None:
    run = Subject(site, by_hand, state, _name("resume", state))
    run.noticed(by_hand.resume(run.run_id), "RunResumed")
    run.let_it_end()
    run.ends(0, "COMPLETED")
    assert [one[0] for one in by_hand.wishes(run.run_id) if one[0] != "APPROVE"] == ["PAUSE", "RESUME"]


@pytest.mark.rule("CN04")
@pytest.mark.parametrize("state", STATES)
def test_a_run_that_is_terminated_in_conductor_is_cancelled_and_cleans_up(
    site: Site, by_hand: ByHand, state: str
) -> None:
    run = Subject(site, by_hand, state, _name("terminate", state))
    run.noticed(by_hand.terminate(run.run_id), "SignalAccepted")
    run.ends(2, "TERMINATED")
    events = site.events_of(run.run_id)
    assert "StepCompleted _finally/F" in events
    assert events[-1] == "RunCancelled"
    cancelled = [one for one in by_hand.wishes(run.run_id) if one[0] == "CANCEL"]
    assert cancelled == [("CANCEL", "terminated in Conductor")]


@pytest.mark.rule("CN04")
@pytest.mark.parametrize("state", STATES)
def test_a_run_whose_execution_is_deleted_continues_and_a_new_one_shows_its_end(
    site: Site, by_hand: ByHand, state: str
) -> None:
    run = Subject(site, by_hand, state, _name("delete", state))
    first = by_hand.execution_id(run.run_id)
    at = by_hand.delete(run.run_id)
    until(lambda: by_hand.execution_id(run.run_id) != first, "a new execution", _NOTICED)
    print(
        f"{run.run_id}: a new execution after {by_hand.execution(run.run_id).create_time / 1000 - at:.2f} s"
    )
    if run.is_paused:
        by_hand.wait_for_status(run.run_id, "PAUSED")
        site.send(run.run_id, "RESUME")
    run.let_it_end()
    run.ends(0, "COMPLETED")
    expected = ["PAUSE", "RESUME"] if run.is_paused else []
    assert [one[0] for one in by_hand.wishes(run.run_id) if one[0] != "APPROVE"] == expected


@pytest.mark.rule("CN01", "CN04")
@pytest.mark.parametrize("state", ["in progress", "waiting"])
def test_a_server_that_has_lost_its_data_gets_definitions_and_execution_again(
    make_site: Callable[..., Site], state: str
) -> None:
    site = make_site()
    by_hand = ByHand(site)
    site.start_worker("--slots", "4")
    run = Subject(site, by_hand, state, "lost")
    first = by_hand.execution_id("lost")
    by_hand.remove_definitions()
    by_hand.delete("lost")
    until(lambda: by_hand.execution_id("lost") != first, "a new execution", _NOTICED)
    run.let_it_end()
    run.ends(0, "COMPLETED")


@pytest.mark.rule("CN04")
@pytest.mark.parametrize("how", ["retry", "restart"])
@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_an_ended_run_that_is_retried_in_conductor_ends_again_and_names_the_command_that_resumes_it(
    site: Site, by_hand: ByHand, how: str, end: str
) -> None:
    run_id = f"{how}-{end}"
    fails = f'{HEADER}steps: [{{name: A, command: ["false"]}}]\n'
    client = site.begin(fails if end == "failed" else WAITING, run_id)
    if end == "cancelled":
        site.wait_for(run_id, "StepStarted Q")
        site.send(run_id, "CANCEL", reason="no longer wanted")
    assert client.wait() == (1 if end == "failed" else 2)
    status = "FAILED" if end == "failed" else "TERMINATED"
    by_hand.wait_for_status(run_id, status)
    events = site.events_of(run_id)
    for _ in range(2):
        first = by_hand.task(run_id).task_id
        (by_hand.retry if how == "retry" else by_hand.restart)(run_id)
        until(lambda: by_hand.task(run_id).task_id != first, "a new task")  # noqa: B023
        by_hand.wait_for_status(run_id, status)
    assert f"`podium resume {run_id}`" in (by_hand.execution(run_id).reason_for_incompletion or "")
    assert site.events_of(run_id) == events


@pytest.mark.rule("CN04")
def test_a_completed_run_cannot_be_restarted_in_conductor(site: Site, by_hand: ByHand) -> None:
    assert site.begin(f'{HEADER}steps: [{{name: A, command: ["true"]}}]\n', "whole").wait() == 0
    by_hand.wait_for_status("whole", "COMPLETED")
    for change in (by_hand.retry, by_hand.restart):
        with pytest.raises(AssertionError):
            change("whole")
    assert by_hand.status("whole") == "COMPLETED"


@pytest.mark.rule("CN04")
def test_the_signal_of_a_change_is_recorded_in_the_audit_log(site: Site, by_hand: ByHand) -> None:
    run = Subject(site, by_hand, "waiting", "audited")
    run.noticed(by_hand.terminate(run.run_id), "SignalAccepted")
    run.ends(2, "TERMINATED")
    (sent,) = [payload_of(one) for one in site.log_of("audited") if one.event_type == "SignalAccepted"]
    shown = site.podium("audit", "list", "--json", "--store", site.store, "--runs", str(site.runs)).stdout
    assert shown.count(sent["signalId"]) == 1
    assert "terminated in Conductor" in shown


@pytest.mark.rule("CN04")
@pytest.mark.parametrize("how", ["terminated", "deleted"])
@pytest.mark.parametrize("state", ["in progress", "paused"])
def test_a_queued_step_whose_execution_is_removed_in_conductor_is_handed_out_again(
    queued: Site, how: str, state: str
) -> None:
    run_id, by_hand = f"{how}-{state.replace(' ', '-')}", ByHand(queued)
    marks = Marks(queued.folder, run_id)
    client = queued.begin(f'{marks.header}steps: [{{name: A, command: [mark, "0"]}}]\n', run_id)
    (first,) = until(lambda: by_hand.steps_of(run_id), "the step to be handed out")
    if state == "paused":
        queued.send(run_id, "PAUSE")
        queued.wait_for(run_id, "RunPaused")
    remove = by_hand.terminate_execution if how == "terminated" else by_hand.remove
    at = remove(first.workflow_id)
    (second,) = until(lambda: by_hand.steps_of(run_id), "the step to be handed out again", _NOTICED)
    print(f"{run_id}: handed out again after {second.create_time / 1000 - at:.2f} s")
    assert second.workflow_id != first.workflow_id
    worker = queued.start_worker("--steps-only")
    queued.wait_for(run_id, "StepCompleted A")
    if state == "paused":
        queued.send(run_id, "RESUME")
    assert client.wait() == 0
    worker.stop()
    assert (marks.count("begin"), marks.count("end")) == (1, 1)


@pytest.fixture(scope="module")
def queued(make_site: Callable[..., Site]) -> Site:
    """No worker carries anything out: what is to be done waits in Conductor's queue."""
    site = make_site()
    site.start_worker("--slots", "0")
    return site


@pytest.mark.rule("CN04")
@pytest.mark.parametrize("how", ["terminated", "deleted"])
def test_a_step_under_way_whose_execution_is_removed_in_conductor_is_carried_out_once(
    make_site: Callable[..., Site], how: str
) -> None:
    site, run_id = make_site(), f"under-way-{how}"
    by_hand, marks = ByHand(site), Marks(site.folder, run_id)
    site.start_worker("--slots", "0")
    site.start_worker("--steps-only")
    client = site.begin(f'{marks.header}steps: [{{name: A, command: [mark, "8"]}}]\n', run_id)
    until(lambda: marks.count("begin"), "the step to begin")
    (step,) = by_hand.steps_of(run_id)
    (by_hand.terminate_execution if how == "terminated" else by_hand.remove)(step.workflow_id)
    assert client.wait() == 0
    assert (marks.count("begin"), marks.count("end")) == (1, 1)
    by_hand.wait_for_status(run_id, "COMPLETED")
