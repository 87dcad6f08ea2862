"""The three servers, and processes of `podium registration serve` that use them."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from psycopg.conninfo import conninfo_to_dict

import podium.nodes.registration
from services import consul, kafka, postgres

ENV: Final = "test"
NAMESPACE: Final = "fleet"
PREFIX: Final = f"{ENV}.{NAMESPACE}"
READY: Final = f"registering nodes of {PREFIX}"
CONTRACT: Final = Path(podium.nodes.registration.__file__).with_name("contract.yaml")
_UNAVAILABLE: Final = 69
_SECONDS_TO_START: Final = 120.0
_SECONDS_TO_STOP: Final = 90.0


def short_contract(folder: Path, **milliseconds: int) -> Path:
    """A copy of the contract with other times: `ack=6000`."""
    text = CONTRACT.read_text()
    for name, value in milliseconds.items():
        lines = text.splitlines()
        (found,) = [index for index, line in enumerate(lines) if line.strip().startswith(f"{name}:")]
        indent = lines[found][: -len(lines[found].lstrip())]
        lines[found] = f"{indent}{name}: {value}"
        text = "\n".join(lines) + "\n"
    path = folder / "contract.yaml"
    path.write_text(text)
    return path


def database_url(conninfo: str) -> str:
    known = conninfo_to_dict(conninfo)
    return f"postgresql://{known['user']}@{known['host']}:{known['port']}/{known['dbname']}"


class Servers:
    """Consul, PostgreSQL and Kafka of our own, which may be killed."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        # Kafka takes longest: all three start together.
        with ThreadPoolExecutor(3) as pool:
            kafka_starting = pool.submit(kafka.start, private=True)
            consul_starting = pool.submit(consul.start, durable=True, private=True)
            postgres_starting = pool.submit(postgres.start)
            waited = [one.exception() for one in (kafka_starting, consul_starting, postgres_starting)]
        for one in (kafka_starting, consul_starting, postgres_starting):
            if one.exception() is None:
                self._stack.callback(one.result().stop)
        for error in waited:
            if error is not None:
                self._stack.close()
                raise error
        self.kafka, self.consul = kafka_starting.result(), consul_starting.result()
        self.postgres = postgres_starting.result()
        return self

    @property
    def database(self) -> str:
        return database_url(self.postgres.conninfo)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


class Service:
    """How the registration is reached from a command line: everything that all of its processes share."""

    def __init__(
        self, servers: Servers, folder: Path, contract: Path, *, store: str | None = None, tick: str = "500ms"
    ) -> None:
        self.servers = servers
        self.folder = folder
        self._contract = contract
        self._tick = tick
        self._started = 0
        self.environment = {
            **os.environ,
            "PODIUM_RUNS": str(folder / "runs"),
            "PODIUM_STORE": store or str(folder / "podium.db"),
            "PODIUM_ENV": ENV,
            "PODIUM_NAMESPACE": NAMESPACE,
            "PODIUM_BUS": f"kafka://{servers.kafka.address}",
            "PODIUM_CONSUL": servers.consul.address,
            "PODIUM_REGISTRATION_DB": servers.database,
            # What a killed process held is free again after this time.
            "PODIUM_LEASE": "5",
        }

    def start(self) -> "Serving":
        self._started += 1
        command = self._command("serve", "--create-topics", "--tick", self._tick)
        command += ["--contract", str(self._contract)]
        return Serving(command, self.environment, self.folder / f"serve-{self._started}.log")

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("status", "--json"))
        return found

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            self._command(*arguments),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=_SECONDS_TO_START,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"podium registration {arguments[0]}: {done.returncode}\n{done.stderr}")
        return done.stdout

    def breakers(self, name: str) -> list[str]:
        """Of the processes that live."""
        try:
            status = self.status()
        except (RuntimeError, subprocess.TimeoutExpired):
            return []
        return [one["breakers"].get(name, "closed") for one in status["processes"] if not one["stale"]]

    @staticmethod
    def _command(*arguments: str) -> list[str]:
        return [sys.executable, "-m", "podium", "registration", *arguments]


class Serving:
    """A process of `podium registration serve`. What it prints is in a file."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Path) -> None:
        self.log = log
        with log.open("wb") as out:
            self._process = subprocess.Popen(command, env=environment, stdout=out, stderr=out)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def wait_until_ready(self) -> None:
        wait_for(lambda: READY in self.text() or not self.is_alive, "serve to be ready", _SECONDS_TO_START)
        if not self.is_alive:
            raise RuntimeError(f"serve ended with {self._process.returncode}:\n{self.text()}")

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def kill9(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """Drain it; the exit code."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(_SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            self.kill9()
            raise


class Pair:
    """Two processes of the service. One that is killed is replaced."""

    def __init__(self, service: Service, count: int = 2) -> None:
        self._service = service
        self._lock = threading.Lock()
        self.kills = 0
        self.logs: list[Path] = []
        self._serving = [self._start() for _ in range(count)]
        for one in self._serving:
            one.wait_until_ready()

    def _start(self) -> Serving:
        serving = self._service.start()
        self.logs.append(serving.log)
        return serving

    def kill(self, index: int) -> None:
        with self._lock:
            self._serving[index].kill9()
            self.kills += 1
            self._serving[index] = self._start()

    def replace_ended(self) -> list[str]:
        """Start again what has ended by itself, as a supervisor does; what those said that should not have ended.

        A process that starts while a server is away ends with the code for that.
        """
        ended = []
        with self._lock:
            for index, one in enumerate(self._serving):
                if not one.is_alive:
                    if one.exit_code != _UNAVAILABLE:
                        ended.append(f"{one.exit_code}: {one.text()}")
                    self._serving[index] = self._start()
        return ended

    def stop(self) -> list[int]:
        with ThreadPoolExecutor(len(self._serving)) as pool:
            return list(pool.map(Serving.stop, self._serving))

    def kill_all(self) -> None:
        for one in self._serving:
            one.kill9()


def wait_for(true: Callable[[], bool], what: str, seconds: float) -> None:
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(0.05)
