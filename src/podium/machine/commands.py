"""Commands: what the machine has decided and a host has to do.

They are owed until the log answers them (`CancelTimer` needs no answer), and harmless to execute twice: the
answer has the same idempotency key. The machine makes hundreds of thousands of them, hence the structs.
"""

from typing import Any, Literal, TypeAlias

import msgspec

from podium.log.times import Timestamp
from podium.plan.changes import StepChange
from podium.plan.plan import Step


class RunTask(msgspec.Struct, frozen=True, gc=False):
    """Execute a step. `values` are the values of its references at the time of the decision, by path."""

    path: str
    attempt: int
    # The step to execute, with the changes that signals made.
    step: Step
    values: dict[tuple[str | int, ...], Any] | None = None
    change: StepChange | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """The payload of its StepStarted."""
        return self.change.facts if self.change is not None else {}


class CancelTask(msgspec.Struct, frozen=True, gc=False):
    """Stop a task and answer with StepFailed; `force`: kill it immediately, without asking it to stop first."""

    path: str
    attempt: int
    force: bool = False
    # CANCELLED, JOIN_DECIDED or INTERRUPTED: the error code of the answer.
    code: str = "CANCELLED"


class SetTimer(msgspec.Struct, frozen=True, gc=False):
    """Answer with TimerFired, once, not before `due`."""

    key: str
    due: Timestamp


class CancelTimer(msgspec.Struct, frozen=True, gc=False):
    """The timer is obsolete; if it fires nevertheless, nothing happens."""

    key: str


class Question(msgspec.Struct, frozen=True, gc=False):
    """A question about the environment: whether an artifact file exists, or whether a variable is set and not
    empty.
    """

    kind: Literal["file", "env"]
    name: str

    @property
    def key(self) -> str:
        return f"{self.kind}:{self.name}"


# Known answers to questions, by their key.
Answers: TypeAlias = dict[str, bool]


class Probe(msgspec.Struct, frozen=True, gc=False):
    """Find the answers to all questions together; answer with ProbeAnswered."""

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

    A report requires no action. It is for views: any view that shows the outcome of an iteration gets it from
    here.
    """

    # The event that caused it.
    run_seq: int
    path: str
    index: int
    item: Any
    status: str


class ContextReport(msgspec.Struct, frozen=True, gc=False):
    """The new values of the run's variables."""

    run_seq: int
    context: dict[str, Any]


Report: TypeAlias = ScopeReport | ContextReport
Command: TypeAlias = RunTask | CancelTask | SetTimer | CancelTimer | Probe | Record | Report
