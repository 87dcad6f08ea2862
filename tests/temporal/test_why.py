"""`podium why` for a run on Temporal: nothing is ever silently stuck."""

import contextlib
import json
import sqlite3

import msgspec
import pytest

from podium.log.engines import TEMPORAL
from tests.engines.site import until
from tests.temporal.site import Site

WAITS = 'version: "2.0"\nname: w\nsteps: [{name: A, command: ["true"]}, {name: Ask, approval: go}]\n'


def _why(site: Site, run_id: str) -> dict[str, object]:
    said = site.podium("why", run_id, "--json", "--store", site.store, "--runs", str(site.runs)).stdout
    found: dict[str, object] = json.loads(said)
    return found


def _reasons(site: Site, run_id: str, kind: str) -> list[str]:
    waits_for = _why(site, run_id)["waitsFor"]
    assert isinstance(waits_for, list)
    return [one["text"] for one in waits_for if one["kind"] == kind]


def _begin(site: Site, run_id: str) -> None:
    """A run, which then waits for an approval."""
    site.begin(WAITS, run_id)
    until(lambda: "StepStarted Ask" in site.events_of(run_id), "the approval")


@pytest.mark.rule("EN17")
def test_a_run_without_a_worker_says_which_one_it_needs(site: Site) -> None:
    worker = site.start_worker()
    _begin(site, "r")
    assert _reasons(site, "r", "worker") == []
    worker.kill9()
    (reason,) = _reasons(site, "r", "worker")
    assert "no worker serves the queue 'tests.r" in reason
    assert _why(site, "r")["substatus"] == "RECOVERING"
    shown = site.podium("why", "r", "--store", site.store, "--runs", str(site.runs)).stdout
    assert f"podium worker --engine temporal --address {site.server.address}" in shown


@pytest.mark.rule("EN14", "EN17")
def test_a_run_of_older_rules_names_the_worker_that_it_needs(site: Site) -> None:
    site.start_worker()
    _begin(site, "r")

    # As if an earlier version had created it.
    with contextlib.closing(sqlite3.connect(site.store)) as database, database:
        (metadata,) = database.execute("SELECT metadata FROM runs").fetchone()
        facts = msgspec.json.decode(metadata)
        facts[TEMPORAL]["queues"] |= {"rules": 1, "decisions": "tests.r1@there", "host": "there"}
        database.execute("UPDATE runs SET metadata = ?", (msgspec.json.encode(facts),))
    (reason,) = _reasons(site, "r", "worker")
    assert "started under rules 1" in reason
    assert "on host 'there'" in reason


@pytest.mark.rule("EN17")
def test_an_execution_that_is_gone_is_named(site: Site) -> None:
    worker = site.start_worker()
    _begin(site, "r")
    worker.kill9()
    site.server.command(
        *("workflow", "terminate", "--workflow-id", "podium-r", "--namespace", site.namespace),
        *("--reason", "by hand"),
    )
    (reason,) = _reasons(site, "r", "execution")
    assert "terminated" in reason


def test_executions_are_found_by_tenant_and_plan(site: Site) -> None:
    site.start_worker()
    _begin(site, "r")
    query = "PodiumTenant = 'default' AND PodiumPlan = 'w'"

    def found() -> bool:
        listed = site.server.command("workflow", "list", "--namespace", site.namespace, "--query", query)
        return "podium-r" in listed

    until(found, "the execution to be found")
