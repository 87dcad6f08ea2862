"""Keyword arguments of the library's functions."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from podium.api.workflows import Workflow
from podium.ports.provider import Provider

if TYPE_CHECKING:
    from podium.access.actors import Actor
    from podium.nodes.registry import NodeClass


Functions: TypeAlias = Mapping[str, Callable[..., Any]]
Providers: TypeAlias = Mapping[str, Provider]


class OpenOptions(TypedDict, total=False):
    """Arguments of `open`."""

    store: str | Path | None
    runs: str | Path | None
    functions: Functions | None
    providers: Providers | None
    nodes: "Sequence[NodeClass]"
    record: str | Path | None
    replay: str | Path | None
    engine: Literal["local", "temporal", "conductor"]
    address: str
    namespace: str
    url: str
    queue: str
    shared_runs: bool
    tenant: str
    actor: "str | Actor | None"


class StartOptions(TypedDict, total=False):
    """Arguments of `Podium.start`."""

    inputs: Mapping[str, Any] | None
    run_id: str | None
    if_exists: Literal["error", "resume"]
    workspace: str | Path | None
    needs_approval: bool
    no_wait: bool
    signature: str | Path | None


class ResumeOptions(TypedDict, total=False):
    """Arguments of `Podium.resume`."""

    workflow: Workflow | str | Path | None
    force: bool
    budgets: Sequence[str]
    workspace: str | Path | None
    no_wait: bool
    signature: str | Path | None


class RunOptions(OpenOptions, StartOptions, total=False):
    """Arguments of `run`."""


class ResumeRunOptions(OpenOptions, ResumeOptions, total=False):
    """Arguments of `resume`."""
