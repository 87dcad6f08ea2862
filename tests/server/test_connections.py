"""Clients that connect and send nothing keep no other waiting, however many they are.

`PODIUM_TEST_CONNECTIONS=10000` opens as many as is promised; the suite opens more than the usual limit of descriptors.
"""

import http.client
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

CONNECTIONS = int(os.environ.get("PODIUM_TEST_CONNECTIONS", "1500"))
USUAL = 1024
WAIT = 60.0


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """Of a server that was started with the usual limit."""
    (tmp_path / "config.yaml").write_text("{}")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PODIUM_")},
        "PODIUM_CONFIG": str(tmp_path / "config.yaml"),
    }
    command = [sys.executable, "-m", "podium.server", "--port", "0"]
    limited = ["sh", "-c", f'ulimit -Sn {USUAL}; exec "$@"', "sh", *command]
    with subprocess.Popen(
        limited, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        ready = server.stdout.readline()
        yield int(ready.strip().rpartition(":")[2])
        server.terminate()
        server.communicate(timeout=WAIT)


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < CONNECTIONS + 100:
        pytest.skip(f"this user may have {before[1]} open files only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("many_descriptors")
def test_a_server_answers_beside_thousands_of_idle_connections(port: int) -> None:
    idle = []
    try:
        for number in range(CONNECTIONS):
            idle.append(socket.create_connection(("127.0.0.1", port), timeout=WAIT))
            if number % 200 == 0:
                assert answered(port)  # it has accepted those before
        assert answered(port)
    finally:
        for one in idle:
            one.close()
    assert answered(port)


def answered(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT)
    connection.request("GET", "/healthz")
    answer = connection.getresponse()
    connection.close()
    return answer.status == 200
