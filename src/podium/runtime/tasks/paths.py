"""Where a task reads and writes: files and folders named by its step, each confined to its root (D38)."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from podium.errors import PodiumError
from podium.expressions.evaluate import Lookup
from podium.expressions.templates import render
from podium.log.artifacts import ArtifactKind
from podium.log.payloads import RecordedArtifact
from podium.plan.plan import Work
from podium.runtime.rundir import NewFile, PathRefused, RunDirectory, first_inside, inside
from podium.runtime.tasks.capturing import NotAsExpected
from podium.runtime.tasks.host import TaskHost
from podium.text import reason_of


class OutputNotKept(PodiumError):
    """The step has run, but its output could not be stored: a full disk, or a folder with the file's name."""

    code = "OUTPUT_NOT_KEPT"


def workdir(work: Work, lookup: Lookup, workspace: Path) -> Path:
    if work.workdir is None:
        return workspace
    name = render(work.workdir, lookup)
    found = inside(workspace, name, what="workdir", itself=True)
    if not found.is_dir():
        raise PathRefused(f"workdir {name!a} is not a folder of the workspace")
    return found


def input_file(work: Work, lookup: Lookup, host: TaskHost) -> Path | None:
    """The file for standard input: among the artifacts, else in the workspace."""
    if not work.input_files:
        return None
    name = render(work.input_files[0], lookup)
    found = first_inside((host.directory.artifacts, host.workspace), name, what="input_file")
    if found is None or not found.is_file():
        raise NotAsExpected(
            f"input file {name!r} not found, neither among the artifacts nor in the workspace"
        )
    return found


def expected_files(work: Work, lookup: Lookup, directory: RunDirectory) -> Sequence[str]:
    if work.expect is None:
        return ()
    names = [render(text, lookup) for text in work.expect.files]
    for name in names:
        inside(directory.artifacts, name, what="expected file")
    return names


class OutputFile:
    """`output_file`: receives all of the output as it is, unmasked; if it contains secrets, there is a
    warning (D35).
    """

    def __init__(self, name: str, directory: RunDirectory, kind: ArtifactKind | None = None) -> None:
        """`kind`: None for an ordinary file."""
        self._name = name
        self._kind = kind.value if kind is not None else None
        self._directory = directory
        target = self._target()
        if target.is_dir():
            raise PathRefused(f"output_file {name!a} is a folder; name a file")
        self.new = NewFile(target)

    def _target(self) -> Path:
        return inside(self._directory.artifacts, self._name, what="output_file")

    async def keep(self, *, held_a_secret: bool) -> dict[str, Any]:
        """Move it into place; returns the facts about it."""
        try:
            # Checked again: by now the step may have created a link on its path.
            self._target()
            digest = await asyncio.to_thread(self.new.commit)
        except (OSError, PathRefused) as error:
            self.new.discard()
            raise OutputNotKept(
                f"output_file {self._name!a} cannot be written: {reason_of(error)}"
            ) from error
        file = RecordedArtifact(path=self._name, kind=self._kind, sha256=digest)
        facts: dict[str, Any] = {"artifacts": [file.as_fact()]}
        if held_a_secret:
            facts["warnings"] = [
                f"output_file {self._name!r} holds the value of a secret; files are not masked"
            ]
        return facts


def output_file(work: Work, lookup: Lookup, directory: RunDirectory) -> OutputFile | None:
    return OutputFile(render(work.output_file, lookup), directory) if work.output_file is not None else None
