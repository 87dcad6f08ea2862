"""Workers of pools on the command line: whose runs they carry, what they show of themselves, and how they stop."""

import contextlib
import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.acceptance.podium import Place

SHORT = "version: 2.0\nname: short\nsteps:\n  - name: a\n    set: {x: 1}\n"
WAITS = 'version: 2.0\nname: waits\nsteps:\n  - name: ask\n    approval: {message: "Continue?"}\n'
SLEEPS = "version: 2.0\nname: sleeps\nsteps:\n  - name: a\n    shell: sleep 600\n"
LIMIT = 60.0


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.environment["PODIUM_LEASE"] = "2"
    return place


@contextlib.contextmanager
def worker(place: Place, *options: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """The process, and what it said when it was ready."""
    process = place.begin("worker", *options)
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert "ready" in ready
        yield process, ready
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=LIMIT)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def create(place: Place, workflow: str, run_id: str, *options: str, pool: str = "default") -> None:
    place.write(workflow)
    place.run("run", "w.yaml", "--pool", pool, "--run-id", run_id, "--no-wait", *options, code=5)


def status(place: Place, run_id: str, *options: str) -> str:
    return place.run("runs", "show", run_id, *options).stdout.lower()


def read(place: Place, *words: str) -> Any:
    return json.loads(place.run(*words, "--json").stdout)


def test_a_worker_without_options_serves_the_pool_and_the_tenant_default(place: Place) -> None:
    create(place, SHORT, "mine")
    create(place, SHORT, "elsewhere", pool="p")
    create(place, SHORT, "theirs", "--tenant", "acme")
    with worker(place) as (_, ready):
        assert "pool 'default';" in ready
        until(lambda: "completed" in status(place, "mine"))
    assert "pending" in status(place, "elsewhere")
    assert "pending" in status(place, "theirs", "--tenant", "acme")


def test_a_worker_serves_the_pools_and_tenants_that_it_names(place: Place) -> None:
    create(place, SHORT, "a", "--tenant", "acme", pool="p")
    create(place, SHORT, "b", "--tenant", "other", pool="q")
    create(place, SHORT, "c", pool="p")
    options = ("--pool", "p", "--pool", "q", "--tenant", "acme", "--tenant", "other")
    with worker(place, *options) as (process, ready):
        assert "pools 'p', 'q' of 'acme', 'other'" in ready
        until(lambda: "completed" in status(place, "a", "--tenant", "acme"))
        until(lambda: "completed" in status(place, "b", "--tenant", "other"))
        process.terminate()
        _, errors = process.communicate(timeout=LIMIT)
    assert "does not isolate their steps from one another" in errors
    assert "pending" in status(place, "c")


def test_a_worker_of_one_tenant_does_not_warn(place: Place) -> None:
    with worker(place, "--tenant", "acme") as (process, _):
        process.terminate()
        assert "isolate" not in process.communicate(timeout=LIMIT)[1]


def test_workers_are_listed_and_drained_by_their_id(place: Place) -> None:
    create(place, SLEEPS, "r1")
    with worker(place, "--slots", "3", "--drain", "1") as (process, ready):
        until(lambda: read(place, "workers", "list")[0]["running"] == 1)
        [one] = read(place, "workers", "list")
        assert (one["state"], one["slots"], one["pools"], one["pid"]) == (
            "serving",
            3,
            ["default"],
            process.pid,
        )
        assert f"worker {one['id']} " in ready
        assert one["id"] in place.run("workers", "list").stdout
        assert read(place, "workers", "list", "--tenant", "acme") == []
        unknown = place.run("workers", "drain", "nobody", code=64)
        assert "WORKER_NOT_FOUND: worker 'nobody' not found; `podium workers list`" in unknown.stderr
        place.run("workers", "drain", one["id"], "--tenant", "acme", code=64)
        assert "drains; 1 runs are in progress there" in place.run("workers", "drain", one["id"]).stdout
        assert process.wait(LIMIT) == 0
    assert read(place, "workers", "list") == []
    # Its run has work left, and is free for another worker.
    assert read(place, "queue")["pools"][0]["left"] == 1


