"""References to large data: the log holds references, never the data itself."""

from enum import StrEnum

import msgspec

from podium.log.times import Timestamp


class ArtifactKind(StrEnum):
    """The kinds of files that steps leave."""

    # An `output_file`.
    FILE = "file"
    # The changes of an agent's worktree.
    DIFF = "diff"


class ArtifactRef(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A reference to an artifact."""

    uri: str
    kind: str
    sha256: str | None = None
    size_bytes: int | None = None
    expires_at: Timestamp | None = None
