"""What keeps a node from being pure, as far as its class shows it when it is made.

Looked at: the constructor, annotations, and every global name that a method uses. Code that a method calls in other
modules is not followed; tests of the node have to show what that does.
"""

import inspect
from collections.abc import Iterator
from types import CodeType, ModuleType
from typing import Any, Final

_PORTS: Final = "podium.ports"
# Modules of the world: clocks, chance, files, processes, the network.
_WORLD: Final = frozenset(
    {"asyncio", "http", "httpx2", "os", "random", "secrets", "shutil", "socket", "sqlite3", "subprocess", "tempfile",
     "threading", "time", "urllib"}
)  # fmt: skip
_WORLD_CALLS: Final = frozenset({"open", "input", "print", "exec", "eval"})


def impurity_of(cls: type) -> str | None:
    """The first thing that makes it impure; None if nothing was found."""
    if "__init__" in vars(cls):
        parameters = [name for name in inspect.signature(vars(cls)["__init__"]).parameters if name != "self"]
        if parameters:
            return f"its constructor takes {', '.join(parameters)}, and a pure node has no ports"
    for name, annotation in _annotations(cls):
        if _is_port(annotation):
            return f"the annotation of {name!r} names a port"
    for method in _methods(cls):
        if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
            return f"{method.__name__!r} is async"
        for used in _names_in(method.__code__):
            if (found := _impure_name(used, method.__globals__)) is not None:
                return f"{method.__name__!r} uses {found}"
    return None


def _methods(cls: type) -> Iterator[Any]:
    for member in vars(cls).values():
        found = inspect.unwrap(getattr(member, "__func__", getattr(member, "fget", member)))
        if inspect.isfunction(found):
            yield found


def _annotations(cls: type) -> Iterator[tuple[str, Any]]:
    yield from vars(cls).get("__annotations__", {}).items()
    for method in _methods(cls):
        yield from method.__annotations__.items()


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _impure_name(name: str, names: dict[str, Any]) -> str | None:
    if name not in names:
        return f"{name}()" if name in _WORLD_CALLS else None
    value = names[name]
    if _is_port(value):
        return f"the port {name}"
    module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    outermost = module.partition(".")[0] if isinstance(module, str) else ""
    return f"{name} of the module {outermost!r}" if outermost in _WORLD else None


def _is_port(value: Any) -> bool:
    if isinstance(value, str):
        return False
    module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return isinstance(module, str) and (module == _PORTS or module.startswith(f"{_PORTS}."))
