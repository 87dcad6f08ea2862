"""Server-sent events from bytes. Lines end at line feeds only, because JSON may contain every other
separator.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from podium.client.errors import InvalidAnswer

# Far more than our server sends in one frame.
MAX_FRAME_BYTES: Final = 16 << 20


class Frame(NamedTuple):
    event: str = "message"
    id: str | None = None
    data: bytes = b""


class FrameReader:
    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are complete now. Comments and unknown fields are ignored."""
        *whole, self._rest = (self._rest + data).split(b"\n\n")
        if len(self._rest) > MAX_FRAME_BYTES:
            raise InvalidAnswer("the stream has a frame of more than 16 MiB; check the address of the server")
        for text in whole:
            frame = _frame(text)
            if frame != Frame():
                yield frame


def _frame(text: bytes) -> Frame:
    frame, data = Frame(), []
    for line in text.split(b"\n"):
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            frame = frame._replace(event=value.decode("ascii", "replace"))
        elif name == b"id":
            frame = frame._replace(id=value.decode("ascii", "replace"))
        elif name == b"data":
            data.append(value)
    return frame._replace(data=b"\n".join(data))
