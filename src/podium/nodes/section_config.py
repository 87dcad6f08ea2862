"""The sections of a contract as a part of the config of the nodes that read them."""

from typing import Any, TypeVar

from podium.language.tree import NodePath
from podium.nodes.base import Node
from podium.nodes.contract_problems import ContractProblems
from podium.nodes.registry import NodeNotAvailable, NodeRegistry
from podium.nodes.run_settings import StepNode
from podium.nodes.sections import Sections

_Chosen = TypeVar("_Chosen", bound=StepNode)


def with_sections(
    chosen: _Chosen,
    node_type: str,
    name: str,
    place: NodePath,
    sections: Sections,
    nodes: NodeRegistry,
    problems: ContractProblems,
) -> _Chosen:
    try:
        cls = nodes.find(node_type, chosen.node or name)
    except NodeNotAvailable:
        return chosen  # reported when the node is chosen
    read: dict[str, Any] = {}
    for section in cls.sections if cls is not None and issubclass(cls, Node) else ():
        if section in chosen.config:
            problems.contradiction(
                (*place, "config", section),
                f"'{section}' is a section of the contract, not a key of a step's config.",
                f"Write '{section}:' beside 'workflow_coordination:'.",
            )
        elif (found := getattr(sections, section)) is not None:
            read[section] = _plain(found)
    return chosen.model_copy(update={"config": {**chosen.config, **read}})


def _plain(section: Any) -> Any:
    if isinstance(section, list):
        return [one.model_dump(mode="json") for one in section]
    return section.model_dump(mode="json")
