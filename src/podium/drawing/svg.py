"""SVG: the picture with the layout of `drawing/layout.py`, as one self-contained file.

Texts are escaped at the one place that writes them. There is no script and nothing is loaded; colours follow
the reader's system preference, light or dark. For readers who cannot see it, the workflow's steps are
described in their order.
"""

import re
from collections.abc import Iterator
from html import escape
from typing import Final

from podium.drawing.layout import LINE, Layout, Line, PlacedBox, PlacedExit, laid_out
from podium.drawing.picture import Box, Picture

# Characters that XML 1.0 does not allow, not even escaped.
_NOT_IN_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_FAMILIES: Final = {
    "agent": "agent",
    "approval": "human",
    "set": "small",
    "publish": "small",
    "gate": "small",
    "start": "border",
    "end": "border",
}

_STYLE: Final = """
text { font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1c2733 }
.name { font-weight: 600 }
.more { font-size: 11px; fill: #52606d }
.paper { fill: #ffffff }
rect.box { stroke: #7b8794; fill: #f5f7fa }
rect.agent { stroke: #7a5af5; fill: #f3f0ff }
rect.human { stroke: #c27803; fill: #fff7e6 }
rect.small { stroke: #9aa5b1; fill: #ffffff }
rect.border { stroke: #1f7a4d; fill: #e7f6ee }
rect.frame { stroke: #7b8794; fill: #7b8794; fill-opacity: .07 }
rect.exit { stroke: #9aa5b1; fill: #ffffff }
rect.bad { stroke: #c53030; fill: #fff1f1 }
.implied { stroke-dasharray: 4 3 }
.line { fill: none; stroke: #3e4c59; stroke-width: 1.4 }
.line.implied { stroke: #9aa5b1 }
.label, .out { font-size: 11px }
.label { paint-order: stroke; stroke: #ffffff; stroke-width: 3px; stroke-linejoin: round }
text.implied { fill: #616e7c }
.tip { fill: #3e4c59 }
.tip.implied { fill: #9aa5b1 }
rect.is-ok { stroke: #1f7a4d; fill: #d9f2e3 }
rect.is-failed { stroke: #c53030; fill: #ffdede; stroke-width: 2 }
rect.is-running { stroke: #b7791f; fill: #fff3c4; stroke-width: 2 }
rect.is-waiting { stroke: #c27803; fill: #fff7e6 }
rect.is-stopped { stroke: #805ad5; fill: #efe7fd }
rect.is-skipped, rect.is-not-reached { stroke-dasharray: 3 3; fill: #ffffff }
rect.frame.is-ok, rect.frame.is-failed, rect.frame.is-running, rect.frame.is-stopped { fill-opacity: .35 }
@media (prefers-color-scheme: dark) {
text { fill: #e4e7eb }
.more { fill: #a3b0bd }
.paper { fill: #14191f }
rect.box { stroke: #7b8794; fill: #222b35 }
rect.agent { stroke: #a78bfa; fill: #2a2440 }
rect.human { stroke: #e0a526; fill: #352a12 }
rect.small { stroke: #616e7c; fill: #14191f }
rect.border { stroke: #4cc38a; fill: #12301f }
rect.exit { stroke: #616e7c; fill: #14191f }
rect.bad { stroke: #f87171; fill: #331a1a }
.line { stroke: #cbd2d9 }
.line.implied { stroke: #7b8794 }
.label { stroke: #14191f }
text.implied { fill: #9aa5b1 }
.tip { fill: #cbd2d9 }
.tip.implied { fill: #7b8794 }
rect.is-ok { stroke: #4cc38a; fill: #12301f }
rect.is-failed { stroke: #f87171; fill: #4a1d1d }
rect.is-running { stroke: #e0a526; fill: #3d3212 }
rect.is-waiting { stroke: #e0a526; fill: #352a12 }
rect.is-stopped { stroke: #b794f4; fill: #2d2140 }
rect.is-skipped, rect.is-not-reached { fill: #14191f }
}
"""


def svg_of(picture: Picture) -> str:
    return "\n".join(_lines(picture, laid_out(picture))) + "\n"


