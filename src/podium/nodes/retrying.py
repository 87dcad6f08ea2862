"""Retries of an effect inside one attempt of its step: for which errors, how often, after which delays.

The attempts of the step are the other level; the machine decides about those.
"""

from podium.nodes.errors import CircuitOpen
from podium.plan.plan import NodeRetry

# Errors that mean that a service is unavailable; they open its breaker.
TRANSIENT = ("EffectExecutionError", "ConnectionError", "TimeoutError")


def pause_after(policy: NodeRetry | None, tries: int, error: Exception) -> float | None:
    """The seconds until the next try; None if there is none. `tries`: the number of tries so far."""
    if policy is None or tries > policy.retries or not is_named(error, policy.on):
        return None
    return float(min(policy.delay * policy.factor ** (tries - 1), policy.max_delay))


def is_transient(error: BaseException) -> bool:
    return is_named(error, TRANSIENT)


def is_named(error: BaseException, names: tuple[str, ...]) -> bool:
    """Whether the error is of one of these classes, by name, or derived from one."""
    if isinstance(error, CircuitOpen):
        return False
    return any(cls.__name__ in names for cls in type(error).__mro__)
