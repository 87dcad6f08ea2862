"""Shared by the stores: names derived from content, and verified reading."""

import re
from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Final

from podium.log.artifacts import ArtifactRef
from podium.ports.artifacts import ArtifactCorrupt, ArtifactNotFound

# Large enough that the cost of a thread or a request for each is negligible, small enough to hold many
# concurrently.
BLOCK_BYTES: Final = 1 << 20

_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def is_sha256(text: str) -> bool:
    return _SHA256.fullmatch(text) is not None


def address_of(ref: ArtifactRef) -> str:
    """The SHA-256 under which a store has the content. It comes from outside and becomes part of a path."""
    if ref.sha256 is None or not is_sha256(ref.sha256):
        raise ArtifactNotFound(
            f"artifact {ref.uri!r} cannot be found: its reference has no SHA-256 of 64 lower-case digits, and "
            "that is the only name artifacts have here. Fetch it with a tool that knows its URI."
        )
    return ref.sha256


def not_found(ref: ArtifactRef, where: str) -> ArtifactNotFound:
    return ArtifactNotFound(
        f"artifact {ref.uri!r} is not in {where}. It was pruned, or this is not the store it was put into: "
        "check the store's address, or restore it from a backup."
    )


async def in_blocks(chunks: AsyncIterator[bytes] | bytes) -> AsyncIterator[bytes]:
    """The same content in blocks that are worth a thread or a request each; a log often arrives line by line."""
    if isinstance(chunks, bytes):
        yield chunks
        return
    gathered = bytearray()
    async for chunk in chunks:
        gathered += chunk
        if len(gathered) >= BLOCK_BYTES:
            yield bytes(gathered)
            gathered.clear()
    if gathered:
        yield bytes(gathered)


async def verified(blocks: AsyncIterator[bytes], ref: ArtifactRef, where: str) -> AsyncIterator[bytes]:
    """Pass the blocks on; raise at the end, or as soon as there are too many bytes, if they do not match the
    artifact.
    """
    digest, size = sha256(), 0
    async for block in blocks:
        digest.update(block)
        size += len(block)
        if ref.size_bytes is not None and size > ref.size_bytes:
            break
        yield block
    if digest.hexdigest() != ref.sha256:
        raise ArtifactCorrupt(
            f"artifact {ref.uri!r} in {where} is damaged: its bytes are not those that were put. Restore it "
            "from a backup, or run again the step that made it; do not use what was read."
        )
