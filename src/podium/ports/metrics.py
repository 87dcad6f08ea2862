"""What spans and metrics are, and which metrics there are: one constant each.

Neither holds a value of a payload. Labels are from closed sets: topics and event types that a contract declares, codes,
states, names of services. Attributes of spans are those, and ids and places of messages.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal, TypeAlias

import msgspec

from podium.log.tracing import TraceContext

SpanKind: TypeAlias = Literal["internal", "client", "consumer", "producer"]
MetricKind: TypeAlias = Literal["counter", "gauge", "histogram"]


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A span that has ended. Its ids are given, so that a span can be named before and after a crash."""

    name: str
    kind: SpanKind = "internal"
    context: TraceContext
    parent: TraceContext | None
    started_at: datetime
    ended_at: datetime
    correlation_id: str
    attributes: Mapping[str, str | int] = {}
    # The code of what went wrong; never its text.
    error: str | None = None


class Metric(msgspec.Struct, frozen=True):
    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()


MESSAGES: Final = Metric(
    "podium_messages_total",
    "counter",
    "Messages received: started a run, known (delivered before), batch (no run of their own), dead.",
    ("topic", "type", "outcome"),
)
DEAD_LETTERS: Final = Metric(
    "podium_dead_letters_total", "counter", "Messages put into a dead-letter topic.", ("code",)
)
RUNS_STARTED: Final = Metric("podium_runs_started_total", "counter", "Runs that this process has started.")
RUNS_ENDED: Final = Metric("podium_runs_ended_total", "counter", "Runs that have ended here.", ("status",))
STEPS_ENDED: Final = Metric(
    "podium_step_attempts_total", "counter", "Attempts of steps that have ended.", ("status",)
)
EFFECT_TRIES: Final = Metric(
    "podium_effect_tries_total", "counter", "Calls of services by nodes, each try by itself.", ("service",)
)
EFFECT_FAILURES: Final = Metric(
    "podium_effect_failures_total", "counter", "Tries that failed.", ("service", "code")
)
PUBLISHED: Final = Metric("podium_relay_published_total", "counter", "Events that a bus has taken.")
NOT_PUBLISHED: Final = Metric(
    "podium_relay_failures_total", "counter", "Deliveries to a bus that failed.", ("code",)
)
BREAKER: Final = Metric(
    "podium_breaker_state",
    "gauge",
    "1 for the state that the breaker of a service has.",
    ("service", "state"),
)
LAG: Final = Metric(
    "podium_consumer_lag", "gauge", "Messages of a topic that the consumer group has not done yet.", ("type",)
)
OPEN_RUNS: Final = Metric("podium_open_runs", "gauge", "Runs that this process drives.")
TRANSITIONS: Final = Metric(
    "podium_registration_transitions_total",
    "counter",
    "Events published about registrations, one for each change of state.",
    ("type",),
)
HEARTBEATS: Final = Metric(
    "podium_registration_renewed_total", "counter", "Liveness deadlines renewed by heartbeats."
)
DRIFT: Final = Metric(
    "podium_registration_drift_total",
    "counter",
    "Differences that the reconciler found and repaired, or asked a run to repair.",
    ("kind",),
)
RECONCILED: Final = Metric(
    "podium_registration_reconcile_seconds", "histogram", "How long a comparison of the catalogs took."
)
ALERTS: Final = Metric(
    "podium_alerts_total", "counter", "Alerts raised; refused ticks are among them.", ("code",)
)

METRICS: Final = (
    MESSAGES,
    DEAD_LETTERS,
    RUNS_STARTED,
    RUNS_ENDED,
    STEPS_ENDED,
    EFFECT_TRIES,
    EFFECT_FAILURES,
    PUBLISHED,
    NOT_PUBLISHED,
    BREAKER,
    LAG,
    OPEN_RUNS,
    TRANSITIONS,
    HEARTBEATS,
    DRIFT,
    RECONCILED,
    ALERTS,
)
