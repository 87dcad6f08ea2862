"""A server and a worker on a store of their own, a client with one connection, and the processor time of a process."""

import contextlib
import http.client
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import msgspec

from podium.access.roles import Role
from podium.api import Workflow
from podium.log.ids import DEFAULT_TENANT
from podium.operations.parts import Parts
from podium.operations.published_plans import publish_workflow
from podium.operations.submitting import submit_run
from podium.operations.tokens import NewToken, add_token
from podium.ports.engine import RunRequest
from podium.wiring.agents import installed_providers

# Steps that start no process and write no file: what is measured is the engine and not `fork`.
FLOW: Final = """\
version: "2.0"
name: bench
inputs:
  who: {type: string, default: world}
steps:
  - {name: First, set: {greeting: "hello ${inputs.who}"}}
  - {name: Second, set: {done: true}}
  - {name: Third, set: {done: true}}
"""


class Site:
    """`folder`: where the store is, and the configuration."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "config.yaml").write_text("{}")
        self.environment = {
            **os.environ,
            "PODIUM_STORE": str(folder / "podium.db"),
            "PODIUM_RUNS": str(folder / "runs"),
            "PODIUM_CONFIG": str(folder / "config.yaml"),
        }

    @contextlib.contextmanager
    def process(self, *command: str) -> "Iterator[tuple[subprocess.Popen[str], str]]":
        """A process and the line with which it says that it is ready."""
        # A file: nobody reads a pipe while it serves, and the log has a line for each request.
        log = self.folder / f"{command[0]}.log"
        with log.open("w") as errors:
            started = subprocess.Popen(
                [sys.executable, "-m", *command],
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=self.folder,
            )
        assert started.stdout is not None
        try:
            ready = started.stdout.readline()
            if "ready" not in ready:
                raise RuntimeError(f"{command[0]} did not start: {log.read_text()}")
            yield started, ready
        finally:
            started.terminate()
            started.communicate(timeout=60)

    @contextlib.contextmanager
    def server(self) -> "Iterator[tuple[int, int]]":
        """Its process id and its port."""
        with self.process("podium.server", "--port", "0") as (started, ready):
            yield started.pid, port_in(ready)


def port_in(ready: str) -> int:
    found = re.search(r"http://127\.0\.0\.1:(\d+)", ready)
    assert found is not None, ready
    return int(found[1])


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return int(bound.getsockname()[1])


class Client:
    """One connection that stays open. Tokens take turns: each may ask a limited number of times a minute."""

    def __init__(self, port: int, tokens: Sequence[str]) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._tokens = cycle(tokens)

    def get(self, path: str) -> bytes:
        return self._ask("GET", path, None, 200)

    def post(self, path: str, body: Any, **headers: str) -> bytes:
        return self._ask("POST", path, msgspec.json.encode(body), 201, **headers)

    def _ask(self, method: str, path: str, body: bytes | None, status: int, **headers: str) -> bytes:
        sent = {
            "Authorization": f"Bearer {next(self._tokens)}",
            "Content-Type": "application/json",
            **headers,
        }
        self._connection.request(method, path, body, sent)
        answer = self._connection.getresponse()
        content = answer.read()
        assert answer.status == status, (answer.status, content)
        return content


async def make_tokens(parts: Parts, count: int = 10) -> list[str]:
    roles = (Role.ADMIN, Role.AUTHOR, Role.OPERATOR)
    new = [
        NewToken(name=f"bench{number}", tenant_id=DEFAULT_TENANT, roles=roles, expires_at=None)
        for number in range(count)
    ]
    return [(await add_token(parts, one)).text for one in new]


async def publish(parts: Parts) -> str:
    """The reference of the plan."""
    done = await publish_workflow(parts, DEFAULT_TENANT, FLOW.encode(), installed_providers)
    return f"{done.plan.plan_id}@{done.plan.plan_version}"


async def queue_runs(parts: Parts, folder: Path, count: int, name: str) -> None:
    plan = Workflow.parse(FLOW).plan
    for number in range(count):
        await submit_run(parts, RunRequest(plan, run_id=f"{name}-{number}", workspace=folder))


def processor_seconds(pid: int) -> float:
    """Of all its threads, to the nanosecond: `stat` counts in hundredths of a second."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(one.read_text().split()[0]) for one in threads) / 1e9


def loop_lag_p99(metrics: str) -> float:
    """The bucket in which the 99th percentile is, in seconds."""
    buckets = re.findall(r'podium_loop_lag_seconds_bucket\{le="([^"]+)"[^}]*\} ([0-9.e+]+)', metrics)
    total = float(buckets[-1][1])
    return next(float(limit) for limit, count in buckets if float(count) >= 0.99 * total)
