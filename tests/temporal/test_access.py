"""Runs on Temporal with rules about access: a real server, workers and clients, each with a token of its own."""

import json
import signal

import pytest

from tests.engines.guarded import ASKS, FAILS, SLEEPS, Guarded
from tests.temporal.site import Site


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
        assert (actor, "worker.serve", "AUTHZ_DENIED") in guarded.decisions()
    guarded.act_as("worker").start_worker()
    assert ("worker", "worker.serve", None) in guarded.decisions()
    assert ("worker", "worker.serve", None) in guarded.decisions("other")


@pytest.mark.rule("G24", "G35")
def test_rules_hold_for_runs_on_temporal_and_every_decision_is_recorded(guarded: Guarded) -> None:
    guarded.act_as("worker").start_worker()
    assert guarded.begin("viewer", ASKS, "denied").wait() == 77
    client = guarded.begin("operator", ASKS, "r")
    guarded.site.wait_for("r", "StepStarted A")
    here = ("--tenant", "acme")
    assert "AUTHZ_DENIED" in guarded.podium("operator", "approve", "r", *here, code=77)
    assert "AUTHZ_DENIED" in guarded.podium("viewer", "cancel", "r", *here, code=77)
    unknown = guarded.podium("stranger", "cancel", "no-run", *here, code=64)
    assert guarded.podium("stranger", "cancel", "r", *here, code=64) == unknown.replace("no-run", "r")
    elsewhere = guarded.podium("stranger", "cancel", "r", "--tenant", "other", code=64)
    assert elsewhere.replace("--tenant other", "--tenant acme") == unknown.replace("no-run", "r")
    guarded.podium("boss", "approve", "r", *here)
    assert client.wait() == 0
    decisions = guarded.decisions()
    for expected in (
        ("viewer", "run.start", "AUTHZ_DENIED"),
        ("operator", "run.start", None),
        ("operator", "signal.APPROVE", "AUTHZ_DENIED"),
        ("viewer", "signal.CANCEL", "AUTHZ_DENIED"),
        ("stranger", "run.view", "AUTHZ_TENANT_FORBIDDEN"),
        ("boss", "signal.APPROVE", None),
    ):
        assert expected in decisions, decisions
    guarded.podium("boss", "audit", "verify", *here)


@pytest.mark.rule("G23", "G24")
def test_ctrl_c_of_an_operator_is_a_signal_of_theirs(guarded: Guarded) -> None:
    guarded.act_as("worker").start_worker()
    client = guarded.begin("operator", SLEEPS, "r")
    guarded.site.wait_for("r", "StepStarted A")
    client.send_signal(signal.SIGINT)
    guarded.site.wait_for("r", "StepStarted _finally/F")
    client.send_signal(signal.SIGINT)
    # EMERGENCY_STOP is for admins; a second CANCEL stops `finally`, too.
    assert client.wait() == 2
    assert guarded.signals("r") == [("CANCEL", "operator", "token")] * 2


@pytest.mark.rule("G23", "G24")
def test_a_run_on_temporal_is_retried_there_once_for_one_signal(guarded: Guarded) -> None:
    worker = guarded.act_as("worker").start_worker()
    assert guarded.begin("operator", FAILS, "r").wait() == 1
    retry = ("signal", "r", "RETRY_RUN", "--tenant", "acme", "--id", "again", "--json")
    assert "AUTHZ_DENIED" in guarded.podium("operator", *retry[:-2], "mine", code=77)
    worker.kill9()
    assert "NO_WORKER" in guarded.podium("engineer", *retry, code=69)
    assert ("engineer", "signal.RETRY_RUN", None) not in guarded.decisions()
    guarded.act_as("worker").start_worker()
    first, second = (json.loads(guarded.podium("engineer", *retry)) for _ in range(2))
    assert (first["duplicate"], second["duplicate"]) == (False, True)
    assert first["newRunId"] == second["newRunId"]
    guarded.site.wait_for(first["newRunId"], "RunFailed")
    decisions = guarded.decisions()
    assert decisions.count(("engineer", "signal.RETRY_RUN", None)) == 1
    assert guarded.site.events_of("r")[-2:] == ["RunFailed", "SignalRejected"]
