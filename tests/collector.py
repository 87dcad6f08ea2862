"""A small OpenTelemetry collector: takes spans over OTLP/HTTP and keeps them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class ReceivedSpan(msgspec.Struct, frozen=True):
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: int
    started: int
    ended: int
    attributes: dict[str, Any]
    is_error: bool

    @property
    def correlation_id(self) -> Any:
        return self.attributes.get("podium.correlation_id")


class Collector:
    def __init__(self, url: str) -> None:
        self.url = url
        self.spans: list[ReceivedSpan] = []
        self.raw: list[bytes] = []

    def take(self, body: bytes) -> None:
        self.raw.append(body)
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                self.spans += [_received(one) for one in scope.spans]

    def named(self, start: str) -> list[ReceivedSpan]:
        return [one for one in self.spans if one.name.startswith(start)]


def _received(span: Any) -> ReceivedSpan:
    attributes = {one.key: one.value.string_value or one.value.int_value for one in span.attributes}
    return ReceivedSpan(
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.kind,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        attributes,
        span.status.code == 2,
    )


@contextmanager
def collecting() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_port}")
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        serving.join()
