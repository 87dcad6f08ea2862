"""A template package with one node: node, models, contract and test, from the files in `templates/node`."""

import re
import sys
from importlib.resources import files
from keyword import iskeyword
from typing import Final

from podium.errors import PodiumError
from podium.nodes.registry import own_names

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,59}")
_BASES: Final = {"effect": "NodeEffect", "compute": "NodeCompute", "reducer": "NodeReducer"}
_RULES: Final = {
    "effect": "Acts on the world. It may be called again after a crash: each operation has to be idempotent.",
    "compute": "Computes its output from its input, without asking the world.",
    "reducer": "Folds an event into a state, without asking the world.",
}
_ERRORS: Final = """
error_handling:
  retry_policy: {max_retries: 3, initial_delay_ms: 100, exponential_base: 2, max_delay_ms: 5000}
  circuit_breaker: {enabled: true, failure_threshold: 5, reset_timeout_ms: 60000}"""
# Package names that would shadow others.
_TAKEN: Final = frozenset({"podium", "tests", "pydantic", *sys.stdlib_module_names})


class InvalidNodeName(PodiumError):
    """An invalid name for a package with a node."""

    code = "INVALID_NODE_NAME"


def node_files(name: str, node_type: str) -> dict[str, bytes]:
    """Contents by path, below the folder of the package. Raises `InvalidNodeName`."""
    if not _NAME.fullmatch(name) or iskeyword(name) or name in _TAKEN:
        raise InvalidNodeName(
            f"{name[:80]!r} cannot be the name of a node: use 1-60 lower-case letters, digits or _, and not the name "
            "of a module of Python"
        )
    if name in own_names():
        raise InvalidNodeName(f"{name!r} is the name of a node of Podium; choose another one")
    return {
        path: _filled(template, name, node_type)
        for path, template in (
            ("pyproject.toml", "pyproject.toml"),
            ("contract.yaml", "contract.yaml"),
            (f"{name}/__init__.py", "init.py"),
            (f"{name}/models.py", "models.py"),
            (f"{name}/node.py", "node.py"),
            (f"tests/test_{name}.py", "test.py"),
        )
    }


def _filled(template: str, name: str, node_type: str) -> bytes:
    text = (files("podium") / "templates" / "node" / f"{template}.txt").read_text()
    for key, value in (
        ("@NAME@", name),
        ("@CLASS@", "".join(part.capitalize() for part in name.split("_"))),
        ("@TYPE@", node_type),
        ("@BASE@", _BASES[node_type]),
        ("@RULE@", _RULES[node_type]),
        ("@DEF@", "async def" if node_type == "effect" else "def"),
        ("@ERRORS@", _ERRORS if node_type == "effect" else ""),
    ):
        text = text.replace(key, value)
    return f"{text.rstrip()}\n".encode()
