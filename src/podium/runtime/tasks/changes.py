"""What an agent has changed in the files around it: detected, stored as data, and applied again in a replay.

Files are compared by their metadata before and after; their content is read only where that differs, and is
stored completely: applying it does not depend on what was there. Not stored are `.git`, what git ignores,
empty folders, and files that Podium itself has open: its log must never be overwritten from a recording.
"""

import contextlib
import os
import shutil
import stat
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final, TypeAlias

import msgspec

from podium.log.redaction import Redactor
from podium.runtime.rundir import PathRefused, inside, write_atomically

MAX_FILES: Final = 50_000
MAX_KEPT: Final = 1000
MAX_BYTES: Final = 1024 * 1024
MAX_TOTAL_BYTES: Final = 8 * 1024 * 1024
_GIT_SECONDS: Final = 30

# The files below a folder, with metadata that changes when they do.
Seen: TypeAlias = dict[str, tuple[int, ...]]


class FileChange(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A file after the change: its lines or bytes, its link target, or that it was removed."""

    path: str
    text: list[str] | None = None
    base64: str | None = None
    link: str | None = None
    removed: bool = False
    executable: bool = False


@dataclass(slots=True)
class Changes:
    files: list[FileChange] = field(default_factory=list)
    # Paths of files that are too large, or whose names are not UTF-8.
    left_out: list[str] = field(default_factory=list)


def look(root: Path, but: Iterable[Path] = ()) -> Seen | None:
    """The files below a folder, except for some places; None if there are too many to monitor."""
    skipped = {str(path.resolve()) for path in but}
    found: Seen = {}
    base = str(root.resolve())
    start = len(base.rstrip("/")) + 1
    for path, status in _entries(base, skipped):
        if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
            found[path[start:]] = (
                status.st_mtime_ns,
                status.st_ctime_ns,
                status.st_size,
                status.st_ino,
                status.st_mode,
            )
            if len(found) > MAX_FILES:
                return None
    return found


def _entries(folder: str, skipped: set[str]) -> Iterator[tuple[str, os.stat_result]]:
    folders = [folder]
    while folders:
        found = []
        # What cannot be read, or was removed during the scan, counts as missing.
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.path in skipped or entry.name == ".git":
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    with contextlib.suppress(OSError):
                        found.append((entry.path, entry.stat(follow_symlinks=False)))
        yield from found


def changes(root: Path, before: Seen, after: Seen, redactor: Redactor | None) -> Changes:
    """The changes of the files, masked."""
    base = root.resolve()
    names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    ours = _open_files()
    names = _not_ignored(base, [name for name in names if str(base / name) not in ours])
    found = Changes()
    left = MAX_TOTAL_BYTES
    for name in names:
        change = _change(base, name, min(left, MAX_BYTES), redactor) if name in after else _removed(name)
        if change is None or len(found.files) >= MAX_KEPT:
            found.left_out.append(name.encode("utf-8", "replace").decode())
            continue
        found.files.append(change)
        if not change.removed and change.link is None:
            left -= after[name][2]
    return found


def _open_files() -> set[str]:
    found = set()
    for handle in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.add(str(handle.readlink()))
    return found


def _not_ignored(base: Path, names: list[str]) -> list[str]:
    """Excludes what git ignores, if the folder is in a git work tree."""
    if not names or shutil.which("git") is None:
        return names
    asked = b"\0".join(os.fsencode(name) for name in (".", *names))
    command = ["git", "check-ignore", "-z", "--stdin"]
    try:
        done = subprocess.run(
            command, cwd=base, input=asked, capture_output=True, check=False, timeout=_GIT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return names
    ignored = {os.fsdecode(name) for name in done.stdout.split(b"\0") if name}
    # A folder that is ignored as a whole is a separate working directory inside another work tree.
    return names if "." in ignored else [name for name in names if name not in ignored]


def _removed(name: str) -> FileChange | None:
    return FileChange(name, removed=True) if _has_a_name(name) else None


def _has_a_name(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _change(base: Path, name: str, most: int, redactor: Redactor | None) -> FileChange | None:
    if not _has_a_name(name):
        return None
    path = base / name
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            return FileChange(name, link=str(path.readlink()))
        if status.st_size > most:
            return None
        with path.open("rb") as file:
            content = file.read(most + 1)
    except OSError:
        return None
    if len(content) > most:
        return None
    if redactor is not None:
        content = redactor.redact_bytes(content)
    executable = bool(status.st_mode & stat.S_IXUSR)
    try:
        return FileChange(name, text=content.decode().split("\n"), executable=executable)
    except UnicodeDecodeError:
        return FileChange(name, base64=b64encode(content).decode(), executable=executable)


def make_again(root: Path, files: Iterable[FileChange]) -> None:
    """Raises `PathRefused` for a path that leads out of the folder, or into `.git`."""
    # Removals first: a file may have become a folder, or a folder a file.
    for change in sorted(files, key=lambda one: not one.removed):
        target = _target(root, change.path)
        if change.removed:
            # It may be removed already, with a folder in its place, or a file in place of its folder.
            with contextlib.suppress(FileNotFoundError, IsADirectoryError, NotADirectoryError):
                target.unlink()
            continue
        if target.is_dir() and not target.is_symlink():
            target.rmdir()  # a folder that became a file: its contents are removed by now
        if change.link is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            target.symlink_to(change.link)
        else:
            content = b64decode(change.base64) if change.base64 else "\n".join(change.text or ()).encode()
            write_atomically(target, content, durable=False)
            if change.executable:
                target.chmod(target.stat().st_mode | 0o111)


def _target(root: Path, path: str) -> Path:
    """The file itself, even if there is a link in its place; links among the folders above it are followed."""
    pure = PurePosixPath(path)
    if pure.name in ("", "..") or ".git" in pure.parts:
        raise PathRefused(f"a recording has a file {path[:200]!a}, which no recording may have")
    return inside(root, str(pure.parent), what="recorded file", itself=True) / pure.name