def test_a_worker_that_got_sigterm_is_shown_as_draining_until_its_steps_have_ended(place: Place) -> None:
    create(place, SLEEPS, "r1")
    with worker(place, "--drain", "3600") as (process, _):
        until(lambda: read(place, "workers", "list")[0]["running"] == 1)
        process.send_signal(signal.SIGTERM)
        until(lambda: read(place, "workers", "list")[0]["state"] == "draining")
        process.send_signal(signal.SIGTERM)
        process.wait(LIMIT)


def test_a_worker_that_was_killed_is_lost(place: Place) -> None:
    with worker(place) as (process, _):
        process.kill()
        process.wait(LIMIT)
    until(lambda: read(place, "workers", "list")[0]["state"] == "lost")


def test_a_worker_ends_when_a_newer_podium_has_migrated_the_store(place: Place) -> None:
    with worker(place) as (process, _):
        with contextlib.closing(apsw.Connection(str(place.runs / "podium.db"))) as database:
            database.set_busy_timeout(10_000)
            database.execute("PRAGMA user_version = 99")
        _, errors = process.communicate(timeout=LIMIT)
        assert process.returncode == 78
        assert "STORE_VERSION: " in errors
        assert "has schema 99 and this Podium knows" in errors


def test_a_second_sigterm_does_not_wait_for_running_steps(place: Place) -> None:
    create(place, SLEEPS, "r1")
    with worker(place, "--drain", "3600") as (process, _):
        until(lambda: "sleeps" in status(place, "r1") and "running" in status(place, "r1"))
        process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT) == 128 + signal.SIGTERM
    assert read(place, "queue")["pools"][0]["left"] == 1


def test_a_limit_holds_runs_back_also_while_the_run_in_progress_is_parked(place: Place) -> None:
    assert "at most 1 runs of plan 'waits'" in place.run("limits", "set", "plan", "waits", "1").stdout
    create(place, WAITS, "first")
    create(place, WAITS, "second")
    with worker(place):
        until(lambda: read(place, "queue")["pools"][0]["parked"] == 1)
        [load] = read(place, "queue")["pools"]
        assert (load["waiting"], load["running"]) == (1, 0)
        [waiting] = read(place, "queue", "--pool", "default")["runs"]
        assert (waiting["runId"], waiting["position"]) == ("second", 1)
        place.run("approve", "first", "ask")
        until(lambda: "completed" in status(place, "first"))
        until(lambda: "ask" in place.run("why", "second").stdout)


def test_a_queued_run_behind_a_limit_can_be_cancelled(place: Place) -> None:
    place.run("limits", "set", "tenant", "0")
    create(place, SHORT, "r1")
    place.run("cancel", "r1")
    with worker(place):
        until(lambda: "cancelled" in status(place, "r1"))


def test_limits_are_set_listed_and_removed(place: Place) -> None:
    place.run("limits", "set", "tenant", "7")
    place.run("limits", "set", "project", "web", "3")
    place.run("limits", "set", "tenant", "9", "--tenant", "acme")
    assert read(place, "limits", "list") == [
        {"scope": "project", "name": "web", "limit": 3},
        {"scope": "tenant", "name": "default", "limit": 7},
    ]
    place.run("limits", "rm", "project", "web")
    assert "LIMIT_NOT_FOUND" in place.run("limits", "rm", "project", "web", code=64).stderr
    assert "web" not in place.run("limits", "list").stdout
    assert read(place, "limits", "list", "--tenant", "acme")[0]["limit"] == 9


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        (("tenant", "web", "3"), "INVALID_LIMIT: a limit of the scope 'tenant' has no name"),
        (("plan", "3"), "INVALID_LIMIT: a limit of the scope 'plan' needs a name"),
        (("plan", "a b", "3"), "INVALID_ID"),
        (("plan", "a", "2000000"), "INVALID_LIMIT: a limit of 2000000"),
        (("plan", "a", "many"), "plan nightly 3"),
        (("step", "a", "3"), "'step' is not one of"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(place: Place, given: tuple[str, ...], answer: str) -> None:
    assert answer in place.run("limits", "set", *given, code=64).stderr
    place.run("limits", "set", "tenant", "1")
    assert len(read(place, "limits", "list")) == 1
