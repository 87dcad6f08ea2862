"""Where a command runs, if not as our child: on another machine, or in a container.

Our child is then only a client (`ssh`, `podman`): to end the command, the place has to be asked first, and
the client's exit code does not always say how the command ended.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from podium.errors import PodiumError
from podium.runtime.tasks.order import TaskOrder
from podium.runtime.tasks.processes import Child

_LOOK_SECONDS: Final = 0.02


class PlaceProblem(PodiumError):
    """Why it is unknown how a command ended, or why it was not started."""

    # Whether the command may have taken effect.
    is_in_doubt: bool = False


class CommandPlace(Protocol):
    argv: list[str]
    env: dict[str, str]
    cwd: Path

    def open_stdin(self) -> int:
        """Standard input of the client; the caller closes it."""
        ...

    async def stop(self, child: Child, forced: Callable[[], bool]) -> None:
        """End the command. Returns when the client has ended, or when it has to be killed."""
        ...

    def problem(self, code: int) -> PlaceProblem | None:
        """The problem of a command whose client ended by itself with this exit code, if any."""
        ...

    def warnings(self) -> list[str]:
        """What a person has to know about a command that was stopped."""
        ...

    def close(self) -> None:
        """Called when the client has ended."""
        ...


async def wait_for_end(child: Child, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
    """Whether it ended in time, and before `until` became true."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not child.done() and loop.time() < deadline and not until():
        await asyncio.sleep(_LOOK_SECONDS)
    return child.done()


def marks_of(order: TaskOrder, run_dir: str) -> dict[str, str]:
    """Marks by which the client is found after a crash of its driver (D60)."""
    return {
        "PODIUM_RUN_ID": order.run_id,
        "PODIUM_RUN_DIR": run_dir,
        "PODIUM_VISIT": order.visit,
    }
