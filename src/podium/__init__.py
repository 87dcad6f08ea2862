"""Podium runs workflows that must not be lost.

What users may import is `__all__` below. The names are loaded on first use, so that `import podium` costs
nothing and pulls in neither pydantic nor any optional dependency.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from podium.errors import PodiumError
    from podium.language.diagnostics import Diagnostic
    from podium.nodes.contract import Contract, InvalidContract, load_contract, read_contract
    from podium.nodes.schema import contract_schema

# A literal: asking the installed package's metadata for it costs 26 ms at every start.
__version__ = "0.1.0"

__all__ = [
    "Contract",
    "Diagnostic",
    "InvalidContract",
    "PodiumError",
    "__version__",
    "contract_schema",
    "load_contract",
    "read_contract",
]

_HOME_OF = {
    "Contract": "podium.nodes.contract",
    "Diagnostic": "podium.language.diagnostics",
    "InvalidContract": "podium.nodes.contract",
    "PodiumError": "podium.errors",
    "contract_schema": "podium.nodes.schema",
    "load_contract": "podium.nodes.contract",
    "read_contract": "podium.nodes.contract",
}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'podium' has no attribute {name!r}")
    value: object = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
