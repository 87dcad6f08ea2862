"""What an engine can be asked for by a plan, and whether a plan asks for something that an engine does not have."""

from collections.abc import Collection
from typing import Final

from podium.errors import PodiumError
from podium.plan.loading import InvalidPlan, required_capabilities
from podium.plan.plan import SCHEMA_VERSION, Plan

CAPABILITIES: Final = frozenset(
    {
        "basic-execution",
        "signal.pause",
        "signal.cancel.cooperative",
        "signal.cancel.forced",
        "signal.retry-step",
        "flow.goto",
        "flow.parallel",
        "flow.for-each.dynamic",
        "flow.while",
        "flow.join.any",
        "timer",
        "approval",
        "history.rotation",
        "query.state",
        "replay",
        "budget",
    }
)


class CapabilityUnknown(PodiumError):
    """A plan asks for something that no engine is known to have."""

    code = "CAPABILITY_UNKNOWN"


class CapabilityNotSupported(PodiumError):
    """The plan is for another engine, or asks for what this one does not have."""

    code = "CAPABILITY_NOT_SUPPORTED"


def check_capabilities(plan: Plan, adapter: str, supported: Collection[str] = CAPABILITIES) -> None:
    """Raises `CapabilityUnknown`, `CapabilityNotSupported`; `InvalidPlan` if it asks for less than it uses."""
    asked, name = plan.metadata.requires_capabilities, plan.metadata.name
    if unknown := sorted(set(asked) - CAPABILITIES):
        raise CapabilityUnknown(
            f"plan {name!r} needs {', '.join(map(repr, unknown))}, which no engine of this Podium knows; use the "
            "Podium that published it, or publish its workflow again"
        )
    # What a plan of an earlier version needs was listed by the rules of that version.
    hidden = sorted(required_capabilities(plan.workflow) - set(asked))
    if hidden and plan.schema_version == SCHEMA_VERSION:
        raise InvalidPlan(
            f"this is not a plan: its steps need {', '.join(hidden)}, which `requiresCapabilities` does not list; "
            "publish its workflow again with `podium publish`"
        )
    if plan.metadata.target_adapter not in ("any", adapter):
        raise CapabilityNotSupported(
            f"plan {name!r} is for the engine {plan.metadata.target_adapter!r}, and this is {adapter!r}; start it with "
            "the engine that it is for"
        )
    if missing := sorted(set(asked) - set(supported)):
        raise CapabilityNotSupported(
            f"plan {name!r} needs {', '.join(missing)}, which the engine {adapter!r} does not have; start it with "
            "another engine"
        )
