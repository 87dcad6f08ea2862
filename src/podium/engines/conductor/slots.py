"""How many attempts a worker carries out at the same time, whichever runs they are of."""

import asyncio
from collections.abc import Callable


class Slots:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._used = 0
        # Called when one is free, until one of them takes it; that one is the last one next time.
        self._waiting: list[Callable[[], bool]] = []

    @property
    def free(self) -> int:
        return self.limit - self._used

    def take(self) -> bool:
        if self._used >= self.limit:
            return False
        self._used += 1
        return True

    async def acquire(self) -> None:
        """As soon as one is free."""
        if self.take():
            return
        free = asyncio.Event()

        def take() -> bool:
            if free.is_set() or not self.take():
                return False
            free.set()
            return True

        self.wait(take)
        try:
            await free.wait()
        except asyncio.CancelledError:
            if free.is_set():
                self.give()
            raise
        finally:
            self.leave(take)

    def give(self) -> None:
        self._used -= 1
        self.offer()

    def offer(self) -> None:
        """Free ones to those that wait, in turn."""
        for take in list(self._waiting):
            if not self.free:
                return
            if take():
                self._waiting.remove(take)
                self._waiting.append(take)

    def wait(self, take: Callable[[], bool]) -> None:
        """`take` says whether it has taken one."""
        self._waiting.append(take)

    def leave(self, take: Callable[[], bool]) -> None:
        self._waiting.remove(take)
