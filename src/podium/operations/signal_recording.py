"""Every refused signal leaves a record, wherever and for whatever reason it is refused."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from podium.errors import PodiumError
from podium.log.runs import Run
from podium.operations.access import NotAllowed, ReasonRequired
from podium.operations.run_approval import ApprovalDecided, ApprovalPlanMismatch
from podium.operations.signal_checks import authorise
from podium.operations.signal_decisions import (
    RefusedBefore,
    Signal,
    SignalDuplicate,
    audit_refusal,
    record_refusal,
)
from podium.operations.signal_payloads import InvalidSignal
from podium.operations.signal_refusals import RunIsOver, RunNotOver, SignalWouldBeIgnored, TooManySignals
from podium.ports.clock import Clock
from podium.ports.store import Store

_RECORDED: Final = (
    ApprovalDecided,
    ApprovalPlanMismatch,
    InvalidSignal,
    NotAllowed,
    ReasonRequired,
    RunIsOver,
    RunNotOver,
    SignalDuplicate,
    SignalWouldBeIgnored,
)


@asynccontextmanager
async def recording_refusals(
    store: Store, clock: Clock, run: Run, signal: Signal, malformed: PodiumError | None
) -> AsyncIterator[None]:
    """A context around the decision about a signal to a run that its sender can see; raises earlier problems
    first.
    """
    try:
        if malformed is not None:
            raise malformed
        await authorise(store, run, signal)
        yield
    except RefusedBefore:
        raise
    except TooManySignals as refusal:
        # Not a decision: the same signal may be sent again.
        await audit_refusal(store, clock, run, signal, refusal)
        raise
    except _RECORDED as refusal:
        await record_refusal(store, clock, run, signal, refusal)
        raise
