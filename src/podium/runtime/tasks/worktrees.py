"""Git worktrees: a working directory that no other step sees, and what happens to the changes in it.

A worktree starts at the last commit of the workspace's repository, is in the run's directory, and is removed
when its attempt has ended. Its changes are stored as a diff among the artifacts, whether the attempt
succeeded or not. After a crash the remains are removed, and the attempt gets a new one.

Agents can write anything into a worktree, even a `.git` that names programs to be run. So git is given the
location of its own files and never searches for them there, and it compares with a copy of its index that was
made before the agent started.
"""

import asyncio
import contextlib
import fcntl
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from podium.errors import PodiumError
from podium.log.artifacts import ArtifactKind
from podium.log.events import EventType
from podium.runtime.rundir import PathRefused, file_name
from podium.runtime.tasks import families
from podium.runtime.tasks.families import Family
from podium.runtime.tasks.host import TaskHost
from podium.runtime.tasks.order import (
    FAILED_BEFORE_START,
    CancelToken,
    TaskOrder,
    TaskResult,
    failed,
    stopped,
)
from podium.runtime.tasks.paths import OutputFile, OutputNotKept
from podium.runtime.tasks.processes import find_program, spawn
from podium.text import reason_of

# Variables that git sets for its hooks and aliases: they would direct git, or an agent, to another
# repository.
OF_A_REPOSITORY: Final = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_DIR",
        "GIT_EXTERNAL_DIFF",
        "GIT_INDEX_FILE",
        "GIT_NAMESPACE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_WORK_TREE",
    }
)
# No hooks and no watchers: they are meant for checkouts by the repository's owner, not for this one.
_SETTINGS: Final = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0")
# A format that `git apply` always accepts, whatever the user's own settings are.
_PATCH: Final = (
    *("--cached", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--submodule=short"),
)
_GIT_SECONDS: Final = 600.0
_LOOK_SECONDS: Final = 0.02
_MAX_MESSAGE: Final = 2000
_CHUNK: Final = 1 << 20


class NoWorktree(PodiumError):
    """Git is not installed, or there is no repository or no commit to start from."""

    code = "WORKTREE_NOT_POSSIBLE"


class _Stopped(Exception):
    """The end of the attempt was requested."""


@dataclass(frozen=True, slots=True)
class Worktree:
    path: Path
    # Where the step works: the folder of the worktree that corresponds to the workspace.
    workspace: Path
    # The commit it started from.
    commit: str
    # Git's own files about it, and an index of our own beside it.
    git_dir: Path
    index: Path
    warnings: tuple[str, ...]


class Worktrees:
    """The worktrees of one run."""

    def __init__(self, host: TaskHost) -> None:
        self._host = host
        self._folder = host.directory.worktrees.absolute()

    async def inside(
        self, order: TaskOrder, stopping: CancelToken, work: Callable[[Path], Awaitable[TaskResult]]
    ) -> TaskResult:
        """Execute an attempt in a worktree of its own, and store its changes."""
        git = Git(self._host, order.run_id, order.visit)
        path = self._folder / f"{_mark(order.visit)}{uuid4().hex}"
        is_needed = False
        try:
            try:
                tree = await self._make(git, path, stopping)
            except _Stopped:
                return stopped(stopping.code)
            except NoWorktree as error:
                return failed(FAILED_BEFORE_START, error.code, str(error), retryable=False)
            result = await work(tree.workspace)
            if stopping.is_forced:
                return result
            try:
                return _with(result, await self._keep(git, tree, order))
            except OutputNotKept as error:
                # The work exists only in the worktree.
                is_needed = True
                message = f"{error}; the worktree is left at {path}"
                if result.event_type == EventType.STEP_FAILED:
                    return _with(result, {"warnings": [message]})
                return failed(1, error.code, message, **_facts(result))
        finally:
            if not is_needed:
                await self._remove(git, path)

    async def _make(self, git: "Git", path: Path, stopping: CancelToken) -> Worktree:
        workspace = self._host.workspace
        commit, prefix = await _beginning(git, workspace, stopping)
        index = path.with_suffix(".index")
        try:
            self._folder.mkdir(exist_ok=True)
            # Adding all files of the workspace to a repository must not include these.
            (self._folder / ".gitignore").write_text("*\n")
            words = ("worktree", "add", "--quiet", "--detach", str(path), commit)
            async with _alone(git, workspace, stopping):
                await git.must(*words, cwd=workspace, stopping=stopping)
            git_dir = Path(await git.must("rev-parse", "--absolute-git-dir", cwd=path, stopping=stopping))
            shutil.copyfile(git_dir / "index", index)
        except OSError as error:
            raise NoWorktree(f"no worktree can be made: {reason_of(error)}") from error
        if not (path / prefix).is_dir():
            raise NoWorktree(
                f"the workspace is the folder {prefix!a} of its repository, and the last commit has no such "
                "folder; commit it first"
            )
        changed = await git(
            "diff", "--quiet", "--no-ext-diff", "HEAD", "--", cwd=workspace, stopping=stopping
        )
        warnings = (
            ("the workspace has changes that are not committed; the worktree started without them",)
            if changed.code == 1
            else ()
        )
        return Worktree(path, path / prefix, commit, git_dir, index, warnings)

    async def _keep(self, git: "Git", tree: Worktree, order: TaskOrder) -> dict[str, Any]:
        """Store the diff as an artifact; returns the facts about it. Raises `OutputNotKept`."""
        name = f"diffs/{file_name(order.path)}.{order.attempt}.diff"
        where = {
            "GIT_DIR": str(tree.git_dir),
            "GIT_WORK_TREE": str(tree.path),
            "GIT_INDEX_FILE": str(tree.index),
        }
        patch = tree.path.with_suffix(".diff")
        try:
            added = await git("add", "--all", cwd=self._folder, env=where)
            if added.code:
                raise NoWorktree(f"git add: {' '.join(added.words.split())}")
            words = ("diff-index", *_PATCH, f"--output={patch}", tree.commit)
            await git.must(*words, cwd=self._folder, env=where)
            file = OutputFile(name, self._host.directory, ArtifactKind.DIFF)
            held_a_secret = await asyncio.to_thread(self._copy, patch, file)
            kept = await file.keep(held_a_secret=held_a_secret)
        except (NoWorktree, OSError, PathRefused) as error:
            raise OutputNotKept(f"the changes cannot be kept: {reason_of(error)}") from error
        warnings = [*tree.warnings, *kept.get("warnings", ())]
        if "embedded git repository" in added.words:
            warnings.append("there is another repository in the worktree; what it holds is not in the diff")
        return {**kept, "diff": name, "warnings": warnings}

    def _copy(self, patch: Path, file: OutputFile) -> bool:
        """Returns whether it contains a secret."""
        masking = self._host.redactor.stream() if self._host.redactor is not None else None
        came = shown = 0
        try:
            with patch.open("rb") as opened:
                while chunk := opened.read(_CHUNK):
                    file.new.write(chunk)
                    if masking is not None:
                        came += len(chunk)
                        shown += len(masking.feed(chunk))
        except BaseException:
            file.new.discard()
            raise
        return masking is not None and came != shown + len(masking.finish())

    async def _remove(self, git: "Git", path: Path) -> None:
        """Remove the worktree in any state, and git's records of it, even if the folder does not exist."""
        words = ("worktree", "remove", "--force", "--force", str(path))
        workspace = self._host.workspace
        with contextlib.suppress(NoWorktree, OSError):
            async with _alone(git, workspace):
                await git(*words, cwd=workspace)
        if os.path.lexists(path):
            await asyncio.to_thread(_remove_folder, path)
            with contextlib.suppress(NoWorktree, OSError):
                async with _alone(git, workspace):
                    await git(*words, cwd=workspace)
        for suffix in (".index", ".index.lock", ".diff"):
            with contextlib.suppress(OSError):
                path.with_suffix(suffix).unlink(missing_ok=True)

    async def remove_leftovers(self, run_id: str, visit: str | None = None) -> None:
        """Remove what a killed process has left; with a visit, only of that attempt: others may be in use."""
        if self._folder.is_dir():
            git = Git(self._host, run_id, visit or "worktrees")
            mark = _mark(visit) if visit is not None else ""
            for name in {entry.name.partition(".")[0] for entry in self._folder.iterdir()} - {""}:
                if name.startswith(mark):
                    await self._remove(git, self._folder / name)


def _mark(visit: str) -> str:
    """The prefix of the names of a visit's worktrees."""
    return f"{sha256(visit.encode()).hexdigest()[:12]}-"


async def check(host: TaskHost, run_id: str) -> None:
    """Check that worktrees can be created here, before anything is spent. Raises `NoWorktree`."""
    await beginning(host, run_id, "worktrees")


async def beginning(host: TaskHost, run_id: str, visit: str) -> tuple[str, str]:
    """The commit at which a worktree would start, and the folder in it that is the workspace. Raises
    `NoWorktree`.
    """
    return await _beginning(Git(host, run_id, visit), host.workspace, CancelToken())


async def _beginning(git: "Git", workspace: Path, stopping: CancelToken) -> tuple[str, str]:
    """The last commit, and the workspace's folder in the repository."""
    try:
        prefix = await git.must("rev-parse", "--show-prefix", cwd=workspace, stopping=stopping)
    except NoWorktree as error:
        raise NoWorktree(
            f"`workspace: worktree` needs a git repository, and {str(workspace)!a} is none: {error}. Make one with "
            "`git init` and a first commit, or use `workspace: shared`"
        ) from error
    found = await git("rev-parse", "--verify", "--quiet", "HEAD^{commit}", cwd=workspace, stopping=stopping)
    if found.code:
        raise NoWorktree(
            f"the repository of {str(workspace)!a} has no commit to start a worktree from; make a first one"
        )
    return found.text, prefix


@contextlib.asynccontextmanager
async def _alone(git: "Git", workspace: Path, stopping: CancelToken | None = None) -> AsyncIterator[None]:
    """Git fails occasionally if worktrees of one repository are added and removed concurrently, so all runs
    take turns.
    """
    folder = workspace / await git.must("rev-parse", "--git-common-dir", cwd=workspace, stopping=stopping)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if stopping is not None and stopping.is_asked:
                    raise _Stopped from None
                await asyncio.sleep(_LOOK_SECONDS)
        yield
    finally:
        os.close(handle)


@dataclass(frozen=True, slots=True)
class _Ended:
    code: int
    text: str
    words: str


class Git:
    """Runs git without prompts and hooks, so that it is found and stopped like every other process of the
    run.
    """

    def __init__(self, host: TaskHost, run_id: str, visit: str) -> None:
        self._run_id = run_id
        self._visit = visit
        kept = {name: value for name, value in host.environment.items() if name not in OF_A_REPOSITORY}
        self._environment = kept | {
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_OPTIONAL_LOCKS": "0",
            "LC_ALL": "C",
            "PODIUM_RUN_ID": run_id,
            "PODIUM_RUN_DIR": str(host.directory.path.absolute()),
            "PODIUM_VISIT": visit,
        }

    async def must(
        self,
        *words: str,
        cwd: Path,
        stopping: CancelToken | None = None,
        env: Mapping[str, str] | None = None,
    ) -> str:
        """The output of git. Raises `NoWorktree` with its message if it fails."""
        ended = await self(*words, cwd=cwd, stopping=stopping, env=env)
        if ended.code:
            message = " ".join(ended.words.split()) or f"exit code {ended.code}"
            raise NoWorktree(f"git {words[0]}: {message}")
        return ended.text

    async def __call__(
        self,
        *words: str,
        cwd: Path,
        stopping: CancelToken | None = None,
        env: Mapping[str, str] | None = None,
    ) -> _Ended:
        stopping = stopping if stopping is not None else CancelToken()
        environment = {**self._environment, **(env or {})}
        try:
            program = find_program("git", environment.get("PATH"), cwd)
        except OSError as error:
            raise NoWorktree("git is not on PATH; install it, or use `workspace: shared`") from error
        out, err = os.memfd_create("git"), os.memfd_create("git")
        try:
            source = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            try:
                child = spawn(
                    ["git", *_SETTINGS, *words],
                    environment,
                    program=program,
                    cwd=cwd,
                    stdin=source,
                    stdout=out,
                    stderr=err,
                )
            except OSError as error:
                raise NoWorktree(f"git cannot be started in {str(cwd)!a}: {error.strerror}") from error
            finally:
                os.close(source)
            family = Family(self._run_id, self._visit, child.pid)
            try:
                first = await stopping.wait(child, within=_GIT_SECONDS)
            except asyncio.CancelledError:
                families.kill(family.members)
                raise
            if first != "exited":
                await families.stop(family.members, main=child)
                if first == "cancelled":
                    raise _Stopped
                raise NoWorktree(f"git {words[0]} took longer than {_GIT_SECONDS:g} seconds")
            return _Ended(await child.ended, _read(out).removesuffix("\n"), _read(err))
        finally:
            os.close(out)
            os.close(err)


def _read(handle: int) -> str:
    return os.fsdecode(os.pread(handle, _MAX_MESSAGE * 4, 0))


def _remove_folder(path: Path) -> None:
    """Also removes folders without permissions."""
    with contextlib.suppress(OSError):
        path.chmod(0o700)
    for folder, names, _ in os.walk(path):
        for name in names:
            inner = Path(folder, name)
            if not inner.is_symlink():
                with contextlib.suppress(OSError):
                    inner.chmod(0o700)
    if path.is_symlink():
        path.unlink()
    shutil.rmtree(path, ignore_errors=True)


def _facts(result: TaskResult) -> dict[str, Any]:
    return {name: value for name, value in result.payload.items() if name != "exitCode"}


def _with(result: TaskResult, facts: Mapping[str, Any]) -> TaskResult:
    """The same result with further facts; lists are concatenated."""
    payload = {**result.payload, **facts}
    for name in ("artifacts", "warnings"):
        payload[name] = [*result.payload.get(name, ()), *facts.get(name, ())]
        if not payload[name]:
            del payload[name]
    return TaskResult(result.event_type, payload)
