"""What a sender is told when a run, as it is now, has no use for a signal."""

from typing import Final

from podium.errors import PodiumError
from podium.operations.signal_payloads import InvalidSignal

# How many signals of a run are accepted within a minute.
MAX_PER_MINUTE: Final = 60


class SignalWouldBeIgnored(PodiumError):
    """There is nothing in the run that it could act on; it was not sent."""

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
    """A run that has ended takes no signals."""

    code = "RUN_TERMINAL"


class TooManySignals(PodiumError):
    """More than 60 signals of a run within a minute."""

    code = "SIGNAL_RATE_LIMITED"

    def __init__(self, run_id: str, retry_after_seconds: int) -> None:
        super().__init__(
            f"run {run_id!r} was sent {MAX_PER_MINUTE} signals within a minute; try again in {retry_after_seconds} "
            f"seconds, or stop the run with `podium cancel {run_id}`"
        )
        self.retry_after_seconds = retry_after_seconds


class RunNotOver(PodiumError):
    """Only a run that has ended is retried."""

    code = "RUN_NOT_TERMINAL"


_BY_CODE: Final[dict[str, type[PodiumError]]] = {
    error.code: error
    for error in (InvalidSignal, SignalWouldBeIgnored, StepRunning, StepTerminal, StepNotTerminal)
}


def refusal_error(code: str, reason: str, run_id: str) -> PodiumError:
    """The error for a reason that the machine gives."""
    error = _BY_CODE.get(code, SignalWouldBeIgnored)
    return error(f"{reason}; see what the run waits for with `podium why {run_id}`")
