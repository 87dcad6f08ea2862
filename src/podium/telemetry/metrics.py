"""Metrics, scraped by Prometheus over HTTP."""

from typing import Any, Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
    start_http_server,
)

from podium.errors import PodiumError
from podium.patterns import lazy_pattern
from podium.ports.metrics import METRICS, Metric
from podium.text import reason_of

# Valid names of topics, types, services, routes and codes. Their sets are closed where they are counted; even
# if that fails, a text that cannot be one of them is not shown.
_LABEL: Final = lazy_pattern(r"[A-Za-z0-9_.:/{} -]{1,249}")
_OTHER: Final = "other"
_KINDS: Final[dict[str, Any]] = {"counter": Counter, "gauge": Gauge, "histogram": Histogram}


class MetricsUnavailable(PodiumError):
    """The address for metrics cannot be used."""

    code = "METRICS_UNAVAILABLE"


class Metrics:
    """The metrics of one process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._known: dict[str, Any] = {
            one.name: _KINDS[one.kind](one.name, one.help, one.labels, registry=self._registry)
            for one in METRICS
        }
        self._server: Any = None
        self._serving: Any = None

    def serve(self, host: str, port: int) -> None:
        """Raises `MetricsUnavailable`."""
        try:
            self._server, self._serving = start_http_server(port, host, registry=self._registry)
        except OSError as error:
            raise MetricsUnavailable(
                f"metrics cannot be served at {host}:{port}: {reason_of(error)}; choose another address with --metrics"
            ) from error

    @property
    def port(self) -> int:
        return int(self._server.server_port)

    def count(self, metric: Metric, *labels: str, by: int = 1) -> None:
        if by > 0:
            self._of(metric, labels).inc(by)

    def set(self, metric: Metric, *labels: str, value: float) -> None:
        self._of(metric, labels).set(value)

    def observe(self, metric: Metric, *labels: str, value: float) -> None:
        self._of(metric, labels).observe(value)

    def exposition(self) -> bytes:
        return bytes(generate_latest(self._registry))

    def _of(self, metric: Metric, labels: tuple[str, ...]) -> Any:
        known = self._known[metric.name]
        return known.labels(*map(_label, labels)) if labels else known

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._serving.join(timeout=2)


def _label(text: str) -> str:
    return text if _LABEL.fullmatch(text) else _OTHER
