"""The nodes of a contract's execution graph, checked like steps: ids, dependencies, cycles, unreachable
nodes.
"""

from typing import Final

from podium.language import tree
from podium.language.tree import NodePath
from podium.nodes.contract import validated
from podium.nodes.contract_problems import ContractProblems
from podium.nodes.run_settings import GraphNode
from podium.plan import graph

GRAPH: Final = ("workflow_coordination", "workflow_definition", "execution_graph", "nodes")

# Index in the file, the node, and the names of its dependencies.
FoundNode = tuple[int, GraphNode, list[str]]


def graph_nodes(root: tree.Node, problems: ContractProblems) -> list[FoundNode]:
    """The readable ones; problems of the others are reported."""
    listed = tree.find(root, GRAPH)
    if not isinstance(listed, tree.Sequence):
        return []
    read = [(index, _read(index, item, problems)) for index, item in enumerate(listed.items)]
    first: dict[str, int] = {}
    found: list[tuple[int, GraphNode]] = []
    for index, node in read:
        if node is None:
            continue
        if first.setdefault(node.node_id, index) != index:
            problems.duplicate_node((*GRAPH, index, "node_id"), (*GRAPH, first[node.node_id], "node_id"))
            continue
        found.append((index, node))
    # A node that could not be read may be the one that others name.
    is_complete = all(node is not None for _, node in read)
    known = {node.node_id: None for _, node in found}
    needed = [_dependencies(index, node, known, problems, report=is_complete) for index, node in found]
    _check_order(found, needed, problems)
    return [(index, node, names) for (index, node), names in zip(found, needed, strict=True)]


def _read(index: int, item: tree.Node, problems: ContractProblems) -> GraphNode | None:
    written = tree.plain(item)
    if not isinstance(written, dict):
        return None  # already reported by the model of the specification
    place: NodePath = (*GRAPH, index)
    if "depends_on" in written and "dependencies" in written:
        problems.contradiction(
            (*place, "dependencies"),
            "the node has both 'depends_on' and 'dependencies', which mean the same.",
            "Keep 'depends_on'.",
        )
    known = {key: value for key, value in written.items() if key in GraphNode.model_fields}
    return validated(GraphNode, known, place, problems)


def _dependencies(
    index: int, node: GraphNode, known: dict[str, None], problems: ContractProblems, *, report: bool
) -> list[str]:
    key = "depends_on" if node.depends_on is not None else "dependencies"
    names = node.depends_on if node.depends_on is not None else node.dependencies or []
    kept = []
    for place, name in enumerate(names):
        if name in known:
            kept.append(name)
        elif report:
            problems.unknown_graph_node((*GRAPH, index, key, place), node.node_id, name, list(known))
    return kept


def _check_order(
    found: list[tuple[int, GraphNode]], needed: list[list[str]], problems: ContractProblems
) -> None:
    index_of = {node.node_id: place for place, (_, node) in enumerate(found)}
    ordering = graph.order([[index_of[name] for name in names] for names in needed])
    if not ordering.cycle:
        return
    names = [node.node_id for _, node in found]
    problems.graph_cycle((*GRAPH, found[ordering.cycle[0]][0]), ordering.cycle, names)
    reached = {place for wave in ordering.waves for place in wave}
    for place, (index, node) in enumerate(found):
        if place not in reached and place not in ordering.cycle:
            problems.unreachable_node((*GRAPH, index, "node_id"), node.node_id)
