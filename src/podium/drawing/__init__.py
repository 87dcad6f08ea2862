"""Drawings of plans: one picture (`drawing/picture.py`), and one small writer for each format.

Every text of the picture is neutralised here, for all writers: characters that would control a terminal are
escaped. What is markup in a format is escaped by its writer.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from podium.drawing.ascii import ascii_of
from podium.drawing.dot import dot_of
from podium.drawing.mermaid import mermaid_of
from podium.drawing.picture import Box, Exit, Picture, picture_of
from podium.drawing.svg import svg_of
from podium.plan.plan import Plan
from podium.text import visible

FORMATS: Final[dict[str, Callable[[Picture], str]]] = {
    "ascii": ascii_of,
    "mermaid": mermaid_of,
    "dot": dot_of,
    "svg": svg_of,
}
# Usual suffixes of files in each format.
SUFFIXES: Final = {
    ".txt": "ascii",
    ".mmd": "mermaid",
    ".mermaid": "mermaid",
    ".dot": "dot",
    ".gv": "dot",
    ".svg": "svg",
}


def drawn(plan: Plan, format_: str) -> str:
    """The same plan gives the same text on any machine."""
    return FORMATS[format_](shown(picture_of(plan)))


def drawn_picture(picture: Picture, format_: str) -> str:
    """Draws a picture with states."""
    return FORMATS[format_](shown(picture))


def shown(picture: Picture) -> Picture:
    """The picture with texts that can be shown anywhere."""
    return replace(
        picture,
        name=_line(picture.name),
        description=_line(picture.description),
        boxes=tuple(map(_shown, picture.boxes)),
    )


def _shown(box: Box) -> Box:
    return replace(
        box,
        name=_line(box.name),
        path=_line(box.path),
        detail=_line(box.detail),
        notes=tuple(map(_line, box.notes)),
        exits=tuple(map(_exit, box.exits)),
        inside=tuple(map(_shown, box.inside)) if box.inside is not None else None,
    )


def _exit(exit_: Exit) -> Exit:
    return replace(exit_, text=_line(exit_.text))


def _line(text: str) -> str:
    """On one line: prompts have many, which do not fit into a picture."""
    return visible(" ".join(text.split()) if "\n" in text or "\t" in text else text)
