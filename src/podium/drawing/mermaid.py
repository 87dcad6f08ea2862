"""Mermaid flowcharts, which GitHub and many wikis show.

Texts are in quotes, with every character that Mermaid or Markdown could read as syntax as an entity (`#60;`).
"""

import re
from collections.abc import Iterator
from typing import Final

from podium.drawing.layout import cut
from podium.drawing.picture import Box, Exit, Picture

_SHAPES: Final = {
    "start": ("([", "])"),
    "end": ("([", "])"),
    "gate": ("{{", "}}"),
    "approval": ("[/", "/]"),
    "agent": ("(", ")"),
}
_SYNTAX: Final = re.compile(r"[^\w\s,:/()=.-]", re.ASCII)
# These would start a list at the start of a label.
_LIST: Final = re.compile(r"^\s*(?:[-]|\d+[.)])")
_MAX_LENGTH: Final = 80
_STYLES: Final = {
    "ok": "fill:#d9f2e3,stroke:#1f7a4d",
    "failed": "fill:#ffdede,stroke:#c53030",
    "running": "fill:#fff3c4,stroke:#b7791f",
    "waiting": "fill:#fff7e6,stroke:#c27803",
    "stopped": "fill:#efe7fd,stroke:#805ad5",
    "skipped": "stroke-dasharray:3 3",
    "not-reached": "stroke-dasharray:3 3",
}


def mermaid_of(picture: Picture) -> str:
    return "\n".join(_lines(picture)) + "\n"


def _lines(picture: Picture) -> Iterator[str]:
    yield "---"
    yield f'title: "{_escaped(picture.name)}"'
    yield "---"
    yield "flowchart TD"
    pending: list[Box | str] = list(reversed(picture.boxes))
    while pending:
        box = pending.pop()
        if isinstance(box, str):
            yield box
        elif box.inside is None:
            opening, closing = _SHAPES.get(box.kind, ("[", "]"))
            yield f'    n{box.number}{opening}"{_label(box)}"{closing}'
        else:
            yield f'    subgraph n{box.number}["{_label(box)}"]'
            pending.append("    end")
            pending.extend(reversed(box.inside))
    for arrow in picture.arrows:
        shaft = "-.->" if arrow.implied else "-->"
        yield f"    n{arrow.source} {shaft}{_events(arrow.events)} n{arrow.target}"
    for box in picture.every_box():
        for number, exit_ in enumerate(box.exits):
            yield _exit(box, number, exit_)
    yield "    classDef out stroke-dasharray:4 3"
    yield from _states(picture)


def _states(picture: Picture) -> Iterator[str]:
    for state, style in _STYLES.items():
        boxes = [f"n{box.number}" for box in picture.every_box() if box.state == state]
        if boxes:
            yield f"    classDef {state} {style}"
            yield f"    class {','.join(boxes)} {state}"


def _exit(box: Box, number: int, exit_: Exit) -> str:
    shaft = "-.->" if exit_.implied else "-->"
    name = f"n{box.number}x{number}"
    return f'    n{box.number} {shaft}{_events(exit_.events)} {name}(["{_escaped(exit_.text)}"]):::out'


def _events(events: tuple[str, ...]) -> str:
    return f"|{', '.join(events)}|" if events else ""


def _label(box: Box) -> str:
    if box.kind in ("start", "end"):
        return box.name
    detail = f"{box.kind}: {box.detail}" if box.detail else box.kind
    return "<br/>".join(map(_escaped, (box.name, detail, *box.notes)))


def _escaped(text: str) -> str:
    text = cut(text, _MAX_LENGTH)
    listed = _LIST.match(text)
    begin = listed.end() if listed else 0
    marker = re.sub(r"[-.)]", _entity, text[:begin])
    # No character beyond ASCII is syntax, so letters need no escape.
    rest = "".join(c if ord(c) > 127 else _SYNTAX.sub(_entity, c) for c in text[begin:])
    return marker + rest


def _entity(found: re.Match[str]) -> str:
    return f"#{ord(found[0])};"
