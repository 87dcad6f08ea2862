"""A time limit for frequent, sequential operations that nearly always finish immediately.

It does what `asyncio.timeout` does, with one timer for all of them: setting and cancelling a timer each time
would take a tenth of the time of a step.
"""

import asyncio
from types import TracebackType


class Patience:
    """`with patience:` raises `TimeoutError` if its body waits for longer."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        # The waiting task, its deadline, and how often it had been cancelled before.
        self._waiting: asyncio.Task[object] | None = None
        self._until = 0.0
        self._cancelled_before = 0
        self._is_over = False
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        assert self._waiting is None, "one after the other"
        loop = asyncio.get_running_loop()
        self._waiting = task = asyncio.current_task()
        assert task is not None
        self._cancelled_before = task.cancelling()
        self._until = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_at(self._until, self._look, loop)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        task, self._waiting = self._waiting, None
        if self._is_over:
            self._is_over = False
            assert task is not None
            # Cancelled only by us.
            if task.uncancel() <= self._cancelled_before and kind is asyncio.CancelledError:
                raise TimeoutError from error

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if self._waiting is None:
            return
        if loop.time() < self._until:
            self._timer = loop.call_at(self._until, self._look, loop)
            return
        self._is_over = True
        self._waiting.cancel()
