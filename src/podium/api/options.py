"""What the functions of the library take, by name."""

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
    """What `open` takes."""

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
    """What `Podium.start` takes."""

    inputs: Mapping[str, Any] | None
    run_id: str | None
    if_exists: Literal["error", "resume"]
    workspace: str | Path | None
    needs_approval: bool
    no_wait: bool
    signature: str | Path | None


class ResumeOptions(TypedDict, total=False):
    """What `Podium.resume` takes."""

    workflow: Workflow | str | Path | None
    force: bool
    budgets: Sequence[str]
    workspace: str | Path | None
    no_wait: bool
    signature: str | Path | None


class RunOptions(OpenOptions, StartOptions, total=False):
    """What `run` takes."""


class ResumeRunOptions(OpenOptions, ResumeOptions, total=False):
    """What `resume` takes."""
