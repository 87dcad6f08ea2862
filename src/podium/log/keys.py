"""Idempotency keys: the name of an event that is the same on every retry (G-decisions, section 2).

The parts are joined by a bar, verbatim: no trimming, no change of case, no Unicode normalisation. Ids cannot
contain a bar, so two different events never have the same text.
"""

from hashlib import sha256
from typing import Final

from podium.log.events import EventType
from podium.log.transitions import EXCLUDED_BY

# Used instead of a step path in events about the run itself.
RUN_SLOT: Final = "RUN"


def key_v1(run_id: str, slot: str, logical_attempt_id: int, event_type: str, plan_version: str) -> str:
    """The key that Podium writes. `slot` is the step's path, or the result of `slot_of` for other events."""
    return _sha256(f"{run_id}|{slot}|{logical_attempt_id}|{event_type}|{plan_version}")


def keys_of_other_ends(
    run_id: str, step_id: str, logical_attempt_id: int, event_type: str, plan_version: str
) -> tuple[str, ...]:
    """The keys of the other possible ends of an attempt, if an event of this type would be its second end."""
    excluding = EXCLUDED_BY.get(event_type)
    if excluding is None:
        return ()
    return tuple([key_v1(run_id, step_id, logical_attempt_id, other, plan_version) for other in excluding])


def slot_of(event_type: str, *, step_id: str | None = None, subject: str | None = None) -> str:
    """What an event is about, as it appears in its key.

    `subject` is the signal's id, the timer's or probe's key, the step that was charged for, or `CODE:subject`
    of an alert: such events recur in a run, and without a subject the second would be taken for a repetition
    of the first.
    """
    if event_type in _ABOUT_A_SUBJECT:
        if subject is None:
            raise ValueError(f"{event_type} needs a subject")
        return subject
    return step_id if step_id is not None else RUN_SLOT


_ABOUT_A_SUBJECT: Final = frozenset(
    {
        EventType.SIGNAL_ACCEPTED,
        EventType.SIGNAL_REJECTED,
        EventType.SIGNAL_IGNORED,
        EventType.TIMER_FIRED,
        EventType.PROBE_ANSWERED,
        EventType.BUDGET_CHARGED,
        EventType.ALERT_RAISED,
        EventType.NOTIFICATION_DUE,
    }
)


def _sha256(text: str) -> str:
    return sha256(text.encode()).hexdigest()
