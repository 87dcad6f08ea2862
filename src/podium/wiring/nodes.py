"""The nodes of this process."""

from functools import cache
from typing import TYPE_CHECKING, Any

from podium.wiring.stores import system_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from podium.nodes.registry import NodeClass, NodeRegistry
    from podium.ports.clock import Clock
    from podium.runtime.tasks.node_runtime import NodeRuntime


def node_registry(classes: "Sequence[NodeClass]" = ()) -> "NodeRegistry":
    """The nodes that are installed here, and those of the program."""
    from podium.nodes.registry import NodeRegistry
    from podium.wiring.node_ports import registration_ports

    return NodeRegistry(classes, ports=registration_ports)


def nodes_with(classes: "Sequence[NodeClass]") -> "Callable[[], NodeRuntime]":
    """A function that returns a runtime for them, created once."""
    from podium.runtime.tasks.node_runtime import NodeRuntime

    return cache(lambda: NodeRuntime(node_registry(classes), system_clock()))


def nodes_with_ports(ports: "Mapping[Any, object]", clock: "Clock") -> "NodeRuntime":
    """A runtime whose effects get these ports."""
    from podium.nodes.registry import NodeRegistry
    from podium.runtime.tasks.node_runtime import NodeRuntime

    return NodeRuntime(NodeRegistry(ports=lambda: ports), clock)


@cache
def node_runtime() -> "NodeRuntime":
    """The nodes that are installed here. One per process, so that all runs share the breakers."""
    return nodes_with(())()
