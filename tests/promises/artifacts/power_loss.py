"""A file system in memory whose power can fail.

What survives is what was synced, content of files and names in folders apart, and of everything later any part:
each later write and each later name may have reached the disk or not, and a write may have reached it in part.
Disks promise no more than that.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import TypeAlias

from podium.artifacts.files import FileFacts


class PowerCut(Exception):
    """Nothing more happens on this machine."""


@dataclass(eq=False)
class File:
    synced: bytes = b""
    content: bytes = b""
    later: list[tuple[int, bytes]] = field(default_factory=list)
    modified: datetime = field(default_factory=lambda: datetime.now(UTC))

    def survive(self, chance: float, random: Random) -> "File":
        left = bytearray(self.synced)
        for offset, data in self.later:
            if random.random() < chance:
                part = random.choice([len(data), random.randint(0, len(data))])
                # The size may have reached the disk before the bytes, which are then zeros.
                left.extend(bytes(max(0, offset + random.choice([part, len(data)]) - len(left))))
                left[offset : offset + part] = data[:part]
        return File(bytes(left), bytes(left), modified=self.modified)


@dataclass(eq=False)
class Folder:
    synced: "dict[str, Node]" = field(default_factory=dict)
    names: "dict[str, Node]" = field(default_factory=dict)
    later: "list[tuple[str, Node | None]]" = field(default_factory=list)

    def set(self, name: str, node: "Node | None") -> None:
        self.names = _with(self.names, name, node)
        self.later.append((name, node))

    def survive(self, chance: float, random: Random, seen: "dict[Node, Node]") -> "Folder":
        left = self.synced
        for name, node in self.later:
            if random.random() < chance:
                left = _with(left, name, node)
        survivors = {name: _survive(node, chance, random, seen) for name, node in left.items()}
        return Folder(survivors, survivors)


Node: TypeAlias = File | Folder


def _with(names: dict[str, Node], name: str, node: Node | None) -> dict[str, Node]:
    others = {other: kept for other, kept in names.items() if other != name}
    return others if node is None else {**others, name: node}


def _survive(node: Node, chance: float, random: Random, seen: dict[Node, Node]) -> Node:
    # A file with two names is still one file afterwards.
    if node not in seen:
        survivor = (
            node.survive(chance, random) if isinstance(node, File) else node.survive(chance, random, seen)
        )
        seen[node] = survivor
    return seen[node]


class LossyFiles:
    """Does `steps` changes; at the next one the power fails."""

    def __init__(self, top: Folder | None = None) -> None:
        self._top = top or Folder()
        self._open: dict[int, File] = {}
        self.steps: float = float("inf")
        self.done = 0

    def after_power_loss(self, random: Random) -> "LossyFiles":
        chance = random.choice([0.0, 0.5, 1.0])
        return LossyFiles(self._top.survive(chance, random, {}))

    # --- changes: the power may fail before each ---------------------------------------------------

    def make_directory(self, path: Path) -> bool:
        if path == path.parent or path.name in self._folder(path.parent).names:
            return False
        self._step()
        self._folder(path.parent).set(path.name, Folder())
        return True

    def sync_directory(self, path: Path) -> None:
        self._step()
        folder = self._folder(path)
        folder.synced, folder.later = folder.names, []

    def create(self, path: Path) -> int:
        self._step()
        file = File()
        self._folder(path.parent).set(path.name, file)
        number = len(self._open) + 1
        self._open[number] = file
        return number

    def write(self, file: int, data: bytes) -> None:
        self._step()
        target = self._open[file]
        target.later.append((len(target.content), data))
        target.content += data

    def sync(self, file: int) -> None:
        self._step()
        target = self._open[file]
        target.synced, target.later = target.content, []

    def close(self, file: int) -> None: ...

    def link(self, path: Path, name: Path) -> None:
        self._step()
        if name.name in self._folder(name.parent).names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(name))
        self._folder(name.parent).set(name.name, self._file(path))

    def replace(self, path: Path, name: Path) -> None:
        self._step()
        self._folder(name.parent).set(name.name, self._file(path))
        self._folder(path.parent).set(path.name, None)

    def remove(self, path: Path) -> None:
        self._step()
        self._file(path)
        self._folder(path.parent).set(path.name, None)

    def touch(self, path: Path) -> None:
        self._step()
        self._file(path).modified = datetime.now(UTC)

    # --- looking ---------------------------------------------------------------------------------

    def read(self, path: Path, offset: int, size: int) -> bytes:
        return self._file(path).content[offset : offset + size]

    def look(self, path: Path) -> FileFacts:
        file = self._file(path)
        return FileFacts(len(file.content), file.modified)

    def names(self, path: Path) -> list[str]:
        return list(self._folder(path).names)

    @contextmanager
    def lock(self, path: Path, *, alone: bool) -> Iterator[None]:
        yield

    # --- inside ----------------------------------------------------------------------------------

    def _step(self) -> None:
        if self.done >= self.steps:
            raise PowerCut
        self.done += 1

    def _folder(self, path: Path) -> Folder:
        node: Node = self._top
        for name in path.parts[1:]:
            assert isinstance(node, Folder)
            node = self._there(node, name, path)
        assert isinstance(node, Folder)
        return node

    def _file(self, path: Path) -> File:
        node = self._there(self._folder(path.parent), path.name, path)
        assert isinstance(node, File)
        return node

    def _there(self, folder: Folder, name: str, path: Path) -> Node:
        if name not in folder.names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return folder.names[name]
