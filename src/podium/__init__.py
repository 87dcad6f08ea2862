"""Podium runs workflows that must not be lost.

What users may import is `__all__` below. The names are loaded on first use, so that `import podium` costs
nothing and pulls in neither pydantic nor any optional dependency.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from podium.version import __version__

if TYPE_CHECKING:
    from podium.access.actors import Actor
    from podium.api import (
        AcceptedSignal,
        Podium,
        Run,
        Workflow,
        open,  # noqa: A004
        resume,
        resume_async,
        run,
        run_async,
    )
    from podium.engines.creation import RunExists
    from podium.errors import PodiumError, RunNotFound, StoreUnavailable
    from podium.language.diagnostics import Diagnostic
    from podium.log.plan_refs import PlanRef
    from podium.nodes.contract import Contract, InvalidContract, load_contract, read_contract
    from podium.nodes.schema import contract_schema
    from podium.operations.explaining import Explanation, Reason
    from podium.operations.inputs import InvalidInput
    from podium.operations.results import Event, Result, StepResult
    from podium.operations.workflows import InvalidWorkflow
    from podium.ports.engine import RunContext, SignalRequest
    from podium.runtime.lock import RunLocked
    from podium.runtime.preflight import FunctionNotRegistered

__all__ = [
    "AcceptedSignal",
    "Actor",
    "Contract",
    "Diagnostic",
    "Event",
    "Explanation",
    "FunctionNotRegistered",
    "InvalidContract",
    "InvalidInput",
    "InvalidWorkflow",
    "PlanRef",
    "Podium",
    "PodiumError",
    "Reason",
    "Result",
    "Run",
    "RunContext",
    "RunExists",
    "RunLocked",
    "RunNotFound",
    "SignalRequest",
    "StepResult",
    "StoreUnavailable",
    "Workflow",
    "__version__",
    "contract_schema",
    "load_contract",
    "open",
    "read_contract",
    "resume",
    "resume_async",
    "run",
    "run_async",
]

_HOME_OF = {
    "AcceptedSignal": "podium.api",
    "Actor": "podium.access.actors",
    "Contract": "podium.nodes.contract",
    "Diagnostic": "podium.language.diagnostics",
    "PlanRef": "podium.log.plan_refs",
    "RunContext": "podium.ports.engine",
    "SignalRequest": "podium.ports.engine",
    "Event": "podium.operations.results",
    "Explanation": "podium.operations.explaining",
    "FunctionNotRegistered": "podium.runtime.preflight",
    "InvalidContract": "podium.nodes.contract",
    "InvalidInput": "podium.operations.inputs",
    "InvalidWorkflow": "podium.operations.workflows",
    "Podium": "podium.api",
    "PodiumError": "podium.errors",
    "Reason": "podium.operations.explaining",
    "Result": "podium.operations.results",
    "Run": "podium.api",
    "RunExists": "podium.engines.creation",
    "RunLocked": "podium.runtime.lock",
    "RunNotFound": "podium.errors",
    "StepResult": "podium.operations.results",
    "StoreUnavailable": "podium.errors",
    "Workflow": "podium.api",
    "contract_schema": "podium.nodes.schema",
    "load_contract": "podium.nodes.contract",
    "open": "podium.api",
    "read_contract": "podium.nodes.contract",
    "resume": "podium.api",
    "resume_async": "podium.api",
    "run": "podium.api",
    "run_async": "podium.api",
}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'podium' has no attribute {name!r}")
    value: object = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
