"""Files that a workflow refers to. The language reads none itself: whoever loads a workflow hands them in."""

from typing import Protocol

import msgspec


class FoundFile(msgspec.Struct, frozen=True):
    """A file: what messages call it, its content, and its identity, the same for every way of naming it."""

    name: str
    content: bytes
    identity: str


class Files(Protocol):
    def read(self, path: str, beside: str) -> FoundFile | None:
        """The file at `path`, looked for beside the file named `beside`, then in the workspace."""

    def is_in_workspace(self, path: str) -> bool:
        """Whether a step could read it there; also true if nobody can know."""


class NoFiles:
    """For texts that come from nowhere, and for tests."""

    def read(self, path: str, beside: str) -> FoundFile | None:
        return None

    def is_in_workspace(self, path: str) -> bool:
        return True
