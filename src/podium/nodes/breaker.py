"""The circuit breaker of a service, as a pure fold: state, what happened, and the time give the next state.

    closed      calls pass; `failures` attempts in a row that fail open it
    open        calls are refused for `reset` seconds
    half-open   one call passes as a probe; its success closes the breaker, its failure opens it again

A call that passed before the breaker opened, and ends after that, changes nothing: only the probe decides. Times are
seconds of a clock that never runs backwards.
"""

from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from podium.plan.plan import NodeBreaker

Phase: TypeAlias = Literal["closed", "open", "half-open"]
PHASES: Final[tuple[Phase, ...]] = ("closed", "open", "half-open")
Admission: TypeAlias = Literal["call", "probe", "refused"]


@dataclass(frozen=True, slots=True)
class BreakerState:
    failures: int = 0
    # None while it is closed.
    opened_at: float | None = None
    # A probe is running.
    is_probing: bool = False


CLOSED: Final = BreakerState()


def phase_of(state: BreakerState, settings: NodeBreaker, now: float) -> Phase:
    if state.opened_at is None:
        return "closed"
    return "half-open" if now - state.opened_at >= settings.reset else "open"


def admit(state: BreakerState, settings: NodeBreaker, now: float) -> tuple[BreakerState, Admission]:
    """Whether a call passes, and the state while it runs."""
    match phase_of(state, settings, now):
        case "closed":
            return state, "call"
        case "half-open" if not state.is_probing:
            return replace(state, is_probing=True), "probe"
        case _:
            return state, "refused"


def succeeded(state: BreakerState, admission: Admission) -> BreakerState:
    is_late = admission == "call" and state.opened_at is not None
    return state if is_late else CLOSED


def failed(state: BreakerState, admission: Admission, settings: NodeBreaker, now: float) -> BreakerState:
    """One failure for each attempt of a step, after its retries are used up."""
    if admission == "probe":
        return replace(state, opened_at=now, is_probing=False)
    if state.opened_at is not None:
        return state
    failures = state.failures + 1
    return BreakerState(failures, now if failures >= settings.failures else None)


def abandoned(state: BreakerState, admission: Admission) -> BreakerState:
    """A call ended without information about the service: it was stopped, or failed for a reason of its own."""
    return replace(state, is_probing=False) if admission == "probe" else state


class Breakers:
    """The breakers of one process, by service."""

    def __init__(self) -> None:
        self._states: dict[str, BreakerState] = {}

    def state_of(self, service: str) -> BreakerState:
        return self._states.get(service, CLOSED)

    def services(self) -> tuple[str, ...]:
        return tuple(sorted(self._states))

    def admit(self, service: str, settings: NodeBreaker, now: float) -> Admission:
        self._states[service], admission = admit(self.state_of(service), settings, now)
        return admission

    def succeeded(self, service: str, admission: Admission) -> None:
        self._states[service] = succeeded(self.state_of(service), admission)

    def failed(self, service: str, admission: Admission, settings: NodeBreaker, now: float) -> None:
        self._states[service] = failed(self.state_of(service), admission, settings, now)

    def abandoned(self, service: str, admission: Admission) -> None:
        self._states[service] = abandoned(self.state_of(service), admission)
