"""A worker with a fault: it kills itself at a certain call of the store, or does not send some nudges.

    python -m tests.temporal.altered_worker "die before append 3" worker --engine temporal ...
    python -m tests.temporal.altered_worker "lose 10" worker --engine temporal ...

`die before|after append|start_attempt N`: SIGKILL at the Nth call. `lose N`: every Nth nudge is lost; with 1, all are.
"""

import os
import signal
import sys
from typing import Any

import podium.cli.storing
import podium.engines.temporal.client
from podium.cli import main
from podium.ports.store import Store
from podium.wiring import open_store


class DyingStore:
    """Kills the process before or after one call."""

    def __init__(self, store: Store, moment: str, call: str, number: int) -> None:
        self._store = store
        self._moment = moment
        self._call = call
        self._left = number

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return self._dying(found) if name == self._call else found

    def _dying(self, call: Any) -> Any:
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


def die(moment: str, call: str, number: str) -> None:
    async def opened(url: str, *, create: bool = False) -> Any:
        return DyingStore(await open_store(url, create=create), moment, call, int(number))

    setattr(podium.cli.storing, "open_store", opened)  # noqa: B010 - it is imported there, not defined


def lose(each: str) -> None:
    send, sent = podium.engines.temporal.client.nudge, 0

    async def nudge(client: Any, run_id: str) -> None:
        nonlocal sent
        sent += 1
        if sent % int(each) == 0:
            print("lost a nudge", flush=True)
        else:
            await send(client, run_id)

    podium.engines.temporal.client.nudge = nudge


if __name__ == "__main__":
    match sys.argv.pop(1).split():
        case ["die", moment, call, number]:
            die(moment, call, number)
        case ["lose", each]:
            lose(each)
        case unknown:
            sys.exit(f"unknown fault: {unknown}")
    main()
