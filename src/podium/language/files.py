"""Files that a workflow refers to. The language reads none itself: callers that load a workflow pass them in."""

from typing import Protocol

import msgspec


class FoundFile(msgspec.Struct, frozen=True):
    """A file: its name in messages, its content, and its identity, which is the same however the file is
    named.
    """

    name: str
    content: bytes
    identity: str


class Files(Protocol):
    def read(self, path: str, beside: str) -> FoundFile | None:
        """The file at `path`, searched beside the file named `beside`, then in the workspace."""

    def is_in_workspace(self, path: str) -> bool:
        """Whether a step could read it there; also true if that cannot be determined."""


class NoFiles:
    """For texts without a location, and for tests."""

    def read(self, path: str, beside: str) -> FoundFile | None:
        return None

    def is_in_workspace(self, path: str) -> bool:
        return True
