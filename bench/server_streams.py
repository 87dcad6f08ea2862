"""1,000 clients of `GET /stream`: what each of them takes of the server's memory, and each frame of its time."""

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Awaitable
from pathlib import Path
from typing import Final

from bench.report import Report
from podium.access.roles import Role
from podium.log.ids import RunId
from podium.operations.tokens import NewToken, add_token
from podium.ports.store import Store
from podium.testing.events import event, new_run
from podium.wiring.stores import open_store
from podium.wiring.use_cases import use_case_parts

_CLIENTS: Final = 1000
_WAVE: Final = 50
_SECONDS: Final = 10.0
_RUN: Final = RunId("r1")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS: Final = os.sysconf("SC_CLK_TCK")


def run(report: Report) -> None:
    report.section(f"{_CLIENTS:,} stream clients of one server, all of which watch one busy run")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 8192), most))
    with tempfile.TemporaryDirectory(prefix="podium-bench-") as folder:
        asyncio.run(_measure(report, Path(folder)))


async def _measure(report: Report, folder: Path) -> None:
    store = await open_store(str(folder / "podium.db"), create=True)
    parts = use_case_parts(store, folder / "runs", lambda _text: None)
    new = NewToken(name="bench", tenant_id="default", roles=(Role.VIEWER,), expires_at=None)
    token = (await add_token(parts, new)).text
    await store.create_run(new_run(_RUN), [event(_RUN, "RunQueued")])
    server, port = await asyncio.to_thread(_started, folder)
    try:
        await _with_clients(report, store, server.pid, port, token)
    finally:
        server.terminate()
        await asyncio.to_thread(server.wait, 60)
        await store.close()


def _started(folder: Path) -> "tuple[subprocess.Popen[str], int]":
    environment = {
        **os.environ,
        "PODIUM_STORE": str(folder / "podium.db"),
        "PODIUM_RUNS": str(folder / "runs"),
        "PODIUM_CONFIG": str(folder / "config.yaml"),
    }
    (folder / "config.yaml").write_text("{}")
    command = [sys.executable, "-m", "podium.server", "--port", "0"]
    server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, cwd=folder)
    assert server.stdout is not None
    ready = server.stdout.readline()
    return server, int(ready.rpartition(":")[2].strip().strip("/"))


async def _with_clients(report: Report, store: Store, pid: int, port: int, token: str) -> None:
    # Everything that the first client loads belongs to none of them.
    first = _Client(port, token)
    await first.connected.wait()
    before = _memory(pid)
    clients: list[_Client] = []
    while len(clients) < _CLIENTS - 1:
        # Not all at the same moment: that would measure how many connections can wait to be accepted.
        some = [_Client(port, token) for _ in range(min(_WAVE, _CLIENTS - 1 - len(clients)))]
        await asyncio.gather(*(client.connected.wait() for client in some))
        clients += some
    report.goal(
        "memory for each client", (_memory(pid) - before) / len(clients) / 1000, at_most=64, unit="kB"
    )
    everyone = [first, *clients]
    idle = await _processor_seconds(pid, asyncio.sleep(_SECONDS))
    frames = sum(client.frames for client in everyone)
    busy = await _processor_seconds(pid, _write(store))
    frames = sum(client.frames for client in everyone) - frames
    report.figure("frames a second for each client", f"{frames / len(everyone) / _SECONDS:.1f}")
    report.goal("time for each frame and client", (busy - idle) / frames * 1e6, at_most=100, unit="us")
    for client in everyone:
        client.task.cancel()
    await asyncio.gather(*(client.task for client in everyone), return_exceptions=True)


class _Client:
    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._token = token
        self.frames = 0
        self.connected = asyncio.Event()
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        head = f"GET /api/v1/stream?run={_RUN} HTTP/1.1\r\nHost: localhost\r\n"
        writer.write(f"{head}Authorization: Bearer {self._token}\r\n\r\n".encode())
        try:
            while line := await reader.readline():
                if line.startswith(b"id: "):
                    self.connected.set()
                elif line.startswith(b"data: "):
                    self.frames += 1
        finally:
            writer.close()


async def _write(store: Store) -> None:
    loop = asyncio.get_running_loop()
    end, number = loop.time() + _SECONDS, 0
    while loop.time() < end:
        number += 1
        await store.append(_RUN, [event(_RUN, "AlertRaised", subject=f"{number}-{loop.time()}", code="C")])
        await asyncio.sleep(0.02)


async def _processor_seconds(pid: int, work: Awaitable[None]) -> float:
    before = _processor(pid)
    await work
    return _processor(pid) - before


def _processor(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
