"""Definitions of spans and metrics: one constant for each metric.

Neither contains a value of a payload. Labels are from closed sets: topics and event types that a contract
declares, codes, states, names of services. Attributes of spans are the same, plus ids and positions of
messages.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal, TypeAlias

import msgspec

from podium.log.tracing import TraceContext

SpanKind: TypeAlias = Literal["internal", "client", "consumer", "producer"]
MetricKind: TypeAlias = Literal["counter", "gauge", "histogram"]


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A span that has ended. Its ids are passed in, so that a span has the same id before and after a crash."""

    name: str
    kind: SpanKind = "internal"
    context: TraceContext
    parent: TraceContext | None
    started_at: datetime
    ended_at: datetime
    correlation_id: str
    attributes: Mapping[str, str | int] = {}
    # The code of the error; never its text.
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

# --- shown by servers and workers: for the tenants of the reader, or for their own process -------------------------

RUNS: Final = Metric(
    "podium_runs",
    "gauge",
    "Open runs in pools: waiting, delayed, unapproved, running, parked, left (by a worker that is gone).",
    ("status",),
)
QUEUE_AGE: Final = Metric(
    "podium_queue_oldest_seconds", "gauge", "Since when the run waits that waits longest for a free slot."
)
WORKERS: Final = Metric(
    "podium_workers", "gauge", "Workers of pools: serving, draining, lost (not seen lately).", ("state",)
)
SLOTS: Final = Metric("podium_slots", "gauge", "Slots of workers that are not lost: used, free.", ("state",))
LEASE_LAPSES: Final = Metric(
    "podium_lease_lapses_total",
    "counter",
    "Leases of runs that this process lost or could not renew in time.",
)
STORE_CALLS: Final = Metric(
    "podium_store_seconds",
    "histogram",
    "How long the store took to make something durable, with its commit.",
    ("call",),
)
PROJECTION_LAG: Final = Metric(
    "podium_projection_lag_seconds", "gauge", "How far the summaries of runs were behind the log last time."
)
OUTBOX_WAITING: Final = Metric("podium_outbox_waiting", "gauge", "Events that a bus has not taken yet.")
OUTBOX_AGE: Final = Metric(
    "podium_outbox_oldest_seconds", "gauge", "Since when the event waits that waits longest for a bus."
)
OUTBOX_DEAD: Final = Metric("podium_outbox_dead_letters", "gauge", "Events that a bus has refused for good.")
STREAMS: Final = Metric("podium_stream_clients", "gauge", "Open connections to /api/v1/stream.")
REQUESTS: Final = Metric(
    "podium_requests_total", "counter", "Requests that were answered.", ("method", "route", "status")
)
REQUEST_SECONDS: Final = Metric(
    "podium_request_seconds", "histogram", "How long answers took; streams until they ended.", ("route",)
)
RATE_LIMITED: Final = Metric(
    "podium_rate_limited_total", "counter", "Requests refused by the rate limits.", ("scope", "cost")
)
LOOP_LAG: Final = Metric(
    "podium_loop_lag_seconds", "histogram", "How late the event loop was with a timer, four times a second."
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
    RUNS,
    QUEUE_AGE,
    WORKERS,
    SLOTS,
    LEASE_LAPSES,
    STORE_CALLS,
    PROJECTION_LAG,
    OUTBOX_WAITING,
    OUTBOX_AGE,
    OUTBOX_DEAD,
    STREAMS,
    REQUESTS,
    REQUEST_SECONDS,
    RATE_LIMITED,
    LOOP_LAG,
)
