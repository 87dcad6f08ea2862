"""The lifecycle of a registration, as a table. The diagram in README.md is drawn from it.

A pair of state and trigger that is not among the transitions changes nothing; `TABLE` contains all pairs.
"""

from enum import StrEnum
from typing import Final


class State(StrEnum):
    # There is no row.
    UNKNOWN = "UNKNOWN"
    PENDING_REGISTRATION = "PENDING_REGISTRATION"
    ACCEPTED = "ACCEPTED"
    AWAITING_ACK = "AWAITING_ACK"
    ACK_RECEIVED = "ACK_RECEIVED"
    ACTIVE = "ACTIVE"
    ACK_TIMED_OUT = "ACK_TIMED_OUT"
    LIVENESS_EXPIRED = "LIVENESS_EXPIRED"
    REJECTED = "REJECTED"


class Trigger(StrEnum):
    """What the reducer found in an event."""

    INTROSPECTED = "introspected"
    REFUSED = "refused"
    BOTH_APPLIED = "both_applied"
    ACK_AWAITED = "ack_awaited"
    ACKED = "acked"
    ACTIVATED = "activated"
    ACK_DEADLINE_PASSED = "ack_deadline_passed"
    RETRIED = "retried"
    LIVENESS_DEADLINE_PASSED = "liveness_deadline_passed"
    HEARTBEAT = "heartbeat"
    UPDATED = "updated"


ARROWS: Final[dict[tuple[State, Trigger], State]] = {
    (State.UNKNOWN, Trigger.INTROSPECTED): State.PENDING_REGISTRATION,
    (State.PENDING_REGISTRATION, Trigger.UPDATED): State.PENDING_REGISTRATION,
    (State.PENDING_REGISTRATION, Trigger.BOTH_APPLIED): State.ACCEPTED,
    (State.PENDING_REGISTRATION, Trigger.REFUSED): State.REJECTED,
    (State.ACCEPTED, Trigger.ACK_AWAITED): State.AWAITING_ACK,
    (State.AWAITING_ACK, Trigger.UPDATED): State.AWAITING_ACK,
    (State.AWAITING_ACK, Trigger.ACKED): State.ACK_RECEIVED,
    (State.AWAITING_ACK, Trigger.ACK_DEADLINE_PASSED): State.ACK_TIMED_OUT,
    (State.ACK_RECEIVED, Trigger.ACTIVATED): State.ACTIVE,
    (State.ACTIVE, Trigger.UPDATED): State.ACTIVE,
    (State.ACTIVE, Trigger.HEARTBEAT): State.ACTIVE,
    (State.ACTIVE, Trigger.LIVENESS_DEADLINE_PASSED): State.LIVENESS_EXPIRED,
    (State.ACK_TIMED_OUT, Trigger.RETRIED): State.PENDING_REGISTRATION,
    (State.LIVENESS_EXPIRED, Trigger.INTROSPECTED): State.PENDING_REGISTRATION,
    (State.REJECTED, Trigger.INTROSPECTED): State.PENDING_REGISTRATION,
}
TABLE: Final = {
    (state, trigger): ARROWS.get((state, trigger), state) for state in State for trigger in Trigger
}
TERMINAL: Final = frozenset({State.LIVENESS_EXPIRED, State.REJECTED})
# Entered and left within one run, and never stored.
PASSED_THROUGH: Final = frozenset({State.ACCEPTED, State.ACK_RECEIVED, State.ACK_TIMED_OUT})
# Published when a state is entered.
EVENT_OF: Final[dict[State, str]] = {
    State.PENDING_REGISTRATION: "NodeRegistrationInitiated",
    State.ACCEPTED: "NodeRegistrationAccepted",
    State.REJECTED: "NodeRegistrationRejected",
    State.ACK_TIMED_OUT: "NodeRegistrationAckTimedOut",
    State.ACK_RECEIVED: "NodeRegistrationAckReceived",
    State.ACTIVE: "NodeBecameActive",
    State.LIVENESS_EXPIRED: "NodeLivenessExpired",
}


def has_effect(state: State, trigger: Trigger) -> bool:
    return (state, trigger) in ARROWS


def entered(state: State, *triggers: Trigger) -> tuple[State, ...]:
    """The states that these triggers lead through, in order; a trigger without effect adds none."""
    passed = []
    for trigger in triggers:
        if TABLE[state, trigger] is not state:
            state = TABLE[state, trigger]
            passed.append(state)
    return tuple(passed)


def diagram() -> str:
    """The table as a Mermaid diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {State.UNKNOWN}"]
    lines += [f"    {before} --> {after}: {trigger}" for (before, trigger), after in ARROWS.items()]
    lines += [f"    {state} --> [*]" for state in sorted(TERMINAL)]
    return "\n".join(lines)
