"""S3: an object store in memory that speaks the protocol (the PyPI package `moto`).

    with s3.start() as server:
        server.create_bucket("artifacts")
        S3Artifacts("artifacts", endpoint=server.endpoint, access_key_id=server.access_key_id, ...)

Nothing reaches the disk, so it shows that our requests are right, not that anything is durable. `PODIUM_TEST_S3` in
the environment names an endpoint to use instead (with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY); that one is never
stopped, and its buckets have to be there: only moto makes one for whoever asks.
"""

import importlib.util
import os
import sys
import time
import urllib.error
import urllib.request
from importlib.metadata import version as version_of
from types import TracebackType
from typing import Final

from services import supervised
from services.missing import ServiceMissing

NAME: Final = "s3"
HOW_TO_INSTALL: Final = "pip install 'moto[server,s3]'"
GIVEN: Final = "PODIUM_TEST_S3"
_SECONDS_TO_ANSWER: Final = 60.0
# A port that is free now may be taken a moment later.
_TRIES: Final = 3


class S3Server:
    """A running server."""

    def __init__(self, endpoint: str, process: supervised.Supervised | None) -> None:
        self.endpoint = endpoint
        # moto takes any; a server that was given has its own.
        self.access_key_id = os.environ.get("AWS_ACCESS_KEY_ID", "podium")
        self.secret_access_key = os.environ.get("AWS_SECRET_ACCESS_KEY", "podium-secret")
        self._process = process

    @property
    def address(self) -> str:
        """What a person needs to reach it."""
        return self.endpoint

    def create_bucket(self, name: str) -> None:
        if self._process is not None:
            _send("PUT", f"{self.endpoint}/{name}")

    def pause(self) -> None:
        """Stop it, so that nobody answers at its address."""
        if self._process is None:
            raise ServiceMissing(NAME, f"the server of {GIVEN} is not ours to stop; unset it for this test")
        self._process.order("stop")

    def resume(self) -> None:
        """Start it again, at the same address; its buckets are gone."""
        assert self._process is not None
        self._process.order("start")
        if not self.is_ready():
            raise RuntimeError(f"moto did not start again:\n{self._process.log()}")

    def stop(self) -> None:
        if self._process is not None:
            self._process.let_go()

    def is_ready(self) -> bool:
        """Wait until it answers; False if it has ended instead."""
        assert self._process is not None
        until = time.monotonic() + _SECONDS_TO_ANSWER
        while not _answers(f"{self.endpoint}/moto-api/data.json"):
            if time.monotonic() > until:
                raise RuntimeError(f"moto did not answer:\n{self._process.log()}")
            if not supervised.is_alive(self._process.pid):
                return False
            time.sleep(0.05)
        return supervised.is_alive(self._process.pid)

    def __enter__(self) -> "S3Server":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start() -> S3Server:
    """A private server, empty."""
    given = os.environ.get(GIVEN)
    if given:
        return S3Server(given, None)
    version()
    for _ in range(_TRIES):
        server = _started()
        try:
            ready = server.is_ready()
        except BaseException:
            server.stop()
            raise
        if ready:
            return server
        server.stop()
    raise RuntimeError(f"moto ended {_TRIES} times at its start; try: {sys.executable} -m moto.server")


def _started() -> S3Server:
    port = supervised.free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = supervised.start(supervised.make_folder(NAME), command, stop_signal="SIGTERM")
    return S3Server(f"http://127.0.0.1:{port}", process)


def version() -> str:
    """Of what would be started; raises `ServiceMissing`."""
    if os.environ.get(GIVEN):
        return f"given in {GIVEN}"
    # Flask is what `moto` alone does not bring.
    if importlib.util.find_spec("moto") is None or importlib.util.find_spec("flask") is None:
        raise ServiceMissing(NAME, f"not installed; {HOW_TO_INSTALL}")
    return f"moto {version_of('moto')}"


def _answers(url: str) -> bool:
    try:
        _send("GET", url)
    except (urllib.error.URLError, ConnectionError):
        return False
    return True


def _send(method: str, url: str) -> None:
    # Without a proxy: this is the same machine, whatever the environment says about the others.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, method=method), timeout=5) as answer:
        answer.read()
