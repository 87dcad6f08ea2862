"""The module that starts PostgreSQL keeps its own promises: it leaves nothing behind, and says what is missing."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from services import postgres
from services.missing import ServiceMissing
from services.supervised import wait_until
from tests.servers import need

_ROOT = Path(__file__).parents[3]
_START = """
import sys, time
from services import postgres
server = postgres.start(fsync=False)
print(server.pid, server._process.folder, flush=True)
time.sleep(600)
"""


@pytest.fixture
def starter() -> Iterator[subprocess.Popen[str]]:
    """Another process that has started a server."""
    need(postgres.find_binaries)
    environment = {name: value for name, value in os.environ.items() if name != postgres.GIVEN}
    process = subprocess.Popen(
        [sys.executable, "-c", _START], stdout=subprocess.PIPE, text=True, cwd=_ROOT, env=environment
    )
    with process:
        yield process
        process.kill()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_ends_with_the_process_that_started_it(
    starter: subprocess.Popen[str], how: signal.Signals
) -> None:
    assert starter.stdout is not None
    pid, folder = starter.stdout.readline().split()
    assert Path(f"/proc/{pid}").exists()
    starter.send_signal(how)
    wait_until(lambda: not Path(folder).exists(), f"{folder} to be removed", seconds=30)
    assert not Path(f"/proc/{pid}").exists()


def test_workers_share_one_server_and_the_last_one_stops_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(postgres.find_binaries)
    monkeypatch.delenv(postgres.GIVEN, raising=False)
    first = postgres.share(tmp_path, fsync=False)
    second = postgres.share(tmp_path, fsync=False)
    try:
        pid = first.pid
        assert (second.conninfo, second.pid) == (first.conninfo, pid)
        first.stop(wait=False)
        assert Path(f"/proc/{pid}").exists()
    finally:
        first.stop(wait=False)
        second.stop()
    assert not Path(f"/proc/{pid}").exists()
    third = postgres.share(tmp_path, fsync=False)
    try:
        assert third.pid != pid
    finally:
        third.stop()


def test_a_missing_server_is_named_and_fails_only_where_it_must_not_be_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(postgres, "_DEBIAN", tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ServiceMissing, match=r"postgres: not installed; apt-get install postgresql"):
        postgres.find_binaries()
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="missing service postgres: not installed"):
        need(postgres.find_binaries)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="missing service postgres: not installed"):
        need(postgres.find_binaries)


def test_a_server_that_was_given_is_used_and_never_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(postgres.GIVEN, "host=example.org dbname=x")
    with postgres.start() as server:
        assert server.conninfo == "host=example.org dbname=x"
        with pytest.raises(ServiceMissing, match="not ours to kill"):
            server.kill9()


def test_every_server_there_is_can_be_listed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "services", "list"], cwd=_ROOT, capture_output=True, text=True, check=True
    )
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert names == ["agents", "conductor", "consul", "kafka", "podman", "postgres", "s3", "ssh", "temporal"]
    assert all("installed: " in line or "missing: " in line for line in done.stdout.splitlines())
