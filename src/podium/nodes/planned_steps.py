"""The steps of a contract in the form that is compiled, from `steps:` or from the execution graph."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from podium.language import tree
from podium.language.tree import NodePath
from podium.nodes.contract import validated
from podium.nodes.contract_problems import ContractProblems
from podium.nodes.definition import ModelWorkflowStep
from podium.nodes.graph_nodes import GRAPH, graph_nodes
from podium.nodes.node_choice import choose_node
from podium.nodes.registry import NodeRegistry
from podium.nodes.run_settings import GraphNode, StepNode
from podium.nodes.section_config import with_sections
from podium.nodes.sections import Sections
from podium.nodes.validation import ROUTES, order_steps
from podium.patterns import lazy_pattern

# What the name of a step in a plan must not contain, because these are syntax in references and paths.
_NOT_IN_NAMES: Final = lazy_pattern(r"""[.\[\]{}"|/#]|:-|^_+|[^\x20-\x7e\w]""")
_CUSTOM: Final = "custom"


@dataclass(frozen=True, slots=True)
class PlannedStep:
    # Its position in the file.
    place: NodePath
    step_id: str
    # For display, if it differs from the id.
    name: str | None
    type: str
    node: str
    operation: str
    config: dict[str, Any]
    depends_on: tuple[str, ...]
    enabled: bool
    timeout_ms: int
    # None: the value of the coordination rules.
    retries: int | None
    error_action: str
    allow_failure: bool
    priority: int


def planned_steps(
    root: tree.Node,
    steps: Sequence[ModelWorkflowStep],
    nodes: NodeRegistry,
    problems: ContractProblems,
    sections: Sections,
) -> list[PlannedStep]:
    """The steps that can be planned; problems of the others are reported."""
    if steps:
        _check_reached(root, steps, problems)
        return _from_steps(root, steps, nodes, problems, sections)
    return _from_graph(root, nodes, problems, sections)


def number_of_steps(root: tree.Node) -> int:
    """How many the file has, including those that cannot be planned."""
    steps, graph = tree.find(root, ("steps",)), tree.find(root, GRAPH)
    listed = steps if isinstance(steps, tree.Sequence) and steps.items else graph
    return len(listed.items) if isinstance(listed, tree.Sequence) else 0


def _from_steps(
    root: tree.Node,
    steps: Sequence[ModelWorkflowStep],
    nodes: NodeRegistry,
    problems: ContractProblems,
    sections: Sections,
) -> list[PlannedStep]:
    ids = _plan_ids([_file_name(root, index, step) for index, step in enumerate(steps)])
    id_of = {step.step_id: name for step, name in zip(steps, ids, strict=True)}
    planned = []
    for index, step in enumerate(steps):
        place: NodePath = ("steps", index)
        chosen = _step_node(root, place, problems)
        if chosen is None or step.step_type not in ROUTES:
            continue
        kind = step.step_type if step.step_type != "parallel" else _CUSTOM
        chosen = with_sections(chosen, kind, ids[index], place, sections, nodes, problems)
        operation = choose_node(kind, ids[index], chosen, place, nodes, problems) if step.enabled else ""
        if operation is None:
            continue
        planned.append(
            PlannedStep(
                place,
                ids[index],
                step.step_name if step.step_name != ids[index] else None,
                kind,
                chosen.node or ids[index],
                operation,
                chosen.config,
                tuple(dict.fromkeys(id_of[one] for one in step.depends_on if one in id_of)),
                step.enabled,
                step.timeout_ms,
                step.retry_count if "retry_count" in step.model_fields_set else None,
                step.error_action,
                chosen.allow_failure,
                step.priority,
            )
        )
    return planned


def _check_reached(root: tree.Node, steps: Sequence[ModelWorkflowStep], problems: ContractProblems) -> None:
    """Steps that wait for a cycle without being part of it; the cycle itself has been reported."""
    ordering = order_steps(steps)
    if not ordering.cycle:
        return
    placed = {*ordering.cycle, *(index for wave in ordering.waves for index in wave)}
    for index, step in enumerate(steps):
        if index not in placed:
            problems.unreachable_node(("steps", index), _file_name(root, index, step))


def _from_graph(
    root: tree.Node, nodes: NodeRegistry, problems: ContractProblems, sections: Sections
) -> list[PlannedStep]:
    found = graph_nodes(root, problems)
    ids = _plan_ids([one.node_id for _, one, _ in found])
    id_of = {one.node_id: name for (_, one, _), name in zip(found, ids, strict=True)}
    planned = []
    for (index, written, needed), step_id in zip(found, ids, strict=True):
        place: NodePath = (*GRAPH, index)
        one = with_sections(written, written.node_type, written.node_id, place, sections, nodes, problems)
        operation = (
            choose_node(one.node_type, one.node_id, one, place, nodes, problems) if one.enabled else ""
        )
        if operation is not None:
            planned.append(_planned(place, step_id, one, operation, [id_of[name] for name in needed]))
    return planned


def _planned(
    place: NodePath, step_id: str, node: GraphNode, operation: str, needed: Sequence[str]
) -> PlannedStep:
    return PlannedStep(
        place,
        step_id,
        node.node_id if node.node_id != step_id else None,
        node.node_type,
        node.node or node.node_id,
        operation,
        node.config,
        tuple(dict.fromkeys(needed)),
        node.enabled,
        node.timeout_ms,
        node.retry_count,
        node.error_action,
        node.allow_failure,
        node.priority,
    )


def _step_node(root: tree.Node, place: NodePath, problems: ContractProblems) -> StepNode | None:
    node = tree.find(root, place)
    written = tree.plain(node) if node is not None else None
    if not isinstance(written, dict):
        return None
    return validated(
        StepNode, {key: written[key] for key in StepNode.model_fields if key in written}, place, problems
    )


def _file_name(root: tree.Node, index: int, step: ModelWorkflowStep) -> str:
    """The name of a step in the file: its step_id if that is a name, else its step_name."""
    written = tree.find(root, ("steps", index, "step_id"))
    if isinstance(written, tree.Scalar) and not _is_uuid(written.text):
        return written.text
    return str(getattr(step, "step_name", "")) or f"step {index + 1}"


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def _plan_ids(names: Sequence[str]) -> list[str]:
    """Unique names that are valid in a plan."""
    ids: dict[str, None] = {}
    for name in names:
        plain = _NOT_IN_NAMES.sub("-", name).strip() or "step"
        number, candidate = 1, plain
        while candidate in ids:
            number += 1
            candidate = f"{plain} {number}"
        ids[candidate] = None
    return list(ids)
