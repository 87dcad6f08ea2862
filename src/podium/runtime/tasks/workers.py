"""Warm Python processes for the functions of a run: started on first use, kept for the next call.

Each executes one call at a time, so that a call which takes too long can be ended by ending its process; the
next call gets another one. Concurrent calls use as many processes. A process has the run in its environment
and no secret; what a call may see is sent with the call, through a socket and not through a file.
"""

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from podium.plan.plan import Limits
from podium.runtime.tasks import families
from podium.runtime.tasks.commands import launched, needs_launcher
from podium.runtime.tasks.families import Family
from podium.runtime.tasks.host import TaskHost
from podium.runtime.tasks.order import TaskOrder
from podium.runtime.tasks.output import Pipe
from podium.runtime.tasks.processes import Child, spawn

_PROGRAM: Final = Path(__file__).with_name("worker.py")
# Time for what it does at its exit.
_EXIT_SECONDS: Final = 1.0


class Worker:
    def __init__(self, environment: dict[str, str], limits: Limits | None) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            # -P: the folder of the script is not on the module path, because its names are not the user's.
            argv = [sys.executable, "-P", str(_PROGRAM)]
            if needs_launcher(limits):
                argv = [*launched(limits), sys.executable, *argv]
            nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            try:
                self.child: Child = spawn(
                    argv,
                    environment,
                    program=sys.executable,
                    cwd=Path.cwd(),
                    stdin=theirs.fileno(),
                    stdout=nowhere,
                    stderr=nowhere,
                )
            except BaseException:
                ours.close()
                raise
            finally:
                os.close(nowhere)
        ours.setblocking(False)
        self._socket = ours

    async def call(self, request: dict[str, Any], pipes: tuple[Pipe, Pipe]) -> dict[str, Any] | None:
        """The result of a call; None if the process has ended."""
        loop = asyncio.get_running_loop()
        data = memoryview(msgspec.json.encode(request) + b"\n")
        try:
            # One byte always fits into the buffer of a socket, and the descriptors are sent with it.
            socket.send_fds(self._socket, [data[:1]], [pipe.writer for pipe in pipes])
            for pipe in pipes:
                pipe.close_writer()
            await loop.sock_sendall(self._socket, data[1:])
            parts = []
            while chunk := await loop.sock_recv(self._socket, 1 << 16):
                parts.append(chunk)
                if chunk.endswith(b"\n"):
                    answer: dict[str, Any] = msgspec.json.decode(b"".join(parts))
                    return answer
        except (BrokenPipeError, ConnectionResetError):
            pass
        return None

    def leave(self) -> None:
        """The process ends when its socket is closed."""
        self._socket.close()


class Workers:
    """The processes of one run."""

    def __init__(self, host: TaskHost) -> None:
        self._host = host
        self._idle: list[Worker] = []

    def take(self, order: TaskOrder, limits: Limits | None) -> Worker:
        """The most recently used one, if there is one; a step with limits gets one of its own."""
        if needs_launcher(limits):
            return Worker(self._marked(order), limits)
        while self._idle:
            worker = self._idle.pop()
            if not worker.child.ended.done():
                return worker
            worker.leave()
        return Worker(self._marked(order), None)

    def _marked(self, order: TaskOrder) -> dict[str, str]:
        """Marks for the environment, so that a process that resumes the run can find what is left of it."""
        directory = str(self._host.directory.path.absolute())
        return {**self._host.readable, "PODIUM_RUN_ID": order.run_id, "PODIUM_RUN_DIR": directory}

    async def give_back(self, worker: Worker, limits: Limits | None) -> None:
        if needs_launcher(limits):
            await self._end([worker])
        else:
            self._idle.append(worker)

    async def close(self) -> None:
        workers, self._idle = self._idle, []
        await self._end(workers)

    async def _end(self, workers: list[Worker]) -> None:
        for worker in workers:
            worker.leave()
        ends = [worker.child.ended for worker in workers]
        if ends:
            await asyncio.wait(ends, timeout=_EXIT_SECONDS)
        for worker in workers:
            family = Family("", None, worker.child.pid)
            await families.stop(family.members, main=worker.child)
