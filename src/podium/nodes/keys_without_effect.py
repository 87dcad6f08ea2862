"""Keys of a contract that the specification reserves, or that say how actions are handed out, and that runs
ignore.

A user who writes one expects an effect, so it is a warning; `--strict` makes it an error.
"""

from typing import Final

from podium.language import tree
from podium.language.tree import NodePath
from podium.nodes.contract_problems import ContractProblems
from podium.nodes.settled_rules import DEFINITION

# With the values that have no meaning.
_OF_STEPS: Final[dict[str, object]] = {
    "skip_on_failure": False,
    "max_memory_mb": None,
    "max_cpu_percent": None,
    "parallel_group": None,
    "max_parallel_instances": 1,
    "compensation_action": None,
    "checkpoint_required": False,
    "idempotency_key": None,
}
_OF_RULES: Final[dict[str, object]] = {
    "synchronization_points": [],
    "failure_recovery_strategy": "RETRY",
    "retry_delay_ms": 0,
}
_OF_DEFINITIONS: Final[dict[str, object]] = {
    "compensation_enabled": False,
    "saga_pattern": None,
    "checkpoint_enabled": False,
}


def warn_about_keys_without_effect(root: tree.Node, problems: ContractProblems) -> None:
    """Warns of those with a meaningful value."""
    _warn(root, DEFINITION, _OF_DEFINITIONS, problems)
    _warn(root, (*DEFINITION, "coordination_rules"), _OF_RULES, problems)
    steps = tree.find(root, ("steps",))
    if isinstance(steps, tree.Sequence):
        for index in range(len(steps.items)):
            _warn(root, ("steps", index), _OF_STEPS, problems)


def _warn(root: tree.Node, place: NodePath, keys: dict[str, object], problems: ContractProblems) -> None:
    mapping = tree.find(root, place)
    if not isinstance(mapping, tree.Mapping):
        return
    for name, nothing in keys.items():
        entry = mapping.entries.get(name)
        if entry is not None and tree.plain(entry.value) != nothing:
            problems.no_effect(entry.key)
