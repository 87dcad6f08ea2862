"""An order to execute one attempt of a step, its result, and how it is stopped."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, Literal, Protocol

import msgspec

from podium.expressions.evaluate import MISSING, Lookup
from podium.log.events import EventType
from podium.log.ids import RunId
from podium.machine.answers import error_category, stopped_payload
from podium.plan.plan import Step, Workflow
from podium.plan.secret_inputs import secret_of_input
from podium.text import without_credentials

# Exit codes of attempts that have no exit code of their own (D17).
FAILED_BEFORE_START: Final = 125
NOT_EXECUTABLE: Final = 126
NOT_FOUND: Final = 127
TIMED_OUT: Final = 124
_PLACES: Final = frozenset({("run", "dir"), ("run", "artifacts"), ("run", "workspace")})


class TaskOrder(msgspec.Struct, frozen=True, eq=False):
    """Everything a performer needs to know about an attempt."""

    run_id: RunId
    path: str
    attempt: int
    engine_attempt: int
    step: Step
    # The workflow that contains the step, for its environment and limits.
    workflow: Workflow
    values: dict[tuple[str | int, ...], Any]
    # Values of the host: `${env.X}` and `${run.X}`.
    env: dict[str, str]
    run: dict[str, Any]
    # False if it is known that no text of the step or of its workflow contains a reference.
    may_name_values: bool = True
    # A signal has changed the step: it differs from the plan's step at this path.
    is_changed: bool = False
    # Whether the driver or worker that ordered it still has its lease.
    lease_holds: Callable[[], bool] = lambda: True

    @property
    def visit(self) -> str:
        """What the processes of this attempt have in their environment."""
        return visit_name(self.path, self.attempt)

    @property
    def lookup(self) -> Lookup:
        """The values for the references in the step's texts."""

        def look(path: tuple[str | int, ...]) -> Any:
            # Values from the time of the decision take precedence; only values of the host are looked up
            # here. The locations of the run and its workspace may have changed since: what a task is given
            # has to exist here and now.
            if (
                path[0] == "inputs"
                and len(path) == 2
                and (secret := secret_of_input(str(path[1]))) in self.env
            ):
                return self.env[secret]
            if path in self.values and path not in _PLACES:
                return self.values[path]
            host = self.env if path[0] == "env" else self.run if path[0] == "run" else {}
            return host.get(str(path[1]), MISSING) if len(path) == 2 else MISSING

        return look


def visit_name(path: str, attempt: int) -> str:
    return f"{path}#{attempt}"


class TaskResult(msgspec.Struct):
    """The end of an attempt, as it is to be in the log."""

    event_type: str
    payload: dict[str, Any]
    # The engine attempt that ended.
    engine_attempt: int = 1


class Ending(Protocol):
    """Something that ends: a future, or a child process."""

    def done(self) -> bool: ...

    def add_done_callback(self, callback: Callable[[Any], object], /) -> object: ...

    def remove_done_callback(self, callback: Callable[[Any], object], /) -> object: ...


class CancelToken:
    """A request to stop an attempt, gracefully or by force; the code says why."""

    __slots__ = ("_wake", "code", "is_asked", "is_forced")

    def __init__(self) -> None:
        self.is_asked = False
        self.is_forced = False
        self.code = "CANCELLED"
        self._wake: Callable[[], None] | None = None

    def ask(self, code: str, *, force: bool) -> None:
        if not self.is_asked:
            self.code = "CANCELLED" if code == "FORCED" else code
        self.is_asked = True
        self.is_forced |= force
        if self._wake is not None:
            self._wake()

    def on_asked(self, wake: Callable[[], None] | None) -> None:
        """Called when the attempt's end is requested; None once it has ended."""
        self._wake = wake

    async def wait(
        self, *work: "Ending", within: float | None
    ) -> Literal["exited", "cancelled", "timed_out"]:
        """What comes first: any of the work ends, its end is requested, or the time is over."""
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()

        def wake(*_: Any) -> None:
            if not woken.done():
                woken.set_result(None)

        for one in work:
            one.add_done_callback(wake)
        self._wake = wake
        timer = loop.call_later(within, wake) if within is not None else None
        try:
            if not self.is_asked:
                await woken
        finally:
            self._wake = None
            if timer is not None:
                timer.cancel()
            for one in work:
                one.remove_done_callback(wake)
        if any(one.done() for one in work):
            return "exited"
        return "cancelled" if self.is_asked else "timed_out"


class Performer(Protocol):
    """Executes one kind of task. Raises only in case of a defect; everything else is a result."""

    async def perform(self, order: TaskOrder, stopping: CancelToken) -> TaskResult: ...


_COMPLETED: Final = EventType.STEP_COMPLETED.value


def completed(**facts: Any) -> TaskResult:
    return TaskResult(_COMPLETED, {"exitCode": 0, **facts})


def failed(exit_code: int, code: str, message: str, *, retryable: bool = True, **facts: Any) -> TaskResult:
    error = {
        "category": error_category(code),
        "code": code,
        "message": without_credentials(message),
        "retryable": retryable,
    }
    return TaskResult(EventType.STEP_FAILED, {"exitCode": exit_code, "error": error, **facts})


def timed_out(seconds: float | None, **facts: Any) -> TaskResult:
    message = f"it took longer than {seconds:g} seconds" if seconds is not None else "timed out"
    return failed(TIMED_OUT, "TIMEOUT", message, **{**facts, "timedOut": True})


def stopped(code: str, **facts: Any) -> TaskResult:
    """The result of an attempt that ended because it was stopped."""
    return TaskResult(EventType.STEP_FAILED, stopped_payload(code, facts))
