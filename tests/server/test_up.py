"""`podium up` over a real socket: a token, a plan, a run that the worker carries out, and how it is stopped."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.site import FLOW

WAIT = 60.0


class Up:
    """A running `podium up`, in a folder of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PODIUM_")},
            "PODIUM_CONFIG": str(folder / "config.yaml"),
        }
        (folder / "config.yaml").write_text("{}")
        command = [sys.executable, "-m", "podium", "up", "--port", "0", *options]
        self.log = (folder / "up.log").open("wb")
        self.process = subprocess.Popen(
            command, cwd=folder, env=self.environment, stdout=self.log, stderr=self.log
        )
        self.port = int(self.line("ready: http://").rpartition(":")[2])
        self.token = self.podium("token", "add", "ada", "--role", "admin", "--role", "author").split()[-1]

    def line(self, start: str) -> str:
        """The newest line that starts so, as soon as there is one."""

        def found() -> str | None:
            lines = [line for line in self.output().splitlines() if line.startswith(start)]
            return lines[-1] if lines else None

        return str(until(found, lambda: f"{start!r} in {self.output()}"))

    def output(self) -> str:
        return (self.folder / "up.log").read_text()

    def podium(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "podium", *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=WAIT,
        )
        assert done.returncode == 0, done
        return done.stdout

    def ask(self, method: str, path: str, body: Any = None, *, token: str | None = "own") -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if token is not None:
            headers["Authorization"] = f"Bearer {self.token if token == 'own' else token}"
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        is_json = "json" in (answer.getheader("Content-Type") or "")
        return answer.status, json.loads(content) if is_json else content

    def children(self) -> list[int]:
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(one) for one in listed.split()]

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(WAIT)
        self.log.close()
        return code


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    running = Up(tmp_path)
    yield running
    running.stop()


def test_a_token_publishes_and_starts_over_a_socket_and_the_worker_carries_it_out(up: Up) -> None:
    assert up.ask("GET", "/healthz", token=None) == (200, b"ok")
    assert up.ask("GET", "/api/v1/runs", token=None)[0] == 401
    assert up.ask("GET", "/no/such/path", token=None)[0] == 401
    status, plan = up.ask("POST", "/api/v1/plans", {"workflow": FLOW})
    assert status == 201
    status, run = up.ask("POST", "/api/v1/runs", {"plan": plan["sha256"], "inputs": {"who": "ada"}})
    assert status == 201
    path = f"/api/v1/runs/{run['runId']}"
    until(
        lambda: up.ask("GET", path)[1]["run"]["status"] == "COMPLETED" or None,
        lambda: str(up.ask("GET", path)),
    )
    assert up.ask("GET", f"{path}/logs/Greet/1/out") == (200, b"hello ada\n")
    status, document = up.ask("GET", "/api/v1/openapi.json")
    assert (status, document["openapi"]) == (200, "3.1.0")
    children = up.children()
    assert len(children) == 2
    assert up.stop() == 0
    assert not any(Path(f"/proc/{child}").exists() for child in children)


SEARCHES = """
version: "2.0"
name: searches
steps:
  - {name: Search, command: [grep, -c, the-planted-value, FILES], allow_failure: true}
"""


def test_a_step_finds_nothing_in_the_environments_of_the_processes_that_started_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED", "the-planted-value")
    up = Up(tmp_path)
    try:
        processes = [up.process.pid, *up.children()]
        assert len(processes) == 3
        files = ", ".join(f"/proc/{one}/environ" for one in processes)
        plan = up.ask("POST", "/api/v1/plans", {"workflow": SEARCHES.replace("FILES", files)})[1]
        run = up.ask("POST", "/api/v1/runs", {"plan": plan["sha256"]})[1]
        path = f"/api/v1/runs/{run['runId']}"
        until(
            lambda: up.ask("GET", path)[1]["run"]["status"] in ("COMPLETED", "FAILED") or None,
            lambda: str(up.ask("GET", path)),
        )
        counts = up.ask("GET", f"{path}/logs/Search/1/out")[1].decode()
    finally:
        up.stop()
    assert counts == "".join(f"/proc/{one}/environ:0\n" for one in processes)


def test_a_second_signal_stops_running_steps_and_leaves_no_process_behind(up: Up) -> None:
    (up.folder / "sleeps.yaml").write_text(
        "version: 2.0\nname: sleeps\nsteps:\n  - name: a\n    shell: echo $$ > pid; sleep 600; true\n"
    )
    done = [sys.executable, "-m", "podium", "run", "sleeps.yaml", "--pool", "default", "--no-wait"]
    subprocess.run(done, cwd=up.folder, env=up.environment, capture_output=True, check=False, timeout=WAIT)
    pid = up.folder / "pid"
    step = int(until(lambda: (pid.read_text() or None) if pid.exists() else None, up.output))
    up.process.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        up.process.wait(2)
    assert Path(f"/proc/{step}").exists()
    up.process.send_signal(signal.SIGTERM)
    assert up.process.wait(WAIT) == 0
    assert not Path(f"/proc/{step}").exists()


def test_a_process_that_is_killed_is_started_again(tmp_path: Path) -> None:
    up = Up(tmp_path, "--no-worker")
    try:
        (server,) = up.children()
        os.kill(server, signal.SIGKILL)
        until(lambda: "started again" in up.output() or None, up.output)
        until(lambda: up.output().count("ready: ") == 2 or None, up.output)
        up.port = int(up.line("ready: http://").rpartition(":")[2])
        status, page = up.ask("GET", "/api/v1/runs")
        assert (status, page["runs"], page["cursor"]) == (200, [], None)
        (second,) = up.children()
        assert second != server
    finally:
        assert up.stop() == 0


def test_children_end_with_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    up = Up(tmp_path)
    children = up.children()
    up.process.kill()
    up.process.wait(WAIT)
    until(lambda: not any(is_running(child) for child in children) or None, lambda: str(children))
    up.stop()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--host", "0.0.0.0"], "tokens would cross the network in the clear"),
        (["--tls-cert", "missing.pem"], "--tls-cert and --tls-key belong together"),
    ],
)
def test_what_would_end_again_is_not_started_again(tmp_path: Path, options: list[str], reason: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "podium", "up", "--port", "0", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT,
    )
    assert done.returncode == 78, done
    assert "LISTENING_REFUSED: " in done.stderr
    assert reason in done.stderr


def test_a_port_that_is_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-m", "podium", "up", "--no-worker", "--port", port],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=WAIT,
        )
    assert done.returncode == 78, done
    assert f"port {port}" in done.stderr


def is_running(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(found: Callable[[], Any], describe: Callable[[], str]) -> Any:
    deadline = time.monotonic() + WAIT
    while (value := found()) is None:
        assert time.monotonic() < deadline, describe()
        time.sleep(0.1)
    return value
