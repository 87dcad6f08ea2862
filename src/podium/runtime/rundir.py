"""The directory of a run: plain files that can be read without us.

    runs/<run id>/state.json          how the run stands, folded from the log
    runs/<run id>/workflow.yaml       what was run; plan.json is what it was compiled to
    runs/<run id>/logs/workflow.jsonl one line per event, for people; events.jsonl, for programs
    runs/<run id>/logs/steps/         what each visit wrote: <step>.<attempt>.out and .err
    runs/<run id>/artifacts/          what steps keep: output_file, and what they write themselves

Names and values in paths come from people and programs: every path has to stay inside its root, links followed.
"""

import os
import re
from hashlib import sha256
from pathlib import Path
from typing import Final
from uuid import uuid4

from podium.errors import PodiumError

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._\[\]#@+=, -]")
_MOST_NAME: Final = 150


class PathRefused(PodiumError):
    """A path that leaves the directory it belongs to."""

    code = "PATH_REFUSED"


class RunDirectory:
    def __init__(self, runs: Path, run_id: str) -> None:
        self.path = runs / run_id
        self.artifacts = self.path / "artifacts"
        self.logs = self.path / "logs"
        self.steps = self.logs / "steps"
        self.outputs = self.path / "outputs"

    @property
    def state(self) -> Path:
        return self.path / "state.json"

    @property
    def plan(self) -> Path:
        return self.path / "plan.json"

    @property
    def workflow(self) -> Path:
        return self.path / "workflow.yaml"

    @property
    def cancel_marker(self) -> Path:
        return self.path / ".cancel"

    @property
    def lock(self) -> Path:
        return self.path / ".lock"

    def make(self) -> None:
        for folder in (self.artifacts, self.steps, self.outputs):
            folder.mkdir(parents=True, exist_ok=True)

    def remove_leftovers(self) -> None:
        """Temporary files of a process that died while it wrote."""
        for folder in (self.path, self.artifacts):
            for file in folder.glob(f".*{_TEMPORARY}"):
                file.unlink(missing_ok=True)

    def step_file(self, path: str, attempt: int, kind: str) -> Path:
        """Where a visit's output is kept."""
        return self.steps / f"{file_name(path)}.{attempt}.{kind}"

    def output_values(self, path: str, attempt: int) -> Path:
        """The file in which a step leaves `key=value` lines."""
        return self.outputs / f"{file_name(path)}.{attempt}"


def file_name(path: str) -> str:
    """A step's path as the name of a file: readable, and never the same for two steps."""
    name = _UNSAFE.sub(lambda found: "~" if found[0] == "/" else "_", path)
    if name == path.replace("/", "~") and len(name) <= _MOST_NAME and not name.startswith("."):
        return name
    return f"{name[:_MOST_NAME].lstrip('.')}-{sha256(path.encode()).hexdigest()[:12]}"


def inside(root: Path, path: str, *, what: str) -> Path:
    """The path below `root`, with links followed. Raises `PathRefused` if it leads out of it."""
    if not path or "\0" in path:
        raise PathRefused(f"{what} {path!a} is no path; name a file below {root.name}/")
    try:
        resolved = (root / path).resolve()
        base = root.resolve()
    except (OSError, RuntimeError) as error:
        raise PathRefused(f"{what} {path[:200]!a} cannot be followed: {error}") from error
    if not resolved.is_relative_to(base) or resolved == base:
        raise PathRefused(f"{what} {path[:200]!a} leads out of {root.name}/; name a file below it")
    return resolved


_TEMPORARY: Final = ".podium-tmp"


def write_atomically(path: Path, content: bytes, *, durable: bool = True) -> None:
    """All of it or nothing: beside the target, then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid4().hex[:12]}{_TEMPORARY}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        _sync_folder(path.parent)


def copy_atomically(source: Path, target: Path) -> str:
    """Copy a file so that the target is whole or not there; returns the SHA-256 of what was copied."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{uuid4().hex[:12]}{_TEMPORARY}")
    digest = sha256()
    try:
        with source.open("rb") as reader, temporary.open("wb") as writer:
            while chunk := reader.read(1 << 20):
                digest.update(chunk)
                writer.write(chunk)
            writer.flush()
            os.fsync(writer.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)
    return digest.hexdigest()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
