"""`podium prune` removes what Conductor keeps of a run, and keeps the run if the server does not answer."""

import contextlib
import socket
import sqlite3
from collections.abc import Callable

import msgspec
import pytest

from podium.log.engines import CONDUCTOR
from tests.conductor.by_hand import ByHand
from tests.conductor.site import Site
from tests.engines.site import Process

WORKFLOW = 'version: "2.0"\nname: w\nsteps: [{name: A, command: ["true"]}, {name: B, command: ["true"]}]\n'


@pytest.fixture(scope="module")
def pruned(make_site: Callable[..., Site]) -> Site:
    """Every step is handed out."""
    site = make_site()
    site.start_worker("--slots", "0")
    site.start_worker("--steps-only")
    return site


def _prune(site: Site, *more: str) -> str:
    return site.podium("prune", "--older-than", "0m", "--store", site.store, *more).stdout


def _run(site: Site, run_id: str) -> Process:
    process = site.begin(WORKFLOW, run_id)
    assert process.wait() == 0, process.output
    ByHand(site).wait_for_status(run_id, "COMPLETED")
    return process


@pytest.mark.rule("CN06")
def test_the_executions_of_a_run_and_of_its_steps_are_removed(pruned: Site) -> None:
    by_hand = ByHand(pruned)
    _run(pruned, "whole")
    assert len(by_hand.executions_of("whole")) == 1
    assert len(by_hand.steps_of("whole", closed=True)) == 2
    assert "whole: would be removed" in _prune(pruned, "--dry-run")
    assert len(by_hand.executions_of("whole")) == 1
    assert "whole: removed" in _prune(pruned)
    assert by_hand.executions_of("whole") == []
    assert by_hand.steps_of("whole", closed=True) == []


@pytest.mark.rule("CN06")
def test_a_run_whose_server_does_not_answer_is_kept_unless_its_executions_are_left(pruned: Site) -> None:
    by_hand = ByHand(pruned)
    _run(pruned, "left")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        _move_server(pruned, f"http://127.0.0.1:{free.getsockname()[1]}")
        said = _prune(pruned)
        assert "left: kept, because its executions cannot be removed: ENGINE_UNAVAILABLE" in said
        assert "left" in pruned.podium("runs", "list", "--store", pruned.store).stdout
        assert "left: removed" in _prune(pruned, "--leave-executions")
    assert len(by_hand.executions_of("left")) == 1


def _move_server(site: Site, url: str) -> None:
    """As if all runs had been started on a server that is gone."""
    with contextlib.closing(sqlite3.connect(site.store)) as database, database:
        for run_id, metadata in database.execute("SELECT run_id, metadata FROM runs").fetchall():
            facts = msgspec.json.decode(metadata)
            facts[CONDUCTOR] |= {"url": url}
            given = (msgspec.json.encode(facts), run_id)
            database.execute("UPDATE runs SET metadata = ? WHERE run_id = ?", given)
