"""Looks up nodes: built-in ones, those of a program, those of installed packages.

A package provides nodes by entry points of the group `podium.nodes`; the name of the entry point is the
node's. A node runs in the process that executes its step, so installing one means trusting it.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from podium.errors import PodiumError
from podium.nodes.base import Node, port_types
from podium.nodes.built_in import BUILT_IN
from podium.nodes.orchestrator import NodeOrchestrator
from podium.nodes.sanitising import raised_at
from podium.text import typed_reason

GROUP: Final = "podium.nodes"
NodeClass = type[Node] | type[NodeOrchestrator]


class NodeNotAvailable(PodiumError):
    """A node that is not installed here, cannot be loaded, or lacks a port."""

    code = "NODE_NOT_AVAILABLE"


# Part of Podium, but imported with the first contract that names one of them.
_REGISTRATION: Final = tuple(
    EntryPoint(name, f"podium.nodes.registration.{module}:{cls}", GROUP)
    for name, module, cls in (
        ("receive_introspection", "effects", "ReceiveIntrospection"),
        ("read_projection", "effects", "ReadProjection"),
        ("evaluate_timeout", "deciding", "EvaluateTimeout"),
        ("compute_intents", "deciding", "ComputeIntents"),
        ("node_registry_effect", "effects", "NodeRegistryEffect"),
        ("aggregate_results", "deciding", "AggregateResults"),
        ("publish_outcome", "effects", "PublishOutcome"),
        ("node_registration_orchestrator", "node", "NodeRegistrationOrchestrator"),
    )
)


def own_names() -> frozenset[str]:
    """Those of the nodes that are part of Podium. They have precedence over installed ones."""
    return frozenset({*(cls.name for cls in BUILT_IN), *(entry.name for entry in _REGISTRATION)})


def _installed() -> tuple[EntryPoint, ...]:
    return (*_REGISTRATION, *entry_points(group=GROUP))


class NodeRegistry:
    """The nodes of one process.

    `classes`: those of the program itself. `ports`: the ports of effects, by type; called when the first one
    is created.
    """

    def __init__(
        self,
        classes: Iterable[NodeClass] = (),
        *,
        ports: Callable[[], Mapping[Any, object]] = dict,
        installed: Callable[[], Iterable[EntryPoint]] = _installed,
    ) -> None:
        self._classes = {(cls.node_type, cls.name): cls for cls in (*BUILT_IN, *classes)}
        self._ports = cache(ports)
        self._installed = installed
        self._entries: dict[str, list[EntryPoint]] | None = None
        self._instances: dict[tuple[str, str], Any] = {}

    def find(self, node_type: str, name: str) -> NodeClass | None:
        """None if it is unknown. Raises `NodeNotAvailable` if its package cannot be loaded."""
        found = self._classes.get((node_type, name))
        if found is None and name in self._by_name():
            loaded = [_load(entry) for entry in self._by_name()[name]]
            del self._by_name()[name]
            for cls in loaded:
                self._classes.setdefault((cls.node_type, cls.name), cls)
            found = self._classes.get((node_type, name))
        return found

    def types_of(self, name: str) -> tuple[str, ...]:
        """The types of nodes with this name."""
        return tuple(sorted(kind for kind, known in self._classes if known == name))

    def names(self) -> tuple[str, ...]:
        return tuple(sorted({*(name for _, name in self._classes), *self._by_name()}))

    def instance(self, node_type: str, name: str) -> Any:
        """The node itself, created once. Raises `NodeNotAvailable`."""
        key = (node_type, name)
        if key not in self._instances:
            cls = self.find(*key)
            if cls is None:
                raise NodeNotAvailable(
                    f"the {node_type} node {name!r} is not installed here; install the package that has it "
                    f"(entry point group {GROUP})"
                )
            self._instances[key] = self._make(cls)
        return self._instances[key]

    def _make(self, cls: NodeClass) -> Any:
        if issubclass(cls, NodeOrchestrator):
            return cls(self)
        wanted = port_types(cls)
        ports = self._ports() if wanted else {}
        missing = [name for name, kind in wanted.items() if kind not in ports]
        if missing:
            raise NodeNotAvailable(
                f"the {cls.node_type} node {cls.name!r} needs {', '.join(missing)}, which this process does not "
                "provide; check the configuration"
            )
        return cls(**{name: ports[kind] for name, kind in wanted.items()})

    def _by_name(self) -> dict[str, list[EntryPoint]]:
        if self._entries is None:
            self._entries = {}
            for entry in self._installed():
                self._entries.setdefault(entry.name, []).append(entry)
        return self._entries


def _load(entry: EntryPoint) -> NodeClass:
    package = entry.dist.name if entry.dist is not None else entry.value
    where = f"the node {entry.name!r} of the package {package!r} ({entry.value})"
    try:
        loaded = entry.load()
    # SystemExit, too: some packages exit when one of their dependencies is missing.
    except (Exception, SystemExit) as error:
        raise NodeNotAvailable(f"{where} cannot be loaded: {_reason(error)}; fix the package") from error
    if not (isinstance(loaded, type) and issubclass(loaded, Node | NodeOrchestrator) and loaded.node_type):
        raise NodeNotAvailable(
            f"{where} is not a node: derive it from NodeEffect, NodeCompute or NodeReducer"
        )
    if loaded.name != entry.name:
        raise NodeNotAvailable(
            f"{where} has the name {loaded.name!r}; entry point and class need the same name"
        )
    return loaded


def _reason(error: BaseException) -> str:
    """The text of an error in the code; for any other error, whose text may contain anything, only where it
    was raised.
    """
    if isinstance(error, PodiumError | ImportError | AttributeError | SyntaxError):
        return typed_reason(error)
    where = raised_at(error)
    return f"{type(error).__name__}{f' at {where}' if where else ''}"
