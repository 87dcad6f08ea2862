"""Where an output that is too long is cut: after its last whole line, so that nothing reads half a record.

A single line that is too long is cut after a whole character.
"""

import codecs
from typing import Any, Final

_NEWLINE: Final = b"\n"


def cut_bytes(content: bytes, most: int) -> str:
    """The beginning of a longer content, of at most so many bytes.

    Give one byte more than that: a line is also whole if only its line feed is cut off.
    """
    whole = content[:most] if content[most : most + 1] == _NEWLINE else _whole_lines(content[:most])
    return codecs.getincrementaldecoder("utf-8")("replace").decode(whole, final=False)


def _whole_lines(content: bytes) -> bytes:
    return content[: content.rfind(_NEWLINE) + 1] or content


def cut_text(text: str, most: int) -> str:
    """The same for a text, in characters."""
    if text[most : most + 1] == "\n":
        return text[:most]
    return text[: text.rfind("\n", 0, most) + 1] or text[:most]


def tail_of_bytes(content: bytes) -> str:
    """The end of a longer content, from the first whole line on."""
    whole = content[content.find(_NEWLINE) + 1 :] or content
    # A single line: without the rest of a character whose start was cut off.
    start = next((n for n, byte in enumerate(whole[:4]) if byte & 0xC0 != 0x80), 0)
    return whole[start:].decode("utf-8", "replace")


def with_warning(payload: dict[str, Any]) -> None:
    """The result of a step whose output was cut says so. Taken over from another run, it may say so already."""
    kept, written = len(payload["output"].encode("utf-8", "replace")), payload["outputBytes"]
    warning = (
        f"output cut: the first {kept:,} of {written:,} bytes are kept (limits.max_output_size); "
        "use output_file to pass on all of it"
    )
    known = payload.get("warnings", ())
    if warning not in known:
        payload["warnings"] = [*known, warning]
