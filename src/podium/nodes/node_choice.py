"""Which node and operation a step of a contract refers to, and whether its config is valid."""

from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from podium.language.tree import NodePath
from podium.nodes.contract_problems import ContractProblems
from podium.nodes.orchestrator import NodeOrchestrator
from podium.nodes.registry import NodeClass, NodeNotAvailable, NodeRegistry
from podium.nodes.run_settings import StepNode


def choose_node(
    node_type: str,
    step_name: str,
    chosen: StepNode,
    place: NodePath,
    nodes: NodeRegistry,
    problems: ContractProblems,
) -> str | None:
    """The operation that the step refers to; None if there is none, which is reported."""
    name = chosen.node or step_name
    where: NodePath = (*place, "node") if chosen.node is not None else place
    try:
        found = nodes.find(node_type, name)
    except NodeNotAvailable as error:
        problems.node_not_loaded(where, str(error))
        return None
    if found is None:
        problems.unknown_node(where, node_type, name, nodes.types_of(name), nodes.names())
        return None
    operation = _operation(found, chosen, place, problems)
    if operation is not None:
        _check_config(found, operation, chosen, (*place, "config"), problems)
    return operation


def _operation(found: NodeClass, chosen: StepNode, place: NodePath, problems: ContractProblems) -> str | None:
    known = tuple(found.operations)
    if chosen.operation is None and len(known) == 1:
        return known[0]
    if chosen.operation in known:
        return chosen.operation
    where = (*place, "operation") if chosen.operation is not None else place
    problems.unknown_operation(where, found.name, chosen.operation, known)
    return None


def _check_config(
    found: NodeClass, operation: str, chosen: StepNode, where: NodePath, problems: ContractProblems
) -> None:
    field = found.operations[operation].input_model.model_fields.get("config")
    if issubclass(found, NodeOrchestrator):
        return  # the config is the operation itself
    if field is None:
        if chosen.config:
            problems.unused_config(where, found.name)
        return
    if not chosen.config and not field.is_required():
        return
    try:
        TypeAdapter(cast("Any", field.annotation)).validate_python(chosen.config)
    except ValidationError as invalid:
        for error in invalid.errors(include_url=False, include_input=False):
            problems.invalid_config((*where, *error["loc"]), error["msg"])
