"""What cannot work is refused before a run is created, with what is wrong and what to do about it."""

import asyncio
import contextlib
import http.server
import socket
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from podium.engines.conductor.client import ConductorClient
from podium.engines.conductor.connection import Connection
from podium.engines.conductor.definitions import VERSION, task_definitions, workflow_definitions
from tests.conductor.by_hand import ByHand
from tests.conductor.site import Site
from tests.engines.site import PATIENCE, until

WORKFLOW = 'version: "2.0"\nname: w\nsteps: [{name: A, command: ["true"]}]\n'


def _refused(site: Site, *more: str, code: int, workflow: str = WORKFLOW) -> str:
    """Standard error of `podium run`, which left no run behind."""
    file = site.workspace / "w.yaml"
    file.write_text(workflow)
    done = site.podium("run", str(file), "--run-id", "r", *site.options, *more, code=code)
    assert "Traceback" not in done.stderr
    listed = site.podium("runs", "list", "--store", site.store, "--runs", str(site.runs))
    assert "r " not in listed.stdout
    assert not (site.runs / "r").exists()
    return done.stderr


def _unused_url() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


@pytest.fixture
def web_page() -> Iterator[str]:
    """A server that is not Conductor."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.rule("EN16")
def test_a_server_that_does_not_answer(site: Site) -> None:
    url = _unused_url()
    said = _refused(site, "--url", url, code=69)
    assert said.startswith("ENGINE_UNAVAILABLE")
    assert url in said
    assert "--url" in said


@pytest.mark.rule("EN16")
def test_a_server_that_is_not_conductor(site: Site, web_page: str) -> None:
    said = _refused(site, "--url", web_page, code=69)
    assert said.startswith("ENGINE_UNAVAILABLE")
    assert web_page in said


@pytest.mark.rule("EN16")
def test_a_url_that_is_none(site: Site) -> None:
    assert "--url" in _refused(site, "--url", "not a url", code=78)


@pytest.mark.rule("EN16")
def test_a_token_that_cannot_be_read_or_is_shown_nowhere(site: Site, tmp_path: Path) -> None:
    said = _refused(site, "--token-file", str(tmp_path / "missing"), code=78)
    assert said.startswith("CONFIG_INVALID")
    assert "--token-file" in said
    token = tmp_path / "token"
    token.write_text("s3cret-token-of-mine\n")
    assert "s3cret" not in _refused(site, "--token-file", str(token), code=69)


@pytest.mark.rule("EN16")
def test_a_domain_without_a_worker(site: Site) -> None:
    said = _refused(site, code=69)
    assert said.startswith("NO_WORKER")
    assert f"podium worker --engine conductor --url {site.server.address}" in said


@pytest.mark.rule("EN16")
def test_a_worker_of_another_store_is_none(site: Site, tmp_path: Path) -> None:
    site.start_worker()
    assert _refused(site, "--store", str(tmp_path / "other.db"), code=69).startswith("NO_WORKER")


@pytest.mark.rule("EN16")
def test_definitions_of_a_newer_version(site: Site) -> None:
    worker, names = site.start_worker(), ByHand(site).names()

    async def define() -> None:
        async with ConductorClient(Connection(site.server.address)) as client:
            newer = [{**one, "version": VERSION + 1} for one in workflow_definitions(names)]
            await client.define(task_definitions(names), newer)

    asyncio.run(define())
    said = _refused(site, code=78)
    assert said.startswith("ENGINE_REFUSED")
    assert f"{VERSION + 1}" in said
    worker.kill9()
    refused = site.start_worker(wait=False)
    assert refused.wait() == 78
    assert "ENGINE_REFUSED" in refused.output


@pytest.mark.rule("EN16")
def test_a_worker_without_a_server_says_so(site: Site) -> None:
    done = site.podium(
        *("worker", "--engine", "conductor", "--url", _unused_url(), "--store", site.store), code=69
    )
    assert done.stderr.startswith("ENGINE_UNAVAILABLE")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("worker", "--engine", "temporal", "--url", "http://127.0.0.1:1"), "--url"),
        (("worker", "--engine", "conductor", "--address", "127.0.0.1:1"), "--address"),
        (("worker", "--engine", "temporal", "--slots", "3"), "--slots"),
        (("worker", "--engine", "temporal", "--steps-only"), "--steps-only"),
        (("worker", "--engine", "conductor", "--namespace", "x"), "--namespace"),
        (("run", "w.yaml", "--engine", "temporal", "--url", "http://127.0.0.1:1"), "--url"),
        (("run", "w.yaml", "--engine", "conductor", "--address", "127.0.0.1:1"), "--address"),
        (("run", "w.yaml", "--url", "http://127.0.0.1:1"), "--url"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, tuple) else "",
)
def test_an_option_of_another_engine(site: Site, words: tuple[str, ...], named: str) -> None:
    (site.workspace / "w.yaml").write_text(WORKFLOW)
    done = site.podium(*words, "--store", site.store, code=64)
    assert named in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.rule("G20")
def test_a_workflow_for_another_engine_is_refused(site: Site) -> None:
    site.start_worker()
    said = _refused(site, code=78, workflow=WORKFLOW.replace("name: w\n", "name: w\nengine: temporal\n"))
    assert said.startswith("CAPABILITY_NOT_SUPPORTED")


@pytest.mark.rule("G19", "EN20")
def test_a_plan_that_was_changed_in_the_store_fails_the_run_and_runs_nothing(site: Site) -> None:
    """The worker verifies again what the client has verified."""
    worker = site.start_worker()
    # A client starts a run only if a worker has asked for work.
    assert site.begin(WORKFLOW.replace("name: w\n", "name: earlier\n"), "earlier").wait(PATIENCE) == 0
    # Frozen, so that the plan is changed between the client's check and the worker's.
    worker.freeze()
    site.begin(WORKFLOW, "r")
    until(lambda: site.events_of("r") == ["RunQueued"], "the run to be created")
    with contextlib.closing(sqlite3.connect(site.store)) as database, database:
        kept = database.execute("SELECT number, content FROM contents").fetchall()
        plans = [(content.replace(b"true", b"eurt"), number) for number, content in kept]
        database.executemany("UPDATE contents SET content = ? WHERE number = ?", plans)
    worker.thaw()
    site.wait_for("r", "RunFailed")
    assert site.events_of("r") == ["RunQueued", "AlertRaised", "RunFailed"]
