"""Violations of docs/conformance/registration-orchestrator.md: metrics and traces."""

from typing import Final

from tests.planted.edits import drop, swap
from tests.planted.faults import Fault, fault

FAULTS: Final[list[Fault]] = [
    fault(
        "RT01",
        "the trace of a message is not continued",
        swap("log/tracing.py:receipt", "parse_traceparent(incoming)", "None"),
    ),
    fault(
        "RT01",
        "what a run publishes has a trace of its own",
        swap("log/messages.py:_published", "parse_traceparent(stored.traceparent)", "None"),
    ),
    fault(
        "RT01",
        "a trace that is not sampled becomes a sampled one",
        swap("log/tracing.py:parse_traceparent", "bool(int(found[4], 16) & _SAMPLED)", "True"),
    ),
    fault(
        "RT02",
        "messages have the run id as their correlation id",
        swap(
            "log/messages.py:published_messages",
            "stored.correlation_id or record.run.run_id",
            "record.run.run_id",
        ),
    ),
    fault(
        "RT02",
        "lines that a node logs have the run id as their correlation id",
        swap(
            "runtime/tasks/nodes.py:NodeTasks._call",
            "add_log_fields(correlation_id=call.correlation_id)",
            "add_log_fields(correlation_id=order.run_id)",
        ),
    ),
    fault(
        "RT02",
        "spans of steps have the run id as their correlation id",
        swap(
            "runtime/run_telemetry.py:RunTelemetry._step_ended",
            "end.correlation_id or self._run_id",
            "self._run_id",
        ),
    ),
    fault(
        "RT03",
        "dead letters are not counted",
        drop("operations/receipts.py:Receipts.is_dead", "self._telemetry.count(DEAD_LETTERS, code)"),
    ),
    fault(
        "RT04",
        "metrics are served to everyone",
        swap("telemetry/opening.py:metrics_address", "LOOPBACK", "'0.0.0.0'"),
    ),
]
