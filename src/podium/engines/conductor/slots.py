"""How many attempts a worker executes concurrently, whichever runs they belong to."""

import asyncio
from collections.abc import Callable


class Slots:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._used = 0
        # Called when a slot is free, until one of them takes it; that one is moved to the end.
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
        """Acquire a slot as soon as one is free."""
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
        """Offer free slots to the waiting callbacks in turn."""
        for take in list(self._waiting):
            if not self.free:
                return
            if take():
                self._waiting.remove(take)
                self._waiting.append(take)

    def wait(self, take: Callable[[], bool]) -> None:
        """`take` returns whether it has taken a slot."""
        self._waiting.append(take)

    def leave(self, take: Callable[[], bool]) -> None:
        self._waiting.remove(take)
