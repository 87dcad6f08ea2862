"""Signals to a process that drives a run."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator

from podium.ports.engine import Driving
from podium.runtime.outages import leaving


@contextlib.contextmanager
def interruptible(*, immediately: bool = True, hangup: bool = True) -> Iterator[Callable[[Driving], None]]:
    """SIGINT or SIGTERM once cancels the run, twice kills it; also if the signal arrives before the run has
    started.

    While the store is unavailable, a second one leaves the run as it is, or what is being done to create it.

    SIGHUP cancels it as well, unless it was ignored when this process started (`nohup`). It never kills: when
    a terminal is closed it is sent twice, by the kernel and by the shell. `hangup` False: it ends this
    process only.

    Returns what an engine has to call when this process owns the run. `immediately` False: signals have this
    effect only from then on; a process that still waits for another one to release the run is simply
    interrupted.
    """
    asked = 0
    under_way: Driving | None = None
    loop = asyncio.get_running_loop()

    def on_hangup() -> None:
        if not asked:
            on_signal()

    def on_signal() -> None:
        nonlocal asked
        asked += 1
        if asked > 1:
            leave()
        if under_way is not None:
            under_way.cancel("interrupted", force=asked > 1)

    def on_driving(driving: Driving) -> None:
        nonlocal under_way
        under_way = driving
        if asked:
            driving.cancel("interrupted", force=asked > 1)
        if not immediately:
            listen()

    def listen() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, on_signal)
        if hangup and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            loop.add_signal_handler(signal.SIGHUP, on_hangup)

    if immediately:
        listen()
    try:
        with leaving() as leave:
            yield on_driving
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)
