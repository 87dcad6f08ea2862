"""The body of an HTTP answer without its content encoding, limited to a maximum size.

A few kilobytes of gzip can become gigabytes: they are decompressed in chunks, and the first byte too many
ends it.
"""

import zlib
from collections.abc import AsyncIterator
from typing import Final

from podium.ports.plan_source import PlanTooLarge, PlanUnavailable

# The encodings that a request accepts.
ACCEPTED: Final = "gzip, identity"
_WINDOWS: Final = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


class Decoder:
    """Collects the decoded chunks of one body."""

    def __init__(self, encoding: str, max_bytes: int, where: str) -> None:
        self._where = where
        self._max_bytes = max_bytes
        self._content = bytearray()
        self._packed = 0
        self._inflate = None
        wanted = encoding.strip().lower()
        if wanted not in ("", "identity"):
            if wanted not in _WINDOWS:
                raise PlanUnavailable(
                    f"{where} answered with the content encoding {wanted[:40]!r}; only gzip and deflate are read",
                    retryable=False,
                )
            self._inflate = zlib.decompressobj(_WINDOWS[wanted])

    def feed(self, piece: bytes) -> None:
        self._packed += len(piece)
        if self._packed > self._max_bytes:
            raise self._too_large()
        if self._inflate is None:
            self._content += piece
            return
        if self._inflate.eof:
            raise self._damaged("something follows its end")
        try:
            self._content += self._inflate.decompress(piece, self._max_bytes + 1 - len(self._content))
        except zlib.error as error:
            raise self._damaged(str(error)) from error
        if len(self._content) > self._max_bytes:
            raise self._too_large()
        if self._inflate.unused_data:
            raise self._damaged("something follows its end")

    def content(self) -> bytes:
        if self._inflate is not None and not self._inflate.eof:
            raise self._damaged("it is cut off")
        return bytes(self._content)

    def _too_large(self) -> PlanTooLarge:
        return PlanTooLarge(f"{self._where} has more than {self._max_bytes:,} bytes; no plan is that large")

    def _damaged(self, reason: str) -> PlanUnavailable:
        return PlanUnavailable(f"the compressed answer of {self._where} is damaged: {reason}")


async def decoded(pieces: AsyncIterator[bytes], encoding: str, max_bytes: int, where: str) -> bytes:
    decoder = Decoder(encoding, max_bytes, where)
    async for piece in pieces:
        decoder.feed(piece)
    return decoder.content()
