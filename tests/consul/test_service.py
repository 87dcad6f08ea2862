"""The module that starts Consul: it is built outside the project, leaves nothing behind, names what is missing."""

import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from services import cache, consul, supervised
from services.missing import ServiceMissing
from services.supervised import wait_until
from tests.servers import need

_ROOT = Path(__file__).parents[2]
_START = """
import time
from services import consul
server = consul.start()
print(server.pid, server.own.folder, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _own_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(consul.GIVEN, raising=False)


@pytest.fixture
def starter(consul_program: None) -> Iterator[subprocess.Popen[str]]:
    """Another process that has started a server."""
    process = subprocess.Popen([sys.executable, "-c", _START], stdout=subprocess.PIPE, text=True, cwd=_ROOT)
    with process:
        yield process
        process.kill()


def test_a_server_ends_with_the_process_that_started_it(starter: subprocess.Popen[str]) -> None:
    assert starter.stdout is not None
    pid, folder = starter.stdout.readline().split()
    assert Path(f"/proc/{pid}").exists()
    starter.kill()
    wait_until(lambda: not Path(folder).exists(), f"{folder} to be removed", seconds=60)
    assert not Path(f"/proc/{pid}").exists()


def test_workers_share_one_server_and_the_last_one_stops_it(consul_program: None, tmp_path: Path) -> None:
    first = consul.share(tmp_path)
    second = consul.share(tmp_path)
    try:
        pid, folder = first.pid, first.own.folder
        assert (second.address, second.pid) == (first.address, pid)
        first.stop(wait=False)
        assert consul.answers(second.address)
    finally:
        first.stop(wait=False)
        second.stop()
    assert not Path(f"/proc/{pid}").exists()
    assert not folder.exists()


def test_a_durable_server_listens_on_loopback_only_and_keeps_its_data_when_it_is_killed_or_stopped(
    consul_program: None,
) -> None:
    with consul.start(durable=True) as server:
        assert server.address.startswith("http://127.0.0.1:")
        _put(server, "/v1/kv/kept", "1")
        killed = server.pid
        server.kill9()
        assert not Path(f"/proc/{killed}").exists()
        assert not consul.answers(server.address)
        server.restart()
        assert _keys(server) == ["kept"]
        server.pause()
        assert not consul.answers(server.address)
        server.restart()
        assert _keys(server) == ["kept"]


def _put(server: consul.ConsulServer, path: str, body: str) -> None:
    request = urllib.request.Request(f"{server.address}{path}", body.encode(), method="PUT")
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200


def _keys(server: consul.ConsulServer) -> list[str]:
    # Right after an election the leader may still have to catch up.
    with urllib.request.urlopen(f"{server.address}/v1/kv/?keys&consistent") as answer:
        found: list[str] = json.load(answer)
    return found


def test_a_server_whose_port_was_taken_looks_for_another_one(
    consul_program: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ports = [taken.getsockname()[1]]
        free = supervised.free_port
        monkeypatch.setattr(supervised, "free_port", lambda: ports.pop() if ports else free())
        with consul.start() as server:
            assert consul.answers(server.address)
            assert not server.address.endswith(f":{taken.getsockname()[1]}")


def test_a_server_that_ends_while_it_starts_is_reported_with_its_log(consul_program: None) -> None:
    with pytest.raises(RuntimeError, match=r"(?s)Consul ended .*no_such_setting"):
        consul.start(settings={"no_such_setting": True})


def test_a_server_without_go_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(cache.CACHE, str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServiceMissing, match=r"is not installed; `python -m services install consul`"):
        consul.version()
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="missing service consul: there is no go"):
        need(consul.start)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="missing service consul: there is no go"):
        need(consul.start)
    assert not (consul._folder() / "complete").exists()


def test_a_server_that_cannot_be_built_is_missing_and_the_project_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(cache.CACHE, str(tmp_path / "cache"))
    go = tmp_path / "go"
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    go.write_text("#!/bin/sh\ntouch left-behind\necho no such module >&2\nexit 1\n")
    go.chmod(0o755)
    with pytest.raises(ServiceMissing, match="Go failed: no such module"):
        consul.start()
    done = _services("install", "consul")
    assert (done.returncode, done.stderr) == (1, "missing consul: Go failed: no such module\n")
    assert {file.name for file in consul._MODULE.iterdir()} == {"go.mod", "go.sum", "tools.go"}


def test_a_server_that_was_given_is_used_and_never_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(consul.GIVEN, "http://consul.example.org:8500")
    assert consul.version() == "given in PODIUM_TEST_CONSUL"
    with consul.start() as server:
        assert server.address == "http://consul.example.org:8500"
        with pytest.raises(ServiceMissing, match="not ours to stop"):
            server.kill9()
    with pytest.raises(ServiceMissing, match="needs a server of its own"):
        consul.start(private=True)
    with pytest.raises(ServiceMissing, match="needs a server of its own"):
        consul.start(durable=True)


def test_the_command_knows_consul(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(cache.CACHE, str(tmp_path))
    assert "consul       missing: consul 1.22.0 is not installed" in _services("list").stdout


def _services(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "services", *arguments], cwd=_ROOT, capture_output=True, text=True, check=False
    )


def test_all_tests_start_the_build_before_the_unit_tests() -> None:
    """Where a machine has no Consul yet, it is built beside them."""
    shown = subprocess.run(
        ["make", "-n", "test"], cwd=_ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert shown.index("services install consul") < shown.index("tests/unit")
