"""The directory of a run: plain files that can be read without Podium.

    runs/<run id>/state.json          the run's status, folded from the log
    runs/<run id>/workflow.yaml       the workflow; plan.json is what it was compiled to
    runs/<run id>/run.json            what the store knows of the run besides its events
    runs/<run id>/logs/workflow.jsonl one line per event, for people; events.jsonl, for programs
    runs/<run id>/logs/steps/         what each visit wrote: <step>.<attempt>.out and .err
                                      and of agents: .prompt, .txt (the answer), .progress, .session
    runs/<run id>/artifacts/          what steps keep: output_file, and what they write themselves
    runs/<run id>/payloads/           values too large for an event, by their content
    runs/<run id>/worktrees/          working directories of agents with a worktree of their own

Names and values in paths come from people and programs: every path has to stay inside its root, after
resolving links.
"""

import contextlib
import os
from collections.abc import Sequence
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final
from uuid import uuid4

from podium.errors import PodiumError
from podium.patterns import lazy_pattern
from podium.permissions import folder_mode
from podium.text import reason_of, shortened

_UNSAFE: Final = lazy_pattern(r"[^A-Za-z0-9._\[\]#@+=, -]")
_MAX_NAME: Final = 150
_STEPS: Final = "logs/steps"
_OUTPUTS: Final = "outputs"


class PathRefused(PodiumError):
    """A path that leaves the directory it belongs to."""

    code = "PATH_REFUSED"


class RunDirectory:
    def __init__(self, runs: Path, run_id: str) -> None:
        self.path = runs / run_id
        # For processes that may be in another folder.
        self.absolute = str(self.path if self.path.is_absolute() else self.path.absolute())

    # Computed on demand: a process with many runs makes one of these for every access to a run.

    @cached_property
    def artifacts(self) -> Path:
        return self.path / "artifacts"

    @cached_property
    def logs(self) -> Path:
        return self.path / "logs"

    @cached_property
    def steps(self) -> Path:
        return self.path / _STEPS

    @cached_property
    def outputs(self) -> Path:
        return self.path / _OUTPUTS

    @cached_property
    def payloads(self) -> Path:
        return self.path / "payloads"

    @cached_property
    def worktrees(self) -> Path:
        return self.path / "worktrees"

    @property
    def state(self) -> Path:
        return self.path / "state.json"

    @property
    def plan(self) -> Path:
        return self.path / "plan.json"

    @property
    def is_lost(self) -> bool:
        """Whether it has to be restored from the store."""
        return not self.plan.exists()

    @property
    def workflow(self) -> Path:
        return self.path / "workflow.yaml"

    @property
    def cancel_marker(self) -> Path:
        return self.path / ".cancel"

    @property
    def lacks_files(self) -> Path:
        """Exists while the files of steps have not been fetched into a restored directory."""
        return self.path / ".files-missing"

    @property
    def env_key(self) -> Path:
        """The key of the digests of environment files."""
        return self.path / ".env-key"

    @property
    def lock(self) -> Path:
        return self.path / ".lock"

    def make(self) -> None:
        _make_durably(self.path)
        for folder in (self.artifacts, self.steps, self.outputs):
            if not folder.is_dir():
                folder.mkdir(parents=True, exist_ok=True)

    def remove_leftovers(self) -> None:
        """Temporary files of a process that died while writing, and what its steps had handed over by then."""
        for file in (*self.path.glob(f".*{_TEMPORARY}"), *self.artifacts.rglob(f".*{_TEMPORARY}")):
            if not file.is_dir():
                file.unlink(missing_ok=True)
        for left in self.outputs.iterdir():
            if left.is_dir() and not left.is_symlink():
                # Imported only if there is something to remove: most runs have nothing.
                import shutil

                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)

    def step_file(self, path: str, attempt: int, kind: str) -> Path:
        """Where a visit's output is kept."""
        return self.steps / _log_name(path, attempt, kind)

    def fresh_step_file(self, path: str, attempt: int, kind: str) -> Path:
        """The same, for a task that starts: what an interrupted one wrote there is gone."""
        file = self.step_file(path, attempt, kind)
        file.unlink(missing_ok=True)
        return file

    # As strings: constructing a path would take longer than everything else about a file that most commands
    # never write.

    def step_log(self, path: str, attempt: int, kind: str) -> str:
        """The same path as `step_file`."""
        return f"{self.absolute}/{_STEPS}/{_log_name(path, attempt, kind)}"

    def output_values(self, path: str, attempt: int) -> str:
        """The file to which a step writes `key=value` lines."""
        return f"{self.absolute}/{_OUTPUTS}/{file_name(path)}.{attempt}"


