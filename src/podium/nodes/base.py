"""The classes that nodes derive from, and the separation between them.

    NodeCompute, NodeReducer    pure: synchronous, no port, no clock, no file; what they return follows from their input
    NodeEffect, NodeCustom      asynchronous: they act on the world, through the ports that `__init__` asks for

A class that breaks these rules cannot be made: its module fails when it is imported, not when a run gets there.

    class Greet(NodeCompute):
        name = "greet"

        @operation
        def greet(self, data: GreetInput, context: NodeContext) -> GreetOutput: ...

The input model has the fields it wants among `event`, `config`, `outputs` and `results`.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeGuard, TypeVar, get_type_hints

from pydantic import BaseModel

from podium.errors import PodiumError
from podium.nodes.purity import impurity_of

_MARK: Final = "__podium_operation__"
# Allowed fields of an input model: the run's event, the step's config, the outputs of its dependencies, and
# how those ended.
INPUT_FIELDS: Final = frozenset({"event", "config", "outputs", "results"})
_Method = TypeVar("_Method", bound=Callable[..., Any])


class InvalidNode(PodiumError):
    """A node class that breaks a rule of its type."""

    code = "INVALID_NODE"


@dataclass(frozen=True, slots=True)
class Operation:
    name: str
    input_model: type[BaseModel]
    output_model: type[BaseModel]


def operation(method: _Method) -> _Method:
    """Marks a method that contracts can name."""
    setattr(method, _MARK, True)
    return method


def _operations_of(cls: type["Node"]) -> dict[str, Operation]:
    marked = [(name, method) for name, method in vars(cls).items() if hasattr(method, _MARK)]
    return {name: _operation(cls, name, method) for name, method in marked}


def _operation(cls: type["Node"], name: str, method: Callable[..., Any]) -> Operation:
    where = f"operation {name!r} of {_called(cls)}"
    is_async = inspect.iscoroutinefunction(method)
    if cls.is_pure and (is_async or inspect.isasyncgenfunction(method)):
        raise InvalidNode(f"{where} is async; a {cls.node_type} is pure: write `def {name}`")
    if not cls.is_pure and not is_async:
        raise InvalidNode(
            f"{where} is not async; a {cls.node_type} waits for the world: write `async def {name}`"
        )
    parameters = [one for one in inspect.signature(method).parameters if one != "self"]
    if len(parameters) != 2:
        raise InvalidNode(
            f"{where} must take two arguments, its input and the context, not {len(parameters)}"
        )
    hints = _hints_of(cls, method, where)
    given, returned = hints.get(parameters[0]), hints.get("return")
    if not _is_model(given) or not _is_model(returned):
        raise InvalidNode(f"{where} must name a pydantic model for its input and one for what it returns")
    if unknown := sorted(given.model_fields.keys() - INPUT_FIELDS):
        known = ", ".join(sorted(INPUT_FIELDS))
        raise InvalidNode(
            f"{where} asks for {', '.join(unknown)}; its input model may have the fields {known}"
        )
    return Operation(name, given, returned)


def _hints_of(cls: type["Node"], method: Callable[..., Any], where: str) -> dict[str, Any]:
    try:
        return get_type_hints(method, localns=dict(vars(cls)))
    except NameError as error:
        raise InvalidNode(
            f"{where}: the annotation {error.name!r} cannot be resolved; import it above"
        ) from error


def _is_model(annotation: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _called(cls: type["Node"]) -> str:
    return f"{cls.node_type or 'node'} {cls.__qualname__!r}"


class Node:
    """The base of all nodes. Derive from one of the four classes below."""

    node_type: ClassVar[str] = ""
    is_pure: ClassVar[bool] = False
    # Its name in contracts, and the name of its entry point.
    name: ClassVar[str] = ""
    version: ClassVar[str] = "1.0.0"
    # The service it uses, for the circuit breaker: nodes with the same service share a breaker. By default
    # its own name.
    service: ClassVar[str] = ""
    # For a pure node that takes long: it runs in a thread, so that others continue and its timeout is
    # effective.
    in_thread: ClassVar[bool] = False
    operations: ClassVar[dict[str, Operation]] = {}
    # The services of individual operations, where they differ.
    services: ClassVar[Mapping[str, str]] = {}
    # Sections of the contract that are added to its config.
    sections: ClassVar[tuple[str, ...]] = ()
    # Types of events that it consumes and publishes; intents that it emits, and those that each operation
    # executes.
    consumes: ClassVar[frozenset[str]] = frozenset()
    publishes: ClassVar[frozenset[str]] = frozenset()
    # How events that do not create runs of their own are handled, by type.
    handling: ClassVar[Mapping[str, str]] = {}
    emits: ClassVar[frozenset[str]] = frozenset()
    executes: ClassVar[Mapping[str, frozenset[str]]] = {}
    # Protocols that it implements.
    protocols: ClassVar[tuple[type, ...]] = ()

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.operations = {**cls.operations, **_operations_of(cls)}
        if cls.is_pure and (found := impurity_of(cls)) is not None:
            raise InvalidNode(f"{_called(cls)} must be pure: {found}")


class NodeCompute(Node):
    """Computes its output from its input."""

    node_type = "compute"
    is_pure = True


class NodeReducer(Node):
    """Folds an event into a state and says what is to be done about it, without doing it."""

    node_type = "reducer"
    is_pure = True


class NodeEffect(Node):
    """Acts on the world. It may be called again after a crash, so that each operation has to be idempotent."""

    node_type = "effect"


class NodeCustom(Node):
    """Anything else; the rules of effects apply."""

    node_type = "custom"


def port_types(cls: type[Node]) -> dict[str, Any]:
    """The ports in the constructor of a node, by the name of the parameter."""
    if cls.__init__ is object.__init__:
        return {}
    hints = get_type_hints(cls.__init__)
    names = [name for name in inspect.signature(cls.__init__).parameters if name != "self"]
    return {name: hints.get(name) for name in names}