def _lines(picture: Picture, layout: Layout) -> Iterator[str]:
    width, height = layout.width, layout.height
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' role="img" aria-labelledby="picture-title picture-text">'
    )
    yield f'<title id="picture-title">{_text(picture.name)}</title>'
    yield f'<desc id="picture-text">{_text(_describe(picture))}</desc>'
    yield f"<style>{_STYLE}</style>"
    yield "<defs>"
    for name, implied in (("tip", ""), ("tip-implied", " implied")):
        yield (
            f'<marker id="{name}" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8"'
            f' markerUnits="userSpaceOnUse" orient="auto"><path class="tip{implied}" d="M0 0 8 4 0 8z"/></marker>'
        )
    yield "</defs>"
    yield f'<rect class="paper" width="{width}" height="{height}"/>'
    for placed in layout.boxes:
        yield from _box(placed)
    for line in layout.lines:
        yield _line(line)
    for line in layout.lines:
        if line.label:
            x, y = line.label_at
            implied = " implied" if line.arrow.implied else ""
            yield f'<text class="label{implied}" x="{x}" y="{y}">{_text(line.label)}</text>'
    yield "</svg>"


def _describe(picture: Picture) -> str:
    """The picture in words."""
    steps = [box for box in picture.every_box() if box.kind not in ("start", "end", "finally")]
    description = f"{picture.description} " if picture.description else ""
    names = ", ".join(box.path for box in steps[:200])
    more = f" and {len(steps) - 200} more" if len(steps) > 200 else ""
    return f"{description}A workflow of {len(steps)} {'step' if len(steps) == 1 else 'steps'}: {names}{more}."


def _box(placed: PlacedBox) -> Iterator[str]:
    box = placed.box
    family = "frame" if box.inside is not None else f"box {_FAMILIES.get(box.kind, 'task')}"
    family += f" is-{box.state}" if box.state else ""
    rounded = 14 if box.kind in ("start", "end") else 6
    yield f"<g><title>{_text(_tooltip(box))}</title>"
    yield (
        f'<rect class="{family}" x="{placed.x}" y="{placed.y}" width="{placed.width}" height="{placed.height}"'
        f' rx="{rounded}"/>'
    )
    middle = placed.x + placed.width // 2
    for number, line in enumerate(placed.lines):
        y = placed.y + (number + 1) * LINE + 2
        class_ = "more" if number else "name"
        yield f'<text class="{class_}" x="{middle}" y="{y}" text-anchor="middle">{_text(line)}</text>'
    yield "</g>"
    for exit_ in placed.exits:
        yield from _exit(placed, exit_)


def _tooltip(box: Box) -> str:
    detail = f"{box.kind}: {box.detail}" if box.detail else box.kind
    return "\n".join((box.path or box.name, detail, *box.notes))


def _exit(placed: PlacedBox, exit_: PlacedExit) -> Iterator[str]:
    implied = " implied" if exit_.exit.implied else ""
    bad = " bad" if exit_.exit.kind == "error" else ""
    y = exit_.y + exit_.height // 2
    # A low box with many exits: lines that would miss its side start at its lower corner.
    begin = min(y, placed.y + placed.height - 6)
    yield f'<path class="line{implied}" d="M{placed.x + placed.width} {begin} {exit_.x} {y}"/>'
    yield (
        f'<rect class="exit{bad}{implied}" x="{exit_.x}" y="{exit_.y}" width="{exit_.width}"'
        f' height="{exit_.height}" rx="10"/>'
    )
    yield f'<text class="out{implied}" x="{exit_.x + 7}" y="{exit_.y + 14}">{_text(exit_.text)}</text>'


def _line(line: Line) -> str:
    (x, y), *rest = line.points
    if line.bent:
        (x1, y1), (x2, y2), (x3, y3) = rest
        middle = (y1 + y2) // 2
        path = f"M{x} {y} {x1} {y1}C{x1} {middle} {x2} {middle} {x2} {y2}L{x3} {y3}"
    else:
        path = f"M{x} {y}" + "".join(f" {px} {py}" for px, py in rest)
    implied, tip = (" implied", "tip-implied") if line.arrow.implied else ("", "tip")
    return f'<path class="line{implied}" d="{path}" marker-end="url(#{tip})"/>'


def _text(text: str) -> str:
    return escape(_NOT_IN_XML.sub("\ufffd", text), quote=True)
