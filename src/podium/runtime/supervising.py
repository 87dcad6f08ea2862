"""Keeps processes running: each that ends is restarted, with growing delays if it keeps ending.

A process that ends because of its arguments or configuration would end again: then all are stopped.
"""

import asyncio
import ctypes
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

_FIRST_DELAY: Final = 0.5
_MAX_DELAY: Final = 30.0
# A process that ran for this long is restarted as if it had never ended.
_STABLE_SECONDS: Final = 60.0
# After the second signal: for processes to stop what they have started themselves.
_KILL_SECONDS: Final = 8.0
# Exit codes of Podium's commands: wrong usage, an invalid file, not allowed, misconfigured.
HOPELESS: Final = frozenset({2, 64, 65, 77, 78})
_PR_SET_PDEATHSIG: Final = 1


class Child(NamedTuple):
    name: str
    command: Sequence[str]
    environment: Mapping[str, str]


class Supervisor:
    """`say` is called with messages for a watching person."""

    def __init__(self, children: Sequence[Child], say: Callable[[str], None]) -> None:
        self._children = children
        self._say = say
        self._stopping = asyncio.Event()
        self._stops = 0
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._code = 0

    def stop(self) -> None:
        """Asks all processes to end, and the second time to end immediately.

        Not by killing them: the steps of a worker that is killed live on. Only what is still there after a few seconds
        is killed, or with the third time.
        """
        self._stops += 1
        self._stopping.set()
        self._signal(signal.SIGTERM if self._stops < 3 else signal.SIGKILL)
        if self._stops == 2:
            asyncio.get_running_loop().call_later(_KILL_SECONDS, self._signal, signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        for process in self._running.values():
            with suppress(ProcessLookupError):
                process.send_signal(number)

    async def run(self) -> int:
        """Runs until `stop`, or until a process ends for good, and returns its exit code."""
        await asyncio.gather(*(self._keep(child) for child in self._children))
        return self._code

    async def _keep(self, child: Child) -> None:
        delay = _FIRST_DELAY
        while not self._stopping.is_set():
            since = asyncio.get_running_loop().time()
            code = await self._carry_out(child)
            if self._stopping.is_set():
                return
            if code in HOPELESS:
                self._say(f"the {child.name} ended with exit code {code}; everything is stopped")
                self._code = code
                self.stop()
                return
            if asyncio.get_running_loop().time() - since > _STABLE_SECONDS:
                delay = _FIRST_DELAY
            self._say(f"the {child.name} ended ({_describe(code)}); it is started again in {delay:g} s")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay)
            delay = min(2 * delay, _MAX_DELAY)

    async def _carry_out(self, child: Child) -> int:
        process = await asyncio.create_subprocess_exec(
            *child.command,
            env=dict(child.environment),
            stdin=asyncio.subprocess.DEVNULL,
            # Ctrl-C is for the supervisor, which passes it on once.
            start_new_session=True,
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,
        )
        self._running[child.name] = process
        if self._stopping.is_set():
            process.terminate()
        try:
            return await process.wait()
        finally:
            del self._running[child.name]


def _end_with_parent() -> None:
    """If the supervisor is killed, its processes end as well."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _describe(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
