"""Observability of a process: spans and metrics. The default exports nothing.

They are defined in `ports/metrics.py`, which a process that exports nothing does not load.
"""

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from podium.ports.metrics import Metric, Span


class Telemetry(Protocol):
    """No method raises or blocks: what cannot be exported is dropped."""

    @property
    def is_tracing(self) -> bool:
        """Whether spans are exported; if not, none need to be created."""
        ...

    @property
    def is_on(self) -> bool:
        """Whether anything is exported."""
        ...

    def count(self, metric: "Metric", *labels: str, by: int = 1) -> None: ...

    def set(self, metric: "Metric", *labels: str, value: float) -> None: ...

    def observe(self, metric: "Metric", *labels: str, value: float) -> None: ...

    def span(self, span: "Span") -> None: ...

    def exposition(self) -> bytes:
        """The metrics in the Prometheus text format; empty if there are none."""
        ...

    def close(self) -> None:
        """Deliver what is buffered, within a few seconds."""
        ...


class NoTelemetry:
    """A `Telemetry` that exports nothing."""

    is_tracing = False
    is_on = False

    def count(self, metric: "Metric", *labels: str, by: int = 1) -> None: ...

    def set(self, metric: "Metric", *labels: str, value: float) -> None: ...

    def observe(self, metric: "Metric", *labels: str, value: float) -> None: ...

    def span(self, span: "Span") -> None: ...

    def exposition(self) -> bytes:
        return b""

    def close(self) -> None: ...


SILENT: Final[Telemetry] = NoTelemetry()
