"""The coordination rules of a contract with unique values: contradictions between two places are errors."""

from typing import Final

from podium.language import tree
from podium.language.tree import NodePath, Plain
from podium.nodes.contract import validated
from podium.nodes.contract_problems import ContractProblems
from podium.nodes.definition import ModelWorkflowDefinitionMetadata
from podium.nodes.run_settings import RunRules
from podium.nodes.validation import mode_problems

DEFINITION: Final = ("workflow_coordination", "workflow_definition")
_METADATA: Final = (*DEFINITION, "workflow_metadata")
_RULES: Final = (*DEFINITION, "coordination_rules")
# Rules that may be written in both places.
_SHARED: Final = ("execution_mode", "timeout_ms")


def settled_rules(
    root: tree.Node, metadata: ModelWorkflowDefinitionMetadata, problems: ContractProblems
) -> RunRules | None:
    """The rules, with the values of the metadata as defaults. None if they cannot be used."""
    found = tree.find(root, _RULES)
    written: Plain = tree.plain(found) if found is not None else {"version": "1.0.0"}
    rules = validated(RunRules, written, _RULES, problems) if isinstance(written, dict) else None
    if rules is None:
        return None
    if isinstance(rules.execution_mode, str):
        for problem in mode_problems(rules.execution_mode):
            problems.broken_rule(problem._replace(path=("execution_mode",)), _RULES)
    for key in _SHARED:
        _check_agreement(root, key, problems)
    updates = {
        key: getattr(metadata, key)
        for key in _SHARED
        if getattr(rules, key) is None or key in metadata.model_fields_set
    }
    settled = rules.model_copy(update=updates)
    if settled.execution_mode == "parallel" and not settled.parallel_execution_allowed:
        problems.contradiction(
            (*_RULES, "parallel_execution_allowed"),
            "'parallel_execution_allowed' is false, but 'execution_mode' is 'parallel'.",
            "Allow it, or use the mode 'sequential'.",
        )
    return settled


def _check_agreement(root: tree.Node, key: str, problems: ContractProblems) -> None:
    one, other = _value(root, (*_METADATA, key)), _value(root, (*_RULES, key))
    if one is not None and other is not None and one != other:
        problems.contradiction(
            (*_RULES, key),
            f"'{key}' is {other!r} here and {one!r} in 'workflow_metadata'.",
            "Write it in one place, or the same value in both.",
        )


def _value(root: tree.Node, path: NodePath) -> object:
    node = tree.find(root, path)
    return node.value if isinstance(node, tree.Scalar) else None
