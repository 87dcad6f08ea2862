"""Runs on Conductor that share a concurrency key: a run keeps its slot while it waits for a person."""

import json
from collections.abc import Callable

import pytest

from tests.conductor.by_hand import ByHand
from tests.conductor.site import Site
from tests.engines.site import until

ASKS = 'steps: [{name: Q, approval: {message: "May it?"}}]\n'
QUICK = 'steps: [{name: A, command: ["true"]}]\n'


@pytest.fixture(scope="module")
def site(make_site: Callable[..., Site]) -> Site:
    site = make_site()
    site.start_worker()
    site.start_worker()
    return site


def _workflow(key: str, steps: str, on_conflict: str = "queue") -> str:
    concurrency = f"concurrency: {{key: {key}, limit: 1, on_conflict: {on_conflict}}}\n"
    return f'version: "2.0"\nname: w\n{concurrency}{steps}'


def _begin_waiting(site: Site, key: str) -> ByHand:
    """A run that has the slot, and waits for a person without a worker."""
    by_hand = ByHand(site)
    site.begin(_workflow(key, ASKS), f"{key}-first")
    site.wait_for(f"{key}-first", "StepStarted Q")
    until(lambda: by_hand.task(f"{key}-first").callback_after_seconds > 60, "the run to be given back")
    return by_hand


def _why(site: Site, run_id: str) -> str:
    shown = site.podium("why", run_id, "--json", "--store", site.store, "--runs", str(site.runs)).stdout
    return " ".join(one["text"] for one in json.loads(shown)["waitsFor"])


@pytest.mark.rule("G47")
def test_a_run_that_waits_for_a_person_keeps_its_slot_and_gives_it_back_at_its_end(site: Site) -> None:
    _begin_waiting(site, "kept")
    second = site.begin(_workflow("kept", QUICK), "kept-second")
    site.wait_for("kept-second", "RunQueued")
    until(lambda: "kept-first" in _why(site, "kept-second"), "the second run to wait for the first")
    assert site.events_of("kept-second") == ["RunQueued"]
    site.send("kept-first", "APPROVE", stepId="Q")
    assert second.wait() == 0
    order = [site.log_of(run_id) for run_id in ("kept-first", "kept-second")]
    started = next(one for one in order[1] if one.event_type == "RunStarted")
    assert order[0][-1].persisted_at <= started.persisted_at
    ByHand(site).wait_for_status("kept-second", "COMPLETED")


@pytest.mark.rule("G47")
def test_a_run_that_may_not_wait_is_refused_while_another_one_has_the_slot(site: Site) -> None:
    by_hand = _begin_waiting(site, "reject")
    second = site.begin(_workflow("reject", QUICK, "reject"), "reject-second")
    assert second.wait() not in (0, None)
    assert "CONCURRENCY_LIMIT" in second.output
    assert site.events_of("reject-second")[-1] == "RunCancelled"
    # Its execution shows it, although it never claimed the run.
    until(
        lambda: [one.status for one in by_hand.executions_of("reject-second")] == ["TERMINATED"],
        "its execution to end",
    )
    site.send("reject-first", "CANCEL")


@pytest.mark.rule("G47")
def test_a_run_that_cancels_others_gets_the_slot_of_a_run_that_waits(site: Site) -> None:
    by_hand = _begin_waiting(site, "cancel")
    second = site.begin(_workflow("cancel", QUICK, "cancel"), "cancel-second")
    assert second.wait() == 0, second.output
    assert site.events_of("cancel-first")[-1] == "RunCancelled"
    by_hand.wait_for_status("cancel-first", "TERMINATED")


@pytest.mark.rule("G47")
@pytest.mark.parametrize("how", ["by a signal", "in Conductor"])
def test_a_run_that_waits_for_a_slot_is_cancelled(site: Site, how: str) -> None:
    key = how.replace(" ", "-").lower()
    by_hand = _begin_waiting(site, key)
    second = site.begin(_workflow(key, QUICK), f"{key}-second")
    site.wait_for(f"{key}-second", "RunQueued")
    until(lambda: f"{key}-first" in _why(site, f"{key}-second"), "the second run to wait for the first")
    if how == "by a signal":
        site.send(f"{key}-second", "CANCEL")
    else:
        (execution,) = by_hand.executions_of(f"{key}-second")
        by_hand.terminate_execution(execution.workflow_id)
    assert second.wait() == 2
    assert site.events_of(f"{key}-second")[-1] == "RunCancelled"
    assert "RunStarted" not in site.events_of(f"{key}-second")
    until(
        lambda: {one.status for one in by_hand.executions_of(f"{key}-second")} == {"TERMINATED"},
        "its execution to end",
    )
    site.send(f"{key}-first", "CANCEL")
