"""Reads workflows from disk: the file itself, and those it refers to."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from podium.errors import PodiumError
from podium.language.diagnostics import Severity
from podium.language.files import FoundFile
from podium.language.reader import MAX_BYTES, read_yaml
from podium.language.tree import Mapping, plain

if TYPE_CHECKING:
    from podium.language.workflow import WorkflowReading
    from podium.nodes.registry import NodeRegistry

# Standard input, on the command line and in messages.


class InvalidWorkflow(PodiumError):
    """A workflow has problems; `diagnostics` has each of them with its position."""

    code = "INVALID_WORKFLOW"

    def __init__(self, reading: "WorkflowReading") -> None:
        self.diagnostics = reading.diagnostics
        self.omitted = reading.omitted
        shown = [str(found) for found in reading.diagnostics if found.severity is Severity.ERROR]
        if reading.omitted:
            shown.append(f"... and {reading.omitted} more.")
        super().__init__("\n".join(shown))


class WorkspaceFiles:
    """Files beside a workflow, then in the workspace; a path that leads out of both is not found."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace

    def read(self, path: str, beside: str) -> FoundFile | None:
        folder = Path(beside).parent
        for root, shown in ((folder, folder / path), (self._workspace, Path(path))):
            found = self._inside(root / path, folder)
            if found is None:
                continue
            try:
                # Opening a device or a pipe could block, perhaps forever.
                if not found.is_file():
                    continue
                with found.open("rb") as opened:
                    return FoundFile(str(shown), opened.read(MAX_BYTES + 1), str(found))
            except (OSError, ValueError):
                continue
        return None

    def is_in_workspace(self, path: str) -> bool:
        try:
            return (self._workspace / path).exists()
        except (OSError, ValueError):
            return False

    def _inside(self, path: Path, folder: Path) -> Path | None:
        """The path with links resolved, if it is below the workflow's folder or the workspace."""
        try:
            resolved = path.resolve()
            roots = (folder.resolve(), self._workspace.resolve())
        except (OSError, RuntimeError, ValueError):
            return None
        return resolved if any(resolved.is_relative_to(root) for root in roots) else None


def load_workflow(
    content: bytes,
    name: str,
    *,
    workspace: Path | None = None,
    strict: bool = False,
    missing_is_error: bool = False,
    installed_providers: Callable[[], tuple[str, ...]] = tuple,
    nodes: "NodeRegistry | None" = None,
) -> "WorkflowReading":
    """Read a workflow from bytes; `name` is the path of its file, or its name in messages.

    `nodes`: those that a node contract may name, by default all that are installed.
    """
    if looks_like_contract(content, name):
        return _load_contract(content, name, nodes, strict=strict)
    files = WorkspaceFiles(workspace if workspace is not None else Path())
    # Imported with the first workflow: a server starts without it.
    from podium.language.workflow import read_workflow

    return read_workflow(
        content,
        name,
        files=files,
        strict=strict,
        missing_is_error=missing_is_error,
        installed_providers=installed_providers,
    )


def _load_contract(
    content: bytes, name: str, nodes: "NodeRegistry | None", *, strict: bool
) -> "WorkflowReading":
    # Imported with the first contract: most workflows are not contracts.
    from podium.nodes.compiling import compile_contract
    from podium.nodes.registry import NodeRegistry

    return compile_contract(content, name, nodes or NodeRegistry(), strict=strict)


def require_workflow(
    content: bytes,
    name: str,
    *,
    workspace: Path | None = None,
    installed_providers: Callable[[], tuple[str, ...]] = tuple,
    nodes: "NodeRegistry | None" = None,
) -> "WorkflowReading":
    """Read a workflow that is to be run. Raises `InvalidWorkflow` with every problem."""
    reading = load_workflow(
        content,
        name,
        workspace=workspace,
        missing_is_error=True,
        installed_providers=installed_providers,
        nodes=nodes,
    )
    if reading.plan is None:
        raise InvalidWorkflow(reading)
    return reading


def looks_like_contract(content: bytes, name: str) -> bool:
    """Whether the file describes a node: it has a key of contracts that no workflow has."""
    if b"workflow_coordination" not in content:
        return False
    root = read_yaml(content, name).root
    written = plain(root) if isinstance(root, Mapping) else None
    return isinstance(written, dict) and "workflow_coordination" in written
