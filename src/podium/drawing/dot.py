"""The language of Graphviz.

Texts are in quotes with backslashes doubled, so that neither a quote nor Graphviz's own escapes (`\\N`,
`\\l`) have a meaning in them. An arrow to a box that contains others is drawn to an invisible point in it and
clipped at its frame.
"""

from collections.abc import Iterator
from typing import Final

from podium.drawing.layout import cut
from podium.drawing.picture import Arrow, Box, Picture

_SHAPES: Final = {"start": "circle", "end": "doublecircle", "gate": "diamond", "approval": "house"}
_MAX_LENGTH: Final = 60
_COLOURS: Final = {
    "ok": "darkgreen",
    "failed": "red",
    "running": "orange",
    "waiting": "orange",
    "stopped": "purple",
    "skipped": "gray50",
    "not-reached": "gray50",
}


def dot_of(picture: Picture) -> str:
    return "\n".join(_lines(picture)) + "\n"


def _lines(picture: Picture) -> Iterator[str]:
    yield f"digraph {_quoted(picture.name)} {{"
    yield f"  graph [compound=true, labelloc=t, fontname=monospace, label={_quoted(picture.name)}];"
    yield '  node [shape=box, style=rounded, fontname=monospace, fontsize=10, margin="0.15,0.08"];'
    yield "  edge [fontname=monospace, fontsize=9];"
    holders = set()
    pending: list[Box | str] = list(reversed(picture.boxes))
    while pending:
        box = pending.pop()
        if isinstance(box, str):
            yield box
        elif box.inside is None:
            shape = f", shape={_SHAPES[box.kind]}" if box.kind in _SHAPES else ""
            yield f"  n{box.number} [label={_label(box)}{shape}{_colour(box)}];"
        else:
            holders.add(box.number)
            yield f"  subgraph cluster_{box.number} {{"
            yield f"  label={_label(box)}; style=rounded;{f' color={_COLOURS[box.state]};' if box.state else ''}"
            yield f'  n{box.number} [shape=point, style=invis, width=0, label=""];'
            pending.append("  }")
            pending.extend(reversed(box.inside))
    for arrow in picture.arrows:
        yield _arrow(arrow, holders)
    for box in picture.every_box():
        for number, exit_ in enumerate(box.exits):
            name = f"n{box.number}x{number}"
            style = "dashed" if exit_.implied else "solid"
            yield f"  {name} [label={_quoted(cut(exit_.text, _MAX_LENGTH))}, shape=plaintext, fontsize=9];"
            tail = f", ltail=cluster_{box.number}" if box.number in holders else ""
            yield f"  n{box.number} -> {name} [label={_quoted(', '.join(exit_.events))}, style={style}{tail}];"
    yield "}"


def _colour(box: Box) -> str:
    return f", color={_COLOURS[box.state]}" if box.state else ""


def _arrow(arrow: Arrow, holders: set[int]) -> str:
    settings = [f"label={_quoted(', '.join(arrow.events))}"] if arrow.events else []
    if arrow.implied:
        settings.append('style=dashed, color="gray50"')
    if arrow.source in holders:
        settings.append(f"ltail=cluster_{arrow.source}")
    if arrow.target in holders:
        settings.append(f"lhead=cluster_{arrow.target}")
    return f"  n{arrow.source} -> n{arrow.target}{' [' + ', '.join(settings) + ']' if settings else ''};"


def _label(box: Box) -> str:
    if box.kind in ("start", "end"):
        return _quoted(box.name)
    detail = f"{box.kind}: {box.detail}" if box.detail else box.kind
    return _quoted("\n".join(cut(line, _MAX_LENGTH) for line in (box.name, detail, *box.notes)))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
