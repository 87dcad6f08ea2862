"""Alerts: something an operator should look at."""

from enum import StrEnum
from typing import NamedTuple


class AlertCode(StrEnum):
    """What can be alerted about. P1 wakes people up, P2 waits for the morning."""

    INVALID_TRANSITION = "INVALID_TRANSITION"
    PAYLOAD_MISFIT = "PAYLOAD_MISFIT"
    PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED = "PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED"
    PAUSE_DRAIN_TIMEOUT = "PAUSE_DRAIN_TIMEOUT"
    PROJECTOR_LAG_HIGH = "PROJECTOR_LAG_HIGH"
    EVENT_BUS_DELIVERY_FAILED = "EVENT_BUS_DELIVERY_FAILED"
    EVENT_CONTENT_DIFFERS = "EVENT_CONTENT_DIFFERS"
    PLAN_REFUSED = "PLAN_REFUSED"
    REGISTRATION_EVENT_REFUSED = "REGISTRATION_EVENT_REFUSED"
    REGISTRATION_DRIFT = "REGISTRATION_DRIFT"
    REGISTRATION_RUN_FAILED = "REGISTRATION_RUN_FAILED"
    TICK_REFUSED = "TICK_REFUSED"
    SCHEDULE_TICK_MISSED = "SCHEDULE_TICK_MISSED"
    SCHEDULE_TICK_SKIPPED = "SCHEDULE_TICK_SKIPPED"
    SCHEDULE_TICK_FAILED = "SCHEDULE_TICK_FAILED"


class Alert(NamedTuple):
    """`subject` tells one occasion from another: the same occasion is alerted about once."""

    code: AlertCode
    subject: str
    message: str
