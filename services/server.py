"""What the servers that Podium starts have in common: a life, a moment when they answer, and one per test run."""

import json
import os
import time
from collections.abc import Callable
from fcntl import LOCK_EX, flock
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Final, Self, TypeVar

from services import supervised
from services.missing import ServiceMissing

# A port that is free now may be taken a moment later.
_TRIES: Final = 3


class Server:
    """A running server at an address. One that was given in the environment has no process and is left alone."""

    # What `python -m services` calls it, and what people do.
    name: ClassVar[str]
    title: ClassVar[str]
    # The variable that names a server to use instead.
    given: ClassVar[str]
    seconds_to_answer: ClassVar[float]
    look_seconds: ClassVar[float] = 0.1

    def __init__(self, address: str, process: supervised.Supervised | None) -> None:
        self.address = address
        self._process = process

    def answers(self) -> bool:
        """Whether it can be used now."""
        raise NotImplementedError

    @property
    def pid(self) -> int:
        return self.own.pid

    @property
    def own(self) -> supervised.Supervised:
        if self._process is None:
            raise ServiceMissing(
                self.name, f"the server of {self.given} is not ours to stop; unset it for this test"
            )
        return self._process

    def kill9(self) -> None:
        self.own.order("kill")

    def pause(self) -> None:
        """Stop it, so that nothing answers at its address; `restart` starts it again."""
        self.own.order("stop")

    def restart(self) -> None:
        """Stop it, unless it was killed, and start it again on the same folder and port, with what it keeps there."""
        self.own.order("start")
        if not self.is_ready():
            raise RuntimeError(f"{self.title} did not start:\n{self.own.log()}")

    def stop(self, *, wait: bool = True) -> None:
        if self._process is not None:
            self._process.let_go(wait=wait)

    def is_ready(self) -> bool:
        """Wait until it answers; False if it has ended instead."""
        until = time.monotonic() + self.seconds_to_answer
        while not self.answers():
            if time.monotonic() > until:
                raise RuntimeError(f"{self.title} did not answer:\n{self.own.log()}")
            if not supervised.is_alive(self.own.pid):
                return False
            time.sleep(self.look_seconds)
        return supervised.is_alive(self.own.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


AnyServer = TypeVar("AnyServer", bound=Server)


def given_address(kind: type[Server], *, needs_its_own: bool = False) -> str | None:
    """That of the environment. Raises `ServiceMissing` if a test cannot use it."""
    given = os.environ.get(kind.given)
    if given and needs_its_own:
        raise ServiceMissing(kind.name, f"this test needs a server of its own; unset {kind.given} for it")
    return given or None


def started(launch: Callable[[], AnyServer]) -> AnyServer:
    """A server that is ready; launched again if it ends before that."""
    ended = ""
    for _ in range(_TRIES):
        server = launch()
        try:
            is_ready = server.is_ready()
        except BaseException:
            server.stop()
            raise
        if is_ready:
            return server
        ended = f"{server.title} ended {_TRIES} times while it was starting:\n{server.own.log()}"
        server.stop()
    raise RuntimeError(ended)


def shared(
    run_folder: Path,
    name: str,
    start: Callable[[], AnyServer],
    joined: Callable[[str, supervised.Supervised], AnyServer],
) -> AnyServer:
    """The server of a test run: the first worker that asks starts it, the last one that releases it stops it."""
    run_folder.mkdir(parents=True, exist_ok=True)
    note = run_folder / f"{name}.json"
    with (run_folder / f"{name}.lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if note.exists():
            known = json.loads(note.read_text())
            process = supervised.join(Path(known["folder"]))
            if process is not None:
                return joined(known["address"], process)
        server = start()
        note.write_text(json.dumps({"folder": str(server.own.folder), "address": server.address}))
        return server
