"""Runs on Conductor with rules about access: workers and clients have tokens of their own."""

import pytest

from tests.conductor.by_hand import ByHand
from tests.conductor.site import Site
from tests.engines.guarded import ASKS, Guarded
from tests.engines.site import until


@pytest.fixture
def guarded(site: Site) -> Guarded:
    return Guarded(site)


@pytest.mark.rule("G24", "G35")
def test_a_worker_needs_the_role_system_in_every_tenant(guarded: Guarded) -> None:
    for actor in ("boss", "viewer"):
        refused = guarded.act_as(actor).start_worker(wait=False)
        assert refused.wait() == 77
        assert "AUTHZ_DENIED" in refused.output
        assert "ready" not in refused.output


@pytest.mark.rule("G24", "G35", "CN04")
def test_changes_in_conductor_that_the_worker_may_not_ask_for_are_refused_and_undone(
    guarded: Guarded, site: Site
) -> None:
    """The worker has the role `system` and no other."""
    guarded.act_as("worker").start_worker()
    client, by_hand = guarded.begin("operator", ASKS, "r"), ByHand(site)
    site.wait_for("r", "StepStarted A")
    until(lambda: by_hand.task("r").callback_after_seconds > 60, "the run to be given back")
    by_hand.pause("r")
    by_hand.wait_for_status("r", "RUNNING")
    by_hand.terminate("r")
    by_hand.wait_for_status("r", "RUNNING")
    denied = [one for one in guarded.decisions() if one[2] == "AUTHZ_DENIED"]
    assert denied == [("worker", "signal.PAUSE", "AUTHZ_DENIED"), ("worker", "signal.CANCEL", "AUTHZ_DENIED")]
    guarded.podium("boss", "approve", "r", "--tenant", "acme")
    assert client.wait() == 0
    by_hand.wait_for_status("r", "COMPLETED")
    assert guarded.signals("r") == [("APPROVE", "boss", "token")]


@pytest.mark.rule("G24", "CN04")
def test_a_worker_with_the_role_operator_asks_for_what_was_changed_in_conductor(
    guarded: Guarded, site: Site
) -> None:
    config = site.folder / "config.yaml"
    config.write_text(
        config.read_text().replace("worker: system, viewer", "worker: [system, operator], viewer")
    )
    guarded.act_as("worker").start_worker()
    client, by_hand = guarded.begin("operator", ASKS, "r"), ByHand(site)
    site.wait_for("r", "StepStarted A")
    by_hand.terminate("r")
    assert client.wait() == 2
    assert guarded.signals("r") == [("CANCEL", "worker", "token")]
    assert ("worker", "signal.CANCEL", None) in guarded.decisions()
