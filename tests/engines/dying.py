"""Workers that kill themselves at an exact call."""

import os
import signal
from typing import Any

import podium.cli.storing
from podium.ports.store import Store
from podium.wiring.stores import open_store


class Dying:
    """Kills the process before or after one call."""

    def __init__(self, moment: str, number: int) -> None:
        self._moment = moment
        self._left = number

    def at(self, call: Any) -> Any:
        async def dying(*given: Any, **named: Any) -> Any:
            self._left -= 1
            is_last = self._left == 0
            if is_last and self._moment == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            answer = await call(*given, **named)
            if is_last:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return dying


class DyingStore:
    def __init__(self, store: Store, call: str, dying: Dying) -> None:
        self._store = store
        self._call = call
        self._dying = dying

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return self._dying.at(found) if name == self._call else found


def die_at_call_of_store(moment: str, call: str, number: int) -> None:
    dying = Dying(moment, number)

    async def opened(url: str, *, create: bool = False) -> Any:
        return DyingStore(await open_store(url, create=create), call, dying)

    setattr(podium.cli.storing, "open_store", opened)  # noqa: B010 - it is imported there, not defined
