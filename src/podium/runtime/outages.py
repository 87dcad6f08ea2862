"""A store that is unavailable for a while does not end a run: its driver waits for it.

What has to be stored is kept and retried, with growing delays, for as long as the budget allows. During that
time running steps continue and none starts, because nothing is performed that is not in the log. Views are
notified when the outage is detected, and when the store is back.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from datetime import timedelta
from typing import Final, TypeVar

from podium.errors import PodiumError, StoreUnavailable
from podium.log.times import Timestamp, later
from podium.ports.engine import Notice

T = TypeVar("T")

OUTAGE: Final = timedelta(seconds=300)
_FIRST_PAUSE: Final = 0.1
_MAX_PAUSE: Final = 2.0
# A shorter outage is not reported to people.
_ANNOUNCED_AFTER: Final = 1.0
_LEAVING: Final[ContextVar[asyncio.Event | None]] = ContextVar("podium_leaving", default=None)


@contextlib.contextmanager
def leaving() -> Iterator[Callable[[], None]]:
    """Yields what a person calls who does not want to wait any longer for a store that is unavailable. It
    applies to all that is done here, also before there is a run that could be asked to end.
    """
    event = asyncio.Event()
    before = _LEAVING.set(event)
    try:
        yield event.set
    finally:
        _LEAVING.reset(before)


class Outages:
    """A driver's view of its store. `budget`: how long to wait for it. `is_created`: whether the run is known to
    be in the store.
    """

    def __init__(
        self,
        run_id: str,
        now: Callable[[], Timestamp],
        *,
        budget: timedelta = timedelta(),
        notify: Callable[[Notice], None] | None = None,
        is_created: bool = True,
    ) -> None:
        self._run_id = run_id
        self._is_created = is_created
        self._now = now
        self._budget = budget.total_seconds()
        self._notify = notify
        # When the outage was detected, by the loop's clock and for people; and whether views were notified.
        self._since: tuple[float, Timestamp] | None = None
        self._is_announced = False
        self._given_up = _LEAVING.get() or asyncio.Event()
        # Whether something waits to be stored: a successful read proves nothing if the disk is full.
        self._is_waited_for = False
        # Called whenever the store is back.
        self.on_return: list[Callable[[], None]] = []

    def give_up(self) -> None:
        """Called when a person does not want to wait any longer."""
        self._given_up.set()

    async def outlast(
        self, error: StoreUnavailable, call: Callable[[], Awaitable[T]], *, tried: timedelta = timedelta()
    ) -> T:
        """Repeat a call that failed with this error, until it succeeds or the budget is spent."""
        deadline = asyncio.get_running_loop().time() + self._budget
        pause = _FIRST_PAUSE
        self._is_waited_for = True
        self._note(tried.total_seconds())
        while True:
            self.failed(error)
            await self._pause(min(pause, deadline - asyncio.get_running_loop().time()))
            if self._given_up.is_set() or asyncio.get_running_loop().time() >= deadline:
                raise self._spent(error) from error
            pause = min(2 * pause, _MAX_PAUSE)
            try:
                result = await call()
            except StoreUnavailable as again:
                error = again
            except PodiumError:
                self.stored()  # a refusal is an answer, too: the lease may have expired during the outage
                raise
            else:
                self.stored()
                return result

    def stop_waiting(self) -> None:
        """What waited to be stored is no longer needed."""
        self._is_waited_for = False

    def stored(self) -> None:
        """What had to be stored was stored or refused."""
        self._is_waited_for = False
        self.succeeded()

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(seconds, 0.0)):
                await self._given_up.wait()
        except TimeoutError:
            pass

    def failed(self, error: StoreUnavailable) -> None:
        """The store did not answer."""
        now = asyncio.get_running_loop().time()
        began, since = self._note(0.0)
        if not self._is_announced and self._budget and now - began >= _ANNOUNCED_AFTER:
            self._is_announced = True
            self._say(
                f"store unavailable since {since[11:19]} UTC, retrying for {self._budget:g} s; running steps continue, "
                f"none starts (Ctrl-C twice leaves the run): {error}"
            )

    def _note(self, ago: float) -> tuple[float, Timestamp]:
        if self._since is None:
            self._since = asyncio.get_running_loop().time() - ago, later(self._now(), -ago)
        return self._since

    def succeeded(self) -> None:
        """The store has answered."""
        if self._since is None or self._is_waited_for:
            return
        self._since = None
        if self._is_announced:
            self._is_announced = False
            self._say("the store is available again; the run continues", is_over=True)
        for call in self.on_return:
            call()

    def _say(self, text: str, *, is_over: bool = False) -> None:
        if self._notify is not None:
            self._notify(Notice("store", text, is_over))

    def _spent(self, error: StoreUnavailable) -> StoreUnavailable:
        if not self._budget:
            return error
        waited = "" if self._given_up.is_set() else f" for {self._budget:g} seconds (PODIUM_STORE_OUTAGE)"
        hint = (
            f"Run {self._run_id!r} has stopped; what is recorded is kept. When the store is back, continue with "
            f"`podium resume {self._run_id}`"
            if self._is_created
            else f"It is not known whether run {self._run_id!r} was created: when the store is back, continue it with "
            f"`podium resume {self._run_id}`, or start it again if it was not found"
        )
        return StoreUnavailable(f"the store was not available{waited}: {error}. {hint}")
