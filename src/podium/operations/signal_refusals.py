"""Messages for the sender of a signal that has no effect in the run's current state."""

from typing import Final

from podium.errors import PodiumError
from podium.operations.signal_payloads import InvalidSignal

# The maximum number of signals that a run accepts per minute.
MAX_PER_MINUTE: Final = 60


class SignalWouldBeIgnored(PodiumError):
    """Nothing in the run can react to it; it was not sent."""

    code = "SIGNAL_IGNORED"


class StepRunning(SignalWouldBeIgnored):
    """The step is running, and the signal is for one that is not."""

    code = "STEP_RUNNING"


class StepTerminal(SignalWouldBeIgnored):
    """The step has ended, and the run has continued after it."""

    code = "STEP_TERMINAL"


class StepNotTerminal(SignalWouldBeIgnored):
    """The step has not ended, and the signal is for one that has failed."""

    code = "STEP_NOT_TERMINAL"


class RunIsOver(PodiumError):
    """A run that has ended accepts no signals."""

    code = "RUN_TERMINAL"


class TooManySignals(PodiumError):
    """More than 60 signals to a run within a minute."""

    code = "SIGNAL_RATE_LIMITED"

    def __init__(self, run_id: str, retry_after_seconds: int) -> None:
        super().__init__(
            f"run {run_id!r} was sent {MAX_PER_MINUTE} signals within a minute; try again in {retry_after_seconds} "
            f"seconds, or stop the run with `podium cancel {run_id}`"
        )
        self.retry_after_seconds = retry_after_seconds


class RunNotOver(PodiumError):
    """Only a run that has ended can be retried."""

    code = "RUN_NOT_TERMINAL"


_BY_CODE: Final[dict[str, type[PodiumError]]] = {
    error.code: error
    for error in (InvalidSignal, SignalWouldBeIgnored, StepRunning, StepTerminal, StepNotTerminal)
}


def refusal_error(code: str, reason: str, run_id: str) -> PodiumError:
    """The error for a reason returned by the machine."""
    error = _BY_CODE.get(code, SignalWouldBeIgnored)
    return error(f"{reason}; see what the run waits for with `podium why {run_id}`")
