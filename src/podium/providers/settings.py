"""Settings that not every provider has: they are ignored with a warning."""

from collections.abc import Sequence
from typing import Final

from podium.ports.provider import AgentSettings

# Of no use to a server that gives one answer to one prompt.
FOR_PROGRAMS: Final = (
    "max_cost",
    "fallback_models",
    "add_dirs",
    "allowed_tools",
    "disallowed_tools",
    "args",
)


def ignored(provider: str, settings: AgentSettings, names: Sequence[str]) -> list[str]:
    """A sentence for each of the names that was given."""
    given = [name for name in names if getattr(settings, name) not in (None, ())]
    return [f"{provider} has no setting {name!r}; it is ignored" for name in given]
