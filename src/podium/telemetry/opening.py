"""Which telemetry a process has: from its options, and for traces also from OpenTelemetry's variables."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urlsplit

from podium.errors import InvalidConfiguration
from podium.patterns import lazy_pattern
from podium.ports.metrics import Metric, Span
from podium.ports.telemetry import SILENT, Telemetry
from podium.runtime.extras import ExtraMissing, has_extra, install_hint
from podium.version import __version__

if TYPE_CHECKING:
    from podium.telemetry.metrics import Metrics
    from podium.telemetry.traces import Traces

LOOPBACK: Final = "127.0.0.1"
_ADDRESS: Final = lazy_pattern(r"(?:(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]*):)?([0-9]{1,5})")
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


class ProcessTelemetry:
    """A `Telemetry`: metrics, traces, or both."""

    is_on = True

    def __init__(self, metrics: "Metrics | None", traces: "Traces | None") -> None:
        self._metrics = metrics
        self._traces = traces
        self.is_tracing = traces is not None

    def count(self, metric: Metric, *labels: str, by: int = 1) -> None:
        if self._metrics is not None:
            self._metrics.count(metric, *labels, by=by)

    def set(self, metric: Metric, *labels: str, value: float) -> None:
        if self._metrics is not None:
            self._metrics.set(metric, *labels, value=value)

    def observe(self, metric: Metric, *labels: str, value: float) -> None:
        if self._metrics is not None:
            self._metrics.observe(metric, *labels, value=value)

    def span(self, span: Span) -> None:
        if self._traces is not None:
            self._traces.span(span)

    def exposition(self) -> bytes:
        return self._metrics.exposition() if self._metrics is not None else b""

    def close(self) -> None:
        for part in (self._metrics, self._traces):
            if part is not None:
                part.close()


def open_telemetry(
    metrics: str | None,
    traces: str | None,
    notify: Callable[[str], None],
    environ: Mapping[str, str] = os.environ,
) -> Telemetry:
    """`metrics`: HOST:PORT, or a port of this machine; `traces`: the address of a collector.

    Raises `ExtraMissing`, `InvalidConfiguration` and `MetricsUnavailable`.
    """
    serving = _serving(metrics, notify) if metrics is not None else None
    sending = _sending(traces, notify, environ)
    return ProcessTelemetry(serving, sending) if serving is not None or sending is not None else SILENT


def server_telemetry(
    traces: str | None, notify: Callable[[str], None], environ: Mapping[str, str] = os.environ
) -> Telemetry:
    """For a process with a route for its metrics. Raises `ExtraMissing` and `InvalidConfiguration`."""
    if not has_extra("metrics"):
        raise ExtraMissing(f"the server counts what it does: {install_hint('metrics')}")
    from podium.telemetry.metrics import Metrics

    return ProcessTelemetry(Metrics(), _sending(traces, notify, environ))


def _serving(address: str, notify: Callable[[str], None]) -> "Metrics":
    host, port = metrics_address(address)
    if not has_extra("metrics"):
        raise ExtraMissing(f"--metrics needs a library: {install_hint('metrics')}")
    from podium.telemetry.metrics import Metrics

    metrics = Metrics()
    metrics.serve(host, port)
    shown = f"[{host}]" if ":" in host else host
    notify(f"metrics at http://{shown}:{metrics.port}/metrics")
    return metrics


def metrics_address(text: str) -> tuple[str, int]:
    """Loopback unless a host is given. Raises `InvalidConfiguration`."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found[2]) > 65535:
        raise InvalidConfiguration(
            "--metrics is not an address; write HOST:PORT, or a port alone for this machine only, like 127.0.0.1:9464"
        )
    return (found[1] or "").strip("[]") or LOOPBACK, int(found[2])


def _sending(given: str | None, notify: Callable[[str], None], environ: Mapping[str, str]) -> "Traces | None":
    if given is None and not _is_wanted(environ):
        return None
    endpoint = traces_endpoint(given) if given is not None else None
    if not has_extra("otel"):
        if given is None:
            notify(f"warning: no traces are sent, although OTEL variables ask for it: {install_hint('otel')}")
            return None
        raise ExtraMissing(f"--traces needs a library: {install_hint('otel')}")
    from podium.telemetry.traces import over_http

    return over_http(endpoint, _resource(environ), notify)


def _is_wanted(environ: Mapping[str, str]) -> bool:
    if (
        environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
        or environ.get("OTEL_TRACES_EXPORTER") == "none"
    ):
        return False
    return any(environ.get(name) for name in _ENDPOINTS)


def traces_endpoint(text: str) -> str:
    """The address with the path of OTLP, if it has none. Raises `InvalidConfiguration`, without showing it."""
    parts = _split(text)
    if parts is None:
        raise InvalidConfiguration("--traces is not an http or https address, like http://127.0.0.1:4318")
    return text if parts.path.strip("/") else f"{text.rstrip('/')}/v1/traces"


def _split(text: str) -> SplitResult | None:
    try:
        parts = urlsplit(text)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if is_usable else None


def _resource(environ: Mapping[str, str]) -> dict[str, str]:
    """The SDK prefers these over its variables, so a name that the user has set there is omitted here."""
    named = environ.get("OTEL_SERVICE_NAME") or "service.name=" in environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return {"service.version": __version__, **({} if named else {"service.name": "podium"})}
