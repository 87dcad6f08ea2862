"""`podium up` until it answers, against a process that imports the same libraries and answers a constant."""

import http.client
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from bench.report import Report, milliseconds
from bench.server_site import Site, port_in

_ROUNDS: Final = 7
_FLOOR: Final = """\
import asyncio, socket, sys
from pathlib import Path
import uvicorn
from litestar import Litestar, get
from podium.stores.sqlite import SqliteStore

@get("/healthz", media_type="text/plain", sync_to_thread=False)
def healthz() -> str:
    return "ok"

async def main() -> None:
    store = await SqliteStore.open(Path(sys.argv[1]))
    bound = socket.create_server(("127.0.0.1", 0))
    app = Litestar([healthz], openapi_config=None, logging_config=None)
    server = uvicorn.Server(uvicorn.Config(app, http="h11", lifespan="off", log_config=None))
    print(f"ready: http://127.0.0.1:{bound.getsockname()[1]}", flush=True)
    await server.serve(sockets=[bound])
    await store.close()

asyncio.run(main())
"""


def run(report: Report) -> None:
    report.section(f"Start of `podium up` until it answers, median of {_ROUNDS}")
    with tempfile.TemporaryDirectory(prefix="podium-bench-") as folder:
        site = Site(Path(folder))
        ours = [sys.executable, "-m", "podium", "up", "--port", "0"]
        floor = [sys.executable, "-c", _FLOOR, str(site.folder / "floor.db")]
        for command in (ours, floor):
            _seconds(site, command)  # compiled files are written, and the stores are made
        pairs = [(_seconds(site, ours), _seconds(site, floor)) for _ in range(_ROUNDS)]
    report.figure("podium up", milliseconds(statistics.median(one for one, _ in pairs)))
    report.figure("the same libraries", milliseconds(statistics.median(one for _, one in pairs)))
    report.goal(
        "podium up / the same libraries", statistics.median(one / base for one, base in pairs), at_most=2
    )


def _seconds(site: Site, command: list[str]) -> float:
    started = time.perf_counter()
    process = subprocess.Popen(
        command,
        env=site.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=site.folder,
    )
    assert process.stdout is not None
    try:
        connection = http.client.HTTPConnection("127.0.0.1", _port(process), timeout=60)
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 200
        return time.perf_counter() - started
    finally:
        process.terminate()
        process.communicate(timeout=60)


def _port(process: "subprocess.Popen[str]") -> int:
    assert process.stdout is not None
    # The worker says that it is ready, too.
    while line := process.stdout.readline():
        if "http://" in line:
            return port_in(line)
    raise RuntimeError("it ended before it answered")
