"""The working directory of a run's commands: where the run was started, or where its folder has been moved to
since.
"""

from pathlib import Path

import msgspec

from podium.errors import PodiumError
from podium.log.runs import Run
from podium.runtime.rundir import RunDirectory, write_atomically


class WorkspaceMissing(PodiumError):
    """The folder that a run works in does not exist."""

    code = "WORKSPACE_MISSING"


def workspace_of(directory: RunDirectory, run: Run) -> Path:
    try:
        return Path(msgspec.json.decode(_moved(directory).read_bytes(), type=str))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return Path(msgspec.json.decode(run.metadata).get("workspace", "."))


def move_workspace(directory: RunDirectory, workspace: Path) -> None:
    """Recorded for every later resume."""
    try:
        content = msgspec.json.encode(str(workspace.absolute()))
    except UnicodeEncodeError as error:
        raise WorkspaceMissing(
            f"the workspace {str(workspace)!a} cannot be kept: its name is not UTF-8; rename the folder"
        ) from error
    directory.make()
    write_atomically(_moved(directory), content)


def check_workspace(run: Run, workspace: Path) -> None:
    if not workspace.is_dir():
        run_id = run.identity.run_id
        raise WorkspaceMissing(
            f"the workspace {str(workspace)!r} of run {run_id!r} does not exist; if it was moved, name its new place "
            f"with `podium resume {run_id} --workspace DIR`"
        )


def _moved(directory: RunDirectory) -> Path:
    return directory.path / "workspace.json"
