"""The circuit breaker of a service, as a pure fold: state, what happened, and the time give the next state.

    closed      calls pass; `failures` attempts in a row that fail open it
    open        calls are refused for `reset` seconds
    half-open   one call passes as a probe; its success closes the breaker, its failure opens it again

Times are seconds of a clock that never runs backwards.
"""

from dataclasses import dataclass, replace
from typing import Literal

from podium.plan.plan import NodeBreaker


@dataclass(frozen=True, slots=True)
class BreakerState:
    failures: int = 0
    # None while it is closed.
    opened_at: float | None = None
    # A probe is under way.
    is_probing: bool = False


CLOSED = BreakerState()


def phase_of(
    state: BreakerState, settings: NodeBreaker, now: float
) -> Literal["closed", "open", "half-open"]:
    if state.opened_at is None:
        return "closed"
    return "half-open" if now - state.opened_at >= settings.reset else "open"


def admit(state: BreakerState, settings: NodeBreaker, now: float) -> tuple[BreakerState, bool]:
    """Whether a call passes, and the state with it under way."""
    match phase_of(state, settings, now):
        case "closed":
            return state, True
        case "half-open" if not state.is_probing:
            return replace(state, is_probing=True), True
        case _:
            return state, False


def succeeded(_state: BreakerState) -> BreakerState:
    return CLOSED


def failed(state: BreakerState, settings: NodeBreaker, now: float) -> BreakerState:
    """One failure for each attempt of a step, after its tries are used up."""
    if state.opened_at is not None:
        # A call that passed before the breaker opened says nothing new; only the probe decides.
        return replace(state, opened_at=now, is_probing=False) if state.is_probing else state
    failures = state.failures + 1
    return BreakerState(failures, now if failures >= settings.failures else None)


def abandoned(state: BreakerState) -> BreakerState:
    """A call ended without saying anything about the service: it was stopped, or failed for a reason of its own."""
    return replace(state, is_probing=False)


class Breakers:
    """The breakers of one process, by service."""

    def __init__(self) -> None:
        self._states: dict[str, BreakerState] = {}

    def state_of(self, service: str) -> BreakerState:
        return self._states.get(service, CLOSED)

    def services(self) -> tuple[str, ...]:
        return tuple(sorted(self._states))

    def admit(self, service: str, settings: NodeBreaker, now: float) -> bool:
        self._states[service], is_admitted = admit(self.state_of(service), settings, now)
        return is_admitted

    def succeeded(self, service: str) -> None:
        self._states[service] = succeeded(self.state_of(service))

    def failed(self, service: str, settings: NodeBreaker, now: float) -> None:
        self._states[service] = failed(self.state_of(service), settings, now)

    def abandoned(self, service: str) -> None:
        self._states[service] = abandoned(self.state_of(service))
