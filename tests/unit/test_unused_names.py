"""Nothing is kept on a shelf: what the product itself never uses is listed here, with the reason why it exists."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import podium

SOURCE = Path(podium.__file__).parent
# Published for tests of others; its own tests are its users.
PUBLISHED = "testing/"
# Called by a framework that finds them by a decorator.
_FOUND_BY_DECORATOR = re.compile(
    r"command|operation|validator|serializer|get|post|put|delete|exception_handler"
)
UNUSED = {
    "users of the library call it": {
        "AsyncClient.all_runs",
        "Client.all_runs",
        "PlanRef.from_json",
        "Workflow.from_dict",
    },
    "adapters and questions for tests, beside those for users": {
        "ConductorClient.log_lines",
        "MemoryBus",
        "MemorySource",
        "PASSED_THROUGH",
        "Relay.deliver_line",
    },
    "the specification names it": {
        "EngineRuns.get_run_status",
        "WorkflowEngine.get_run_status",
    },
    "what it inherits from calls it": {
        "_Dumper.ignore_aliases",
        "_GivenIds.generate_span_id",
        "_GivenIds.generate_trace_id",
        "_GivenIds.is_trace_id_random",
        "_InStore.retrieve",
        "_JsonConverter.from_payload",
        "_JsonConverter.to_payload",
        "_LazyGroup.format_commands",
        "_LazyGroup.list_commands",
        "_RunInstance.get_external_store_context",
        "_RunInstance.get_serialization_context",
        "_Trouble.emit",
    },
}


class Definition(NamedTuple):
    name: str
    owner: str
    place: str

    @property
    def full(self) -> str:
        return f"{self.owner}.{self.name}" if self.owner else self.name


def test_what_the_product_never_uses_says_why_it_exists() -> None:
    used: set[str] = set()
    defined: list[Definition] = []
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        used |= set(_used(tree))
        if not (place := path.relative_to(SOURCE).as_posix()).startswith(PUBLISHED):
            defined += _definitions(tree, place)
    unused = {one.full: one.place for one in defined if one.name not in used}
    known = set().union(*UNUSED.values())
    assert {name: place for name, place in unused.items() if name not in known} == {}
    assert known - unused.keys() == set()


def _definitions(tree: ast.Module, place: str) -> Iterator[Definition]:
    """Functions, classes, methods and constants, without what a framework finds by itself."""
    owners: list[ast.Module | ast.ClassDef] = [tree]
    owners += [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    for owner in owners:
        inside = owner.name if isinstance(owner, ast.ClassDef) else ""
        for node in owner.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names = [] if any(map(_finds_it, node.decorator_list)) else [node.name]
            elif isinstance(node, ast.Assign | ast.AnnAssign) and not inside:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = [target.id for target in targets if isinstance(target, ast.Name)]
            else:
                continue
            yield from (Definition(name, inside, place) for name in names if not name.startswith("__"))


def _finds_it(decorator: ast.expr) -> bool:
    return _FOUND_BY_DECORATOR.search(ast.unparse(decorator)) is not None


def _used(tree: ast.Module) -> Iterator[str]:
    """What is read, and what a string names: names of modules and attributes that are loaded when they are needed."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name):
                yield name
            case ast.Constant(value=str(text)) if re.fullmatch(r"[\w.:\[\], |]+", text):
                yield from re.findall(r"\w+", text)
