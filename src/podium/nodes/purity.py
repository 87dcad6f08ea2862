"""Detects impure nodes, as far as possible when their class is created.

Checked are the constructor, annotations, and every global name that a method uses, including those of
mixed-in classes. Code that a method calls in other modules is not followed; tests of the node have to cover
that.
"""

import datetime
import dis
import inspect
import re
from collections.abc import Iterator
from types import CodeType, ModuleType
from typing import Any, Final

_PORTS: Final = "podium.ports"
_BASES: Final = frozenset({"builtins", "podium.nodes.base", "typing"})
# Impure modules: clocks, random numbers, files, processes, the network.
_WORLD: Final = frozenset(
    {"asyncio", "http", "httpx2", "os", "random", "secrets", "shutil", "socket", "sqlite3", "subprocess", "tempfile",
     "threading", "time", "urllib"}
)  # fmt: skip
_WORLD_CALLS: Final = frozenset({"open", "input", "print", "exec", "eval"})
_RANDOM_IDS: Final = frozenset({"uuid1", "uuid4"})
_CLOCKS: Final = (datetime.datetime, datetime.date, datetime)
_READS_A_CLOCK: Final = frozenset({"now", "utcnow", "today"})
_WORD: Final = re.compile(r"[A-Za-z_]\w*")


def impurity_of(cls: type) -> str | None:
    """The first thing that makes it impure; None if nothing was found."""
    for one in cls.__mro__:
        if one.__module__ not in _BASES and (found := _impurity_in(one)) is not None:
            return found
    return None


def _impurity_in(cls: type) -> str | None:
    if "__init__" in vars(cls):
        parameters = [name for name in inspect.signature(vars(cls)["__init__"]).parameters if name != "self"]
        if parameters:
            return f"its constructor takes {', '.join(parameters)}, and a pure node has no ports"
    for name, annotation, names in _annotations(cls):
        if _names_a_port(annotation, names):
            return f"the annotation of {name!r} names a port"
    for method in _methods(cls):
        if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
            return f"{method.__name__!r} is async"
        if (used := _impure_use(method)) is not None:
            return f"{method.__name__!r} uses {used}"
    return None


def _methods(cls: type) -> Iterator[Any]:
    for member in vars(cls).values():
        found = inspect.unwrap(getattr(member, "__func__", getattr(member, "fget", member)))
        if inspect.isfunction(found):
            yield found


def _annotations(cls: type) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Name, annotation, and the namespace for annotations that are texts."""
    module = inspect.getmodule(cls)
    names = vars(module) if module is not None else {}
    for name, annotation in vars(cls).get("__annotations__", {}).items():
        yield name, annotation, names
    for method in _methods(cls):
        for name, annotation in method.__annotations__.items():
            yield name, annotation, method.__globals__


def _names_a_port(annotation: Any, names: dict[str, Any]) -> bool:
    if isinstance(annotation, str):
        return any(_is_port(names.get(word)) for word in _WORD.findall(annotation))
    return _is_port(annotation)


def _impure_use(method: Any) -> str | None:
    for name, attributes in _names_in(method.__code__):
        if (found := _impure_name(name, attributes, method.__globals__)) is not None:
            return found
    return None


def _names_in(code: CodeType) -> Iterator[tuple[str, set[str]]]:
    """The global names that code uses, each with its accessed attributes: `datetime.datetime.now`."""
    pending = [code]
    while pending:
        one = pending.pop()
        name: str | None = None
        attributes: set[str] = set()
        for instruction in dis.get_instructions(one):
            if name is not None and instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                attributes.add(str(instruction.argval))
                continue
            if name is not None:
                yield name, attributes
            is_global = instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")
            name, attributes = (str(instruction.argval) if is_global else None), set()
        pending += [constant for constant in one.co_consts if isinstance(constant, CodeType)]


def _impure_name(name: str, attributes: set[str], names: dict[str, Any]) -> str | None:
    if name not in names:
        return f"{name}()" if name in _WORLD_CALLS else None
    value = names[name]
    if _is_port(value):
        return f"the port {name}"
    if any(value is clock for clock in _CLOCKS) and attributes & _READS_A_CLOCK:
        return f"the clock of {name}; take `context.now`"
    module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    outermost = module.partition(".")[0] if isinstance(module, str) else ""
    if outermost == "uuid" and (name in _RANDOM_IDS or attributes & _RANDOM_IDS):
        return f"random ids of {name}"
    return f"{name} of the module {outermost!r}" if outermost in _WORLD else None


def _is_port(value: Any) -> bool:
    module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return isinstance(module, str) and (module == _PORTS or module.startswith(f"{_PORTS}."))
