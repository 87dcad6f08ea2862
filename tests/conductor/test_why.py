"""`podium why` for a run on Conductor: nothing is ever silently stuck."""

import contextlib
import json
import socket
import sqlite3

import msgspec
import pytest

from podium.log.engines import CONDUCTOR
from tests.conductor.by_hand import ByHand
from tests.conductor.site import Site
from tests.engines.site import until

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
    site.wait_for(run_id, "StepStarted Ask")


def _change_facts(site: Site, **changed: object) -> None:
    with contextlib.closing(sqlite3.connect(site.store)) as database, database:
        (metadata,) = database.execute("SELECT metadata FROM runs").fetchone()
        facts = msgspec.json.decode(metadata)
        facts[CONDUCTOR] |= changed
        database.execute("UPDATE runs SET metadata = ?", (msgspec.json.encode(facts),))


@pytest.mark.rule("EN17")
def test_a_run_without_a_worker_says_which_one_it_needs(site: Site) -> None:
    worker = site.start_worker()
    _begin(site, "r")
    assert _reasons(site, "r", "worker") == []
    worker.kill9()
    (reason,) = _reasons(site, "r", "worker")
    assert f"no worker serves the task domain '{site.queue}.r" in reason
    assert _why(site, "r")["substatus"] == "RECOVERING"
    shown = site.podium("why", "r", "--store", site.store, "--runs", str(site.runs)).stdout
    assert f"podium worker --engine conductor --url {site.server.address}" in shown


@pytest.mark.rule("EN14", "EN17")
def test_a_run_of_older_rules_names_the_worker_that_it_needs(site: Site) -> None:
    site.start_worker()
    _begin(site, "r")
    # As if an earlier version had created it.
    _change_facts(site, domain={"name": "tests.r1@there", "host": "there", "rules": 1})
    (reason,) = _reasons(site, "r", "worker")
    assert "started under rules 1" in reason
    assert "on host 'there'" in reason


@pytest.mark.rule("EN17")
def test_a_server_that_is_away_is_named(site: Site) -> None:
    site.start_worker()
    _begin(site, "r")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        _change_facts(site, url=url)
        (reason,) = _reasons(site, "r", "server")
        assert url in reason


@pytest.mark.rule("EN17")
@pytest.mark.parametrize("how", ["terminated", "deleted"])
def test_an_execution_that_is_gone_is_named(site: Site, how: str) -> None:
    worker, by_hand = site.start_worker(), ByHand(site)
    _begin(site, "r")
    execution = by_hand.execution_id("r")
    worker.kill9()
    if how == "terminated":
        by_hand.terminate_execution(execution)
        (reason,) = _reasons(site, "r", "execution")
        assert "terminated" in reason
    else:
        by_hand.remove(execution)
        (reason,) = _reasons(site, "r", "execution")
        assert "no execution" in reason


@pytest.mark.rule("EN17")
def test_a_step_that_no_worker_has_a_slot_for_is_named(site: Site) -> None:
    """In the log it has started; and the worker that decides carries out nothing."""
    site.start_worker("--slots", "0")
    site.begin('version: "2.0"\nname: w\nsteps: [{name: A, command: ["true"]}]\n', "r")
    site.wait_for("r", "StepStarted A")
    (reason,) = until(lambda: _reasons(site, "r", "slots"), "the step to be handed out")
    assert "step 'A' waits for a worker with a free slot" in reason
    shown = site.podium("why", "r", "--store", site.store, "--runs", str(site.runs)).stdout
    assert "--steps-only" in shown
    site.start_worker("--steps-only")
    site.wait_for("r", "RunCompleted")
