"""For terminals: one step after the other, indented by nesting, each with its transitions.

    [Lint Code]  command: npm run lint
        success --> Type Check
        failure --> Auto Fix Lint
    [Auto Fix Lint]  command: npm run lint:fix
        success --> Lint Code (back)
        failure --x error: Cannot auto-fix lint errors

`-->` is written in the workflow, `..>` is implied; `x` does not lead to a step.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from podium.drawing.layout import cut
from podium.drawing.picture import Arrow, Box, Picture

_MAX_LENGTH: Final = 100
_INDENT: Final = 4


def ascii_of(picture: Picture) -> str:
    return "".join(f"{line}\n".replace(" \n", "\n") for line in _Writer(picture).lines())


class _Writer:
    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._leaving: dict[int, list[Arrow]] = defaultdict(list)
        self._waits_for: dict[int, list[int]] = defaultdict(list)
        for arrow in picture.arrows:
            if arrow.events:
                self._leaving[arrow.source].append(arrow)
            elif not arrow.implied:
                self._waits_for[arrow.target].append(arrow.source)
        boxes = list(picture.every_box())
        self._name = {box.number: box.name for box in boxes}
        # Arrows lead back when their target is further up on the page.
        self._line = {box.number: line for line, box in enumerate(boxes)}

    def lines(self) -> Iterator[str]:
        yield self._picture.name
        if self._picture.description:
            yield cut(self._picture.description, _MAX_LENGTH)
        yield ""
        starts = {arrow.source: arrow.target for arrow in self._picture.arrows if not arrow.events}
        pending = [(box, "") for box in reversed(self._picture.boxes)]
        while pending:
            box, indent = pending.pop()
            if box.kind in ("start", "end"):
                yield from self._terminal(box, indent, starts)
                continue
            yield from self._step(box, indent)
            inner = indent + "|" + " " * (_INDENT - 1)
            pending.extend((child, inner) for child in reversed(box.inside or ()))

    def _terminal(self, box: Box, indent: str, starts: dict[int, int]) -> Iterator[str]:
        graph = box.number in starts and any(self._waits_for.values())
        if box.kind == "end":
            yield f"{indent}(end)"
        elif box.number in starts and not graph:
            yield f"{indent}(start) ..> {self._name[starts[box.number]]}"
        else:
            yield f"{indent}(start)"

    def _step(self, box: Box, indent: str) -> Iterator[str]:
        what = f"{box.kind}: {box.detail}" if box.detail and box.kind != "finally" else box.detail or box.kind
        state = f"{box.state}  " if box.state else ""
        yield indent + cut(f"[{box.name}]  {state}{what}", _MAX_LENGTH)
        inner = indent + ("|" if box.inside is not None else " ") + " " * (_INDENT - 1)
        for note in box.notes:
            if note == box.state:
                continue
            yield inner + cut(note, _MAX_LENGTH)
        if self._waits_for[box.number]:
            names = ", ".join(self._name[number] for number in self._waits_for[box.number])
            yield inner + f"after {names}"
        for arrow in self._leaving[box.number]:
            back = " (back)" if self._line[arrow.target] <= self._line[box.number] else ""
            shaft = "..>" if arrow.implied else "-->"
            yield f"{inner}{', '.join(arrow.events)} {shaft} {self._name[arrow.target]}{back}"
        for exit_ in box.exits:
            shaft = "..x" if exit_.implied else "--x"
            if exit_.kind in ("end", "goto", "break", "continue"):
                shaft = shaft.replace("x", ">")
            yield f"{inner}{', '.join(exit_.events)} {shaft} {exit_.text}"
