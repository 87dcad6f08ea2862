"""Conductor: the server's boot jar from Maven Central, with its data in a SQLite file of its own folder.

    with conductor.start() as server:
        await ConductorClient(Connection(server.address)).health()

Maven installs it into `$PODIUM_SERVICES_CACHE` (`~/.cache/podium/services` by default; 460 MB); it needs Java 21 or
newer, see `java.py`. `PODIUM_TEST_CONDUCTOR` names a server to use instead (`http://host:port`); that one is never
stopped or killed.
"""

import http.client
import json
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from services import cache, java, maven, supervised
from services.missing import ServiceMissing
from services.server import Server, given_address, shared, started

NAME: Final = "conductor"
GIVEN: Final = "PODIUM_TEST_CONDUCTOR"
VERSION: Final = "3.32.3"
LEAST_JAVA: Final = 21
HOW_TO_INSTALL: Final = "`python -m services start conductor` installs it with Maven (apt-get install maven)"
_ARTIFACT: Final = f"org.conductoross:conductor-server:{VERSION}:jar:boot"
# Starts fast and stays small; nothing is left in /tmp when it is killed.
_JAVA_FLAGS: Final = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


class Program(NamedTuple):
    java: Path
    jar: Path


class ConductorServer(Server):
    """`address` is `http://host:port`; it keeps its executions when it is restarted."""

    name, title, given = NAME, "Conductor", GIVEN
    # 16 to 25 seconds on a machine with nothing else to do.
    seconds_to_answer = 300.0
    look_seconds = 0.2

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}/health", timeout=10) as answer:
                return json.load(answer).get("healthy") is True
        except (OSError, urllib.error.URLError, http.client.HTTPException, ValueError, AttributeError):
            return False


def start(*, settings: Mapping[str, str] | None = None, private: bool = False) -> ConductorServer:
    """A server with an empty folder. `settings` are properties: `{"conductor.app.sweeperThreadCount": "2"}`.

    A test that stops it asks for a `private` one, which is never the server that was given.
    """
    given = given_address(ConductorServer, needs_its_own=bool(settings) or private)
    if given is not None:
        return ConductorServer(given.rstrip("/"), None)
    program = find()
    return started(lambda: _launch(program, settings or {}))


def share(run_folder: Path) -> ConductorServer:
    given = given_address(ConductorServer)
    if given is not None:
        return ConductorServer(given.rstrip("/"), None)
    return shared(run_folder, NAME, start, ConductorServer)


def find() -> Program:
    """What starts it; installs it if need be. Raises `ServiceMissing`."""
    folder = cache.install_once(_folder(), _install)
    return Program(java.find(NAME, LEAST_JAVA).program, folder / _jar())


def version() -> str:
    """Of what would be started; raises `ServiceMissing`."""
    if os.environ.get(GIVEN):
        return f"given in {GIVEN}"
    if not cache.is_installed(_folder()):
        raise ServiceMissing(NAME, f"conductor-server {VERSION} is not installed; {HOW_TO_INSTALL}")
    used = java.look(NAME, LEAST_JAVA)
    return f"conductor-server {VERSION} in {_folder()}, with Java {used.major} ({used.program})"


def _launch(program: Program, settings: Mapping[str, str]) -> ConductorServer:
    folder = supervised.make_folder(NAME)
    port = supervised.free_port()
    (folder / "tmp").mkdir()
    command = [
        str(program.java),
        *_JAVA_FLAGS,
        f"-Djava.io.tmpdir={folder / 'tmp'}",
        "-jar",
        str(program.jar),
    ]
    command += ["--server.address=127.0.0.1", f"--server.port={port}"]
    command += [f"--{name}={value}" for name, value in settings.items()]
    process = supervised.start(folder, command, stop_signal="SIGTERM")
    return ConductorServer(f"http://127.0.0.1:{port}", process)


def _folder() -> Path:
    return cache.folder_for(NAME, VERSION)


def _jar() -> str:
    return f"conductor-server-{VERSION}-boot.jar"


def _install(folder: Path) -> None:
    goal = f"{maven.DEPENDENCY_PLUGIN}:get"
    maven.run(NAME, folder, goal, "-Dtransitive=false", f"-Dartifact={_ARTIFACT}")
    _keep_only_the_jar(folder)


def _keep_only_the_jar(folder: Path) -> None:
    """Maven's own plugins are of no further use."""
    for found in (folder / "m2").rglob(_jar()):
        found.rename(folder / _jar())
    shutil.rmtree(folder / "m2", ignore_errors=True)
    if not (folder / _jar()).exists():
        raise ServiceMissing(NAME, f"Maven has installed no {_jar()}")