def _log_name(path: str, attempt: int, kind: str) -> str:
    return f"{file_name(path)}.{attempt}.{kind}"


@lru_cache(maxsize=256)
def file_name(path: str) -> str:
    """A step's path as a file name: readable, and unique for each step."""
    name = _UNSAFE.sub(lambda found: "~" if found[0] == "/" else "_", path)
    if name == path.replace("/", "~") and len(name) <= _MAX_NAME and not name.startswith("."):
        return name
    return f"{name[:_MAX_NAME].lstrip('.')}-{sha256(path.encode()).hexdigest()[:12]}"


def inside(root: Path, path: str, *, what: str, itself: bool = False) -> Path:
    """The path below `root`, with links resolved. Raises `PathRefused` if it leads out of it.

    `itself`: the root itself is also allowed.
    """
    if not path or "\0" in path:
        raise PathRefused(f"{what} {path!a} is not a path; name a file below {root.name}/")
    try:
        resolved = (root / path).resolve()
        base = root.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise PathRefused(
            f"{what} {shortened(path, 200)!a} cannot be followed: {reason_of(error)}"
        ) from error
    if not resolved.is_relative_to(base) or (resolved == base and not itself):
        raise PathRefused(f"{what} {shortened(path, 200)!a} leads out of {root.name}/; name a file below it")
    return resolved


def first_inside(roots: Sequence[Path], path: str, *, what: str) -> Path | None:
    """The path in the first of several roots that has it; None if none does. Raises `PathRefused` if it leads
    out of all of them.
    """
    refused: PathRefused | None = None
    allowed = False
    for root in roots:
        try:
            found = inside(root, path, what=what)
        except PathRefused as error:
            refused = error
            continue
        allowed = True
        if found.exists():
            return found
    if refused is not None and not allowed:
        raise refused
    return None


_TEMPORARY: Final = ".podium-tmp"


class NewFile:
    """A file that is complete or does not exist: written beside its target, then renamed."""

    def __init__(self, target: Path) -> None:
        self.target = target
        # The name is shortened, because the target's name may have the maximum length.
        self._temporary = target.with_name(f".{target.name[:40]}.{uuid4().hex[:12]}{_TEMPORARY}")
        try:
            self._file = self._temporary.open("xb")
        except FileNotFoundError:
            target.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._temporary.open("xb")
        self._digest = sha256()

    def write(self, chunk: bytes) -> None:
        self._file.write(chunk)
        self._digest.update(chunk)

    def commit(self, *, durable: bool = True) -> str:
        """Move it into place; returns the SHA-256 of its content."""
        try:
            with self._file as file:
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            self._temporary.replace(self.target)
        except BaseException:
            self.discard()
            raise
        if durable:
            _sync_folder(self.target.parent)
        return self._digest.hexdigest()

    def discard(self) -> None:
        with contextlib.suppress(OSError):  # what could not be written to a full disk
            self._file.close()
        self._temporary.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Write all of it or nothing."""
    file = NewFile(path)
    try:
        file.write(content)
    except BaseException:
        file.discard()
        raise
    file.commit(durable=durable)


def write_private(path: Path, content: bytes) -> None:
    """A new file that only its owner may read, whatever the configuration says."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)


def _make_durably(folder: Path) -> None:
    """Create a folder durably: otherwise a file synced in it may be lost in a power failure, because the
    folder's own name is.
    """
    if not folder.is_dir():
        _make_durably(folder.parent)
        folder.mkdir(mode=folder_mode(), exist_ok=True)
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
