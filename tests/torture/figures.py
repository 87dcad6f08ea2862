"""How measured times are printed: their distribution, and how busy the machine was."""

import os
from collections.abc import Sequence


def percentile(seconds: Sequence[float], share: float) -> float:
    """The smallest time that this share of all times does not exceed."""
    ordered = sorted(seconds)
    return ordered[max(0, -(-len(ordered) * round(share * 1000) // 1000) - 1)]


def distribution(what: str, seconds: Sequence[float]) -> str:
    if not seconds:
        return f"{what}: not measured"
    parts = [
        f"{name} {percentile(seconds, share):.2f}"
        for name, share in (("median", 0.5), ("p90", 0.9), ("p99", 0.99))
    ]
    return f"{what}: {len(seconds)} times; {', '.join(parts)}, max {max(seconds):.2f} s"


def load() -> str:
    return "load average " + ", ".join(f"{one:.1f}" for one in os.getloadavg())
