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
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from fcntl import LOCK_EX, flock
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

from services import cache, java, maven, supervised
from services.missing import ServiceMissing

NAME: Final = "conductor"
GIVEN: Final = "PODIUM_TEST_CONDUCTOR"
VERSION: Final = "3.32.3"
LEAST_JAVA: Final = 21
HOW_TO_INSTALL: Final = "`python -m services start conductor` installs it with Maven (apt-get install maven)"
_ARTIFACT: Final = f"org.conductoross:conductor-server:{VERSION}:jar:boot"
# 16 to 25 seconds on a machine with nothing else to do.
_SECONDS_TO_ANSWER: Final = 300.0
# A port that is free now may be taken a moment later.
_TRIES: Final = 3
# Starts fast and stays small; nothing is left in /tmp when it is killed.
_JAVA_FLAGS: Final = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


class Program(NamedTuple):
    java: Path
    jar: Path


class ConductorServer:
    """A running server; `address` is `http://host:port`."""

    def __init__(self, address: str, process: supervised.Supervised | None) -> None:
        self.address = address
        self._process = process

    @property
    def pid(self) -> int:
        return self._own.pid

    def kill9(self) -> None:
        self._own.order("kill")

    def pause(self) -> None:
        """Stop it, so that nothing answers at its address; `restart` starts it again."""
        self._own.order("stop")

    def restart(self) -> None:
        """Stop it, unless it was killed, and start it again on the same folder and port, with its executions."""
        self._own.order("start")
        if not self.is_ready():
            raise RuntimeError(f"Conductor did not start:\n{self._own.log()}")

    def stop(self, *, wait: bool = True) -> None:
        if self._process is not None:
            self._process.let_go(wait=wait)

    def is_ready(self) -> bool:
        """Wait until it is healthy; False if it has ended instead."""
        until = time.monotonic() + _SECONDS_TO_ANSWER
        while not self.is_healthy():
            if time.monotonic() > until:
                raise RuntimeError(f"Conductor did not answer:\n{self._own.log()}")
            if not supervised.is_alive(self._own.pid):
                return False
            time.sleep(0.2)
        return supervised.is_alive(self._own.pid)

    def is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}/health", timeout=10) as answer:
                return json.load(answer).get("healthy") is True
        except (OSError, urllib.error.URLError, http.client.HTTPException, ValueError, AttributeError):
            return False

    @property
    def _own(self) -> supervised.Supervised:
        if self._process is None:
            raise ServiceMissing(NAME, f"the server of {GIVEN} is not ours to stop; unset it for this test")
        return self._process

    def __enter__(self) -> "ConductorServer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start(*, settings: Mapping[str, str] | None = None, private: bool = False) -> ConductorServer:
    """A server with an empty folder. `settings` are properties: `{"conductor.app.sweeperThreadCount": "2"}`.

    A test that stops it asks for a `private` one, which is never the server that was given.
    """
    given = os.environ.get(GIVEN)
    if given:
        if settings or private:
            raise ServiceMissing(NAME, f"this test needs a server of its own; unset {GIVEN} for it")
        return ConductorServer(given.rstrip("/"), None)
    program = find()
    log = ""
    for _ in range(_TRIES):
        server = _launch(program, settings or {})
        try:
            ready = server.is_ready()
        except BaseException:
            server.stop()
            raise
        if ready:
            return server
        log = server._own.log()
        server.stop()
    raise RuntimeError(f"Conductor ended {_TRIES} times while it was starting:\n{log}")


def share(run_folder: Path) -> ConductorServer:
    """The server of a test run: the first worker that asks starts it, the last one that lets go stops it."""
    given = os.environ.get(GIVEN)
    if given:
        return ConductorServer(given.rstrip("/"), None)
    run_folder.mkdir(parents=True, exist_ok=True)
    note = run_folder / "conductor.json"
    with (run_folder / "conductor.lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if note.exists():
            known = json.loads(note.read_text())
            process = supervised.join(Path(known["folder"]))
            if process is not None:
                return ConductorServer(known["address"], process)
        server = start()
        note.write_text(json.dumps({"folder": str(server._own.folder), "address": server.address}))
        return server


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
