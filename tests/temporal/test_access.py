"""Runs on Temporal with rules about access: a real server, workers and clients, each with a token of its own."""

import asyncio
import json
import signal
from hashlib import sha256
from typing import Any

import pytest

from podium.log.events import EventType
from podium.ports.store import Store
from tests.engines.site import Process
from tests.temporal.site import Site

RULES = """
access:
  audit_key: file:audit.key
  tenants:
    acme:
      users: {boss: [admin, approver], operator: operator, engineer: engineer, worker: system, viewer: viewer}
    other:
      users: {stranger: [admin, approver], worker: system}
  tokens:
"""
ACTORS = ("boss", "operator", "engineer", "worker", "viewer", "stranger")
ASKS = 'version: "2.0"\nname: w\nsteps: [{name: A, approval: {message: "sure?"}}]\n'
SLEEPS = """
version: "2.0"
name: w
steps: [{name: A, command: [sleep, "60"]}]
finally: [{name: F, command: [sleep, "60"]}]
"""
FAILS = 'version: "2.0"\nname: w\nsteps: [{name: A, command: ["false"]}]\n'


class Guarded:
    """A site with rules."""

    def __init__(self, site: Site) -> None:
        self.site = site
        tokens = "".join(f"    {name}: sha256:{sha256(name.encode()).hexdigest()}\n" for name in ACTORS)
        config = site.folder / "config.yaml"
        config.write_text(RULES + tokens)
        config.chmod(0o600)
        (site.folder / "audit.key").write_bytes(b"k" * 32)
        (site.folder / "audit.key").chmod(0o600)
        site.environment["PODIUM_CONFIG"] = str(config)

    def act_as(self, actor: str) -> Site:
        self.site.environment["PODIUM_TOKEN"] = actor
        return self.site

    def podium(self, actor: str, *arguments: str, code: int = 0) -> str:
        site = self.act_as(actor)
        done = site.podium(*arguments, "--store", site.store, "--runs", str(site.runs), code=code)
        return done.stdout + done.stderr

    def begin(self, actor: str, workflow: str, run_id: str) -> Process:
        return self.act_as(actor).begin(workflow, run_id, "--tenant", "acme")

    def audit(self, tenant: str = "acme") -> list[dict[str, Any]]:
        async def read(store: Store) -> list[dict[str, Any]]:
            return [json.loads(one.content) for one in await store.read_audit(tenant)]

        found: list[dict[str, Any]] = asyncio.run(self.site.with_store(read))
        return found

    def signals(self, run_id: str) -> list[tuple[str, str, str]]:
        """Those that were accepted: what, by whom, and how that is known."""
        said = [
            json.loads(one.payload)
            for one in self.site.log_of(run_id)
            if one.event_type == EventType.SIGNAL_ACCEPTED
        ]
        return [(one["signalType"], one.get("by"), one.get("byMethod")) for one in said]

    def decisions(self, tenant: str = "acme") -> list[tuple[str, str, str | None]]:
        """Actor, operation, and the code of a refusal."""
        return [(one["actor"], one["operation"], one.get("code")) for one in self.audit(tenant)]


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
