"""Where output that is too long is cut: after its last complete line, so that no reader gets a partial
record.

A single line that is too long is cut after a complete character.
"""

import codecs
from typing import Any, Final

_NEWLINE: Final = b"\n"
_WARNING: Final = "output cut: "


def cut_bytes(content: bytes, most: int) -> str:
    """The start of a longer content, at most `most` bytes.

    Pass one more byte than that: a line is also complete if only its line feed is cut off.
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
    """The end of a longer content, starting with its first complete line."""
    whole = content[content.find(_NEWLINE) + 1 :] or content
    # A single line: without the rest of a character whose start was cut off.
    start = next((n for n, byte in enumerate(whole[:4]) if byte & 0xC0 != 0x80), 0)
    return whole[start:].decode("utf-8", "replace")


def with_warning(payload: dict[str, Any], *, has_output_file: bool) -> None:
    """Add a warning to the result of a step whose output was cut. A result from another run may have it
    already.
    """
    known = payload.get("warnings", ())
    if any(warning.startswith(_WARNING) for warning in known):
        return
    kept, written = len(payload["output"].encode("utf-8", "replace")), payload["outputBytes"]
    # The output file is the first of them; others are changes of a worktree.
    artifacts = payload.get("artifacts") if has_output_file else None
    path = artifacts[0].get("path") if artifacts else None
    rest = f"all of it is in {path!a}" if path else "use output_file to pass on all of it"
    warning = f"{_WARNING}the first {kept:,} of {written:,} bytes are kept (limits.max_output_size); {rest}"
    payload["warnings"] = [*known, warning]
