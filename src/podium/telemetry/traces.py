"""Spans, sent to a collector with OTLP over HTTP. The `OTEL_*` variables of the SDK apply.

Ids of spans are given (see `log/tracing.py`), so the SDK draws none.
"""

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from podium.log.tracing import TraceContext
from podium.ports.metrics import Span
from podium.version import __version__

CORRELATION_ID: Final = "podium.correlation_id"
ERROR_CODE: Final = "podium.error_code"
_KINDS: Final = {
    "internal": SpanKind.INTERNAL,
    "client": SpanKind.CLIENT,
    "consumer": SpanKind.CONSUMER,
    "producer": SpanKind.PRODUCER,
}
# A collector that does not answer must not delay the end of a process.
_SECONDS: Final = 5


class _GivenIds:
    """An `IdGenerator` with the ids of the span that is created next. Spans are created by one thread."""

    def __init__(self) -> None:
        self.context = TraceContext("1", "1")

    def generate_trace_id(self) -> int:
        return int(self.context.trace_id, 16)

    def generate_span_id(self) -> int:
        return int(self.context.span_id, 16)

    def is_trace_id_random(self) -> bool:
        return False


class Traces:
    """`resource`: the attributes of the process."""

    def __init__(self, resource: dict[str, str], processor: SpanProcessor) -> None:
        self._ids = _GivenIds()
        ids: Any = self._ids
        self._provider = TracerProvider(
            resource=Resource.create(dict(resource)), id_generator=ids, shutdown_on_exit=False
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("podium", __version__)

    def span(self, span: Span) -> None:
        self._ids.context = span.context
        made: Any = self._tracer.start_span(
            span.name,
            context=_around(span.parent),
            kind=_KINDS[span.kind],
            attributes={CORRELATION_ID: span.correlation_id, **span.attributes},
            start_time=_nanoseconds(span.started_at),
        )
        if span.error is not None:
            made.set_attribute(ERROR_CODE, span.error)
            made.set_status(Status(StatusCode.ERROR, span.error))
        made.end(_nanoseconds(max(span.started_at, span.ended_at)))

    def close(self) -> None:
        self._provider.shutdown()


def over_http(endpoint: str | None, resource: dict[str, str], notify: Callable[[str], None]) -> Traces:
    """`endpoint`: for the traces; None: the variables of the SDK name it."""
    _report_trouble(notify)
    exporter = OTLPSpanExporter(endpoint=endpoint, timeout=_SECONDS)
    return Traces(resource, BatchSpanProcessor(exporter))


def _around(parent: TraceContext | None) -> Any:
    if parent is None:
        return set_span_in_context(NonRecordingSpan(SpanContext(0, 0, is_remote=False)))
    flags = TraceFlags(TraceFlags.SAMPLED if parent.is_sampled else TraceFlags.DEFAULT)
    context = SpanContext(
        int(parent.trace_id, 16), int(parent.span_id, 16), is_remote=True, trace_flags=flags
    )
    return set_span_in_context(NonRecordingSpan(context))


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000) * 1_000


class _Trouble(logging.Handler):
    """Reports once that spans are lost, without the texts of the SDK, which contain addresses and answers."""

    def __init__(self, notify: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._notify = notify
        self._is_known = False

    def emit(self, record: logging.LogRecord) -> None:
        if not self._is_known:
            self._is_known = True
            self._notify("warning: traces cannot be delivered to the collector; some are lost")


def _report_trouble(notify: Callable[[str], None]) -> None:
    logger = logging.getLogger("opentelemetry")
    logger.handlers[:] = [_Trouble(notify)]
    logger.propagate = False
