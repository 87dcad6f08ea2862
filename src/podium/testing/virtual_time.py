"""An event loop in which waiting takes no time.

When nothing is left to do but to wait for a timer, the loop's clock jumps to that timer. A test that waits
three seconds takes a few milliseconds, always waits exactly three seconds, and can distinguish 2.9 from 3.1.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _NoWaiting(selectors.DefaultSelector):
    """Asks the operating system what is ready without waiting; records how long the loop would have waited."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            # Only another thread or process can make progress now: wait for it, in real time.
            return super().select(0.05)
        if not ready and timeout:
            self.skipped += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._no_waiting = _NoWaiting()
        super().__init__(self._no_waiting)

    def time(self) -> float:
        return self._no_waiting.skipped


def run_virtually(coroutine: Coroutine[Any, Any, T]) -> T:
    """Like `asyncio.run`, in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(coroutine)
