"""Commands: what the machine has decided and somebody else has to do.

They are owed until the log answers them (`CancelTimer` is only a courtesy), and harmless to perform twice: the answer
carries the same idempotency key. The machine makes hundreds of thousands of them, hence the structs.
"""

from typing import Any, Literal, TypeAlias

import msgspec

from podium.log.times import Timestamp
from podium.plan.changes import StepChange
from podium.plan.plan import Step


class RunTask(msgspec.Struct, frozen=True, gc=False):
    """Carry out a step. `values` are the values of its references when it was decided, by their path."""

    path: str
    attempt: int
    # As it is to be carried out: with what a signal has changed in it.
    step: Step
    values: dict[tuple[str | int, ...], Any] | None = None
    change: StepChange | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """What its StepStarted says."""
        return self.change.facts if self.change is not None else {}


class CancelTask(msgspec.Struct, frozen=True, gc=False):
    """Stop a task and answer with StepFailed; `force`: at once, without asking it first."""

    path: str
    attempt: int
    force: bool = False
    # CANCELLED, JOIN_DECIDED or INTERRUPTED: the code of the answer.
    code: str = "CANCELLED"


class SetTimer(msgspec.Struct, frozen=True, gc=False):
    """Answer with TimerFired, once, not before `due`."""

    key: str
    due: Timestamp


class CancelTimer(msgspec.Struct, frozen=True, gc=False):
    """The timer is not needed any more; if it fires all the same, nothing happens."""

    key: str


class Question(msgspec.Struct, frozen=True, gc=False):
    """Is there such a file among the artifacts; is such a variable set and not empty?"""

    kind: Literal["file", "env"]
    name: str


class Probe(msgspec.Struct, frozen=True, gc=False):
    """Ask the world, all at once; answer with ProbeAnswered."""

    key: str
    questions: tuple[Question, ...]


class Record(msgspec.Struct, frozen=True, gc=False):
    """A decision that has to be in the log; in order, the run's terminal event last."""

    event_type: str
    path: str | None
    attempt: int
    payload: dict[str, Any]


class ScopeReport(msgspec.Struct, frozen=True, gc=False):
    """An iteration (`Deploy#2[3]`) or a branch (`Deploy/Build`) has opened (`running`) or closed.

    Nothing is to be done about a report. It is for views: whatever shows an outcome of an iteration has it from here.
    """

    # The event with which it happened.
    run_seq: int
    path: str
    index: int
    item: Any
    status: str


class ContextReport(msgspec.Struct, frozen=True, gc=False):
    """The variables of the run have changed to these."""

    run_seq: int
    context: dict[str, Any]


Report: TypeAlias = ScopeReport | ContextReport
Command: TypeAlias = RunTask | CancelTask | SetTimer | CancelTimer | Probe | Record | Report
