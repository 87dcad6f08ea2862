"""Optional parts of an installation: which modules belong to an extra, and whether they are installed."""

from typing import Final

from podium.errors import PodiumError

_MODULES: Final = {
    "conductor": ("httpx2",),
    "consul": ("httpx2",),
    "http": ("httpx2", "httpcore2"),
    "kafka": ("confluent_kafka",),
    "metrics": ("prometheus_client",),
    "notify": ("apprise",),
    "otel": ("opentelemetry", "opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
    "schedules": ("cronsim",),
    "server": ("litestar", "uvicorn", "prometheus_client"),
    "signing": ("cryptography",),
    "temporal": ("temporalio",),
}


class ExtraMissing(PodiumError):
    """Something in the plan needs a package that is not installed."""

    code = "EXTRA_MISSING"


def install_hint(extra: str) -> str:
    return f"an optional package is missing: pip install 'podium[{extra}]'"


def has_extra(extra: str) -> bool:
    """Whether its modules can be found. Imports nothing."""
    return all(_is_found(module) for module in _MODULES.get(extra, ()))


def _is_found(module: str) -> bool:
    from importlib.util import find_spec

    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # a module that was replaced by None, or is partly unloaded
        return False
