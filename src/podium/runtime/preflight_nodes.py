"""Whether the nodes that a plan names are installed here, provide its operations, and can be given their
ports.
"""

from collections.abc import Iterator, Sequence

from podium.errors import PodiumError
from podium.nodes.registry import NodeNotAvailable, NodeRegistry
from podium.plan.loading import LocatedStep
from podium.plan.plan import Node
from podium.runtime.preflight import steps_named


def node_problems(steps: Sequence[LocatedStep], nodes: NodeRegistry) -> Iterator[PodiumError]:
    named_by: dict[tuple[str, str, str], list[str]] = {}
    for found in steps:
        body = found.step.body
        if isinstance(body, Node) and found.step.when is not False:
            named_by.setdefault((body.type, body.node, body.operation), []).append(found.path)
    for (node_type, name, operation), paths in named_by.items():
        try:
            node = nodes.instance(node_type, name)
        except NodeNotAvailable as error:
            yield NodeNotAvailable(f"{steps_named(paths)}: {error}")
            continue
        if operation not in node.operations:
            yield NodeNotAvailable(
                f"{steps_named(paths)}: the {node_type} node {name!r} has no operation {operation!r} here; install the "
                "version that the contract was written for"
            )
