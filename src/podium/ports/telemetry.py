"""What a process shows of itself while it works: spans and numbers. The default shows nothing.

What they are is in `ports/metrics.py`, which a process that shows nothing does not load.
"""

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from podium.ports.metrics import Metric, Span


class Telemetry(Protocol):
    """No method raises or waits: what cannot be shown is left out."""

    @property
    def is_tracing(self) -> bool:
        """Whether spans are wanted; if not, none need to be made."""
        ...

    @property
    def is_on(self) -> bool:
        """Whether anything is wanted."""
        ...

    def count(self, metric: "Metric", *labels: str, by: int = 1) -> None: ...

    def set(self, metric: "Metric", *labels: str, value: float) -> None: ...

    def observe(self, metric: "Metric", *labels: str, value: float) -> None: ...

    def span(self, span: "Span") -> None: ...

    def exposition(self) -> bytes:
        """The metrics as Prometheus reads them; empty if there are none."""
        ...

    def close(self) -> None:
        """Deliver what waits, within a few seconds."""
        ...


class NoTelemetry:
    """A `Telemetry` that shows nothing."""

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
