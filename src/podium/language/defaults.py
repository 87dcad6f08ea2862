"""`defaults`: keys that apply to all steps that do not set them.

They are added to the steps of their file before these are compiled, so that no other code has to know about
them. Two have rules of their own and are not here: `env` is merged, and `timeout` and `retry` only apply to
what is retried.
"""

from typing import Final

from podium.language.codes import Code
from podium.language.elsewhere import NOT_BESIDE
from podium.language.grammar import BESIDE, FROM_DEFAULTS
from podium.language.problems import Problems
from podium.language.scopes import Declared
from podium.language.shapes import Checker
from podium.language.tree import Entry, Mapping

# Where a command runs: a step that sets one of these itself ignores all defaults for it.
_PLACES: Final = frozenset(NOT_BESIDE)


def step_defaults(defaults: Mapping, root: Mapping, problems: Problems) -> dict[str, Entry]:
    """The keys to add to steps, places first."""
    if "env_policy" in defaults.entries and "env_policy" in root.entries:
        problems.at_key(
            Code.CONFLICTING_KEYS,
            defaults,
            "env_policy",
            "'env_policy' is given both in 'defaults' and beside it.",
            "Keep one of them: both are for steps that have none.",
        )
    if defaults.entries.keys() >= _PLACES:
        problems.at_key(
            Code.CONFLICTING_KEYS,
            defaults,
            "ssh",
            "a command runs on another machine or in a container, not both.",
            "Keep one of them in `defaults`, and write the other in the steps that need it.",
        )
    return {key: defaults.entries[key] for key in FROM_DEFAULTS if key in defaults.entries}


def fill_in(step: Declared, defaults: dict[str, Entry], checker: Checker) -> None:
    """Add the keys that this step may have and does not set itself."""
    entries, allowed = step.node.entries, BESIDE.get(step.action, frozenset())
    says_where = not _PLACES.isdisjoint(entries)
    for key, entry in defaults.items():
        if key not in allowed or key in entries or checker.has_lost(step.node, key):
            continue
        if key in _PLACES and says_where:
            continue
        if not any(place in entries and key in NOT_BESIDE[place] for place in _PLACES):
            entries[key] = entry
