"""Where large data is kept: the log holds references, never the data itself."""

import msgspec

from podium.log.times import Timestamp


class ArtifactRef(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A reference to an artifact."""

    uri: str
    kind: str
    sha256: str | None = None
    size_bytes: int | None = None
    expires_at: Timestamp | None = None
