"""Computes the positions of a picture's parts, in pixels.

A list of steps is laid out in rows from top to bottom: each box below all that lead to it (longest paths, the
waves of `plan/graph.py`), once the arrows that lead back are removed. Inside a row boxes are near those that
lead to them. Lists inside boxes are laid out first and then moved as a whole, so a box encloses its own and
no others.

Arrows never cross a box, by construction:

    +-----+   An arrow to the next row runs in the gap between the two rows. Every other one runs in a gap to
    | box |   the side of the list, along a *lane* outside of all boxes, and in a gap back to its target: lanes on
    +--+--+   the left lead back, lanes on the right lead forward. Arrows that share an end and run in lanes share
       |      the lane as well, so that a thousand arrows to one box are one line with a thousand branches.
    +--v--+
    | box |   Everything is O(V + E) except for sorting, and depends on nothing but the picture.
    +-----+
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappush, heapreplace
from typing import Final, TypeAlias
from unicodedata import category, east_asian_width

from podium.drawing.picture import Arrow, Box, Exit, Picture
from podium.plan.graph import order

# All text is monospaced; this is the widest advance of common fonts at 12 pixels.
_COLUMN: Final = 7.25
LINE: Final = 17
_PADDING: Final = 12
_BESIDE: Final = 32  # between boxes of a row
_GAP: Final = 48  # between rows
_LABEL: Final = 18  # the part of a gap, right below a row, where labels are
_TRACK: Final = 9  # between lines in a gap, and between lanes
_TIP: Final = 12  # the part of a gap where only arrow heads are
_ASIDE: Final = 9
_TO_EXIT: Final = 18
_EXIT_HEIGHT: Final = 20
_MARGIN: Final = 20
_MAX_NAME: Final = 44
_MAX_LINE: Final = 64
# A row that would become wider is broken, because a thousand branches side by side cannot be read.
_WIDEST_ROW: Final = 1600
_SWEEPS: Final = 4


@dataclass(frozen=True, slots=True)
class PlacedExit:
    exit: Exit
    text: str
    x: int
    y: int
    width: int
    height: int = _EXIT_HEIGHT


@dataclass(frozen=True, slots=True)
class PlacedBox:
    """A box; if it contains others, its lines are at the top."""

    box: Box
    depth: int
    x: int
    y: int
    width: int
    height: int
    lines: tuple[str, ...]
    exits: tuple[PlacedExit, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """An arrow: straight from point to point, or with a bend between the second and the third."""

    arrow: Arrow
    points: tuple[tuple[int, int], ...]
    bent: bool
    label: str
    label_at: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Layout:
    width: int
    height: int
    # Each before those inside of it.
    boxes: tuple[PlacedBox, ...]
    lines: tuple[Line, ...]


def columns(text: str) -> int:
    """How many columns a text takes at a terminal, or in a monospaced font."""
    if text.isascii():
        return len(text)
    return sum(
        0 if category(c) in ("Mn", "Me") else 2 if east_asian_width(c) in ("W", "F") else 1 for c in text
    )


def cut(text: str, most: int) -> str:
    if columns(text) <= most:
        return text
    while columns(text) >= most:
        text = text[: min(len(text) - 1, most)]
    return f"{text.rstrip()}…"


def laid_out(picture: Picture) -> Layout:
    inner, labels = _arrows_by_list(picture)
    block = _lay_block(picture.boxes, None, inner, labels)
    boxes: list[PlacedBox] = []
    lines: list[Line] = []
    block.put(_MARGIN, _MARGIN, 0, boxes, lines)
    return Layout(block.width + 2 * _MARGIN, block.height + 2 * _MARGIN, tuple(boxes), tuple(lines))


def _width(text: str) -> int:
    return int(columns(text) * _COLUMN) + 1


# --- arrows, by the list in which they are drawn --------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Way:
    """An arrow inside one list, between boxes that are given by their indexes."""

    arrow: Arrow
    source: int
    target: int


def _arrows_by_list(picture: Picture) -> tuple[dict[int | None, list[_Way]], dict[Arrow, str]]:
    """An arrow out of a box is drawn from the frame of that box, in the list where it ends."""
    parent: dict[int, int | None] = {box.number: None for box in picture.boxes}
    place = {box.number: index for index, box in enumerate(picture.boxes)}
    names: dict[int, str] = {}
    for box in picture.every_box():
        names[box.number] = box.name
        for index, child in enumerate(box.inside or ()):
            parent[child.number] = box.number
            place[child.number] = index
    ways: dict[int | None, list[_Way]] = defaultdict(list)
    labels: dict[Arrow, str] = {}
    for arrow in picture.arrows:
        around = parent[arrow.target]
        source = arrow.source
        while parent[source] != around:
            up = parent[source]
            assert up is not None, "arrows lead to neighbours, or out"
            source = up
        ways[around].append(_Way(arrow, place[source], place[arrow.target]))
        events = ", ".join(arrow.events)
        labels[arrow] = events if source == arrow.source else cut(f"{names[arrow.source]}: {events}", 36)
    return ways, labels


# --- one list -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Item:
    """A box with its exits and contents, before it has a position."""

    box: Box
    lines: tuple[str, ...]
    inside: "_Block | None"
    width: int = 0
    height: int = 0
    exits: list[tuple[Exit, str, int]] = field(default_factory=list)
    # Its position in its list.
    x: int = 0
    y: int = 0

    @property
    def axis(self) -> int:
        """The x coordinate at which arrows arrive."""
        return self.x + self.width // 2

    @property
    def whole_width(self) -> int:
        return self.width + (_TO_EXIT + max(width for _, _, width in self.exits) if self.exits else 0)

    @property
    def whole_height(self) -> int:
        return max(self.height, len(self.exits) * (_EXIT_HEIGHT + 4) + 4 if self.exits else 0)

    def header(self) -> int:
        return len(self.lines) * LINE + _PADDING


@dataclass(slots=True)
class _Block:
    items: list[_Item]
    lines: list[Line]
    width: int = 0
    height: int = 0

    def put(self, x: int, y: int, depth: int, boxes: list[PlacedBox], lines: list[Line]) -> None:
        """Move all of it to its position."""
        for item in self.items:
            left, top = x + item.x, y + item.y
            at = left + item.width + _TO_EXIT
            exits = tuple(
                PlacedExit(exit_, text, at, top + 4 + number * (_EXIT_HEIGHT + 4), width)
                for number, (exit_, text, width) in enumerate(item.exits)
            )
            boxes.append(PlacedBox(item.box, depth, left, top, item.width, item.height, item.lines, exits))
            if item.inside is not None:
                inner = left + (item.width - item.inside.width) // 2
                item.inside.put(inner, top + item.header() + _PADDING, depth + 1, boxes, lines)
        for line in self.lines:
            points = tuple((x + px, y + py) for px, py in line.points)
            label_at = (x + line.label_at[0], y + line.label_at[1])
            lines.append(Line(line.arrow, points, line.bent, line.label, label_at))


def _lay_block(
    boxes: Sequence[Box], owner: int | None, ways: dict[int | None, list[_Way]], labels: dict[Arrow, str]
) -> _Block:
    mine = ways.get(owner, [])
    items = [_item(box, ways, labels) for box in boxes]
    back = _leading_back(len(items), mine)
    layers = _ordered(len(items), [way for way in mine if way not in back])
    starts = _Starts(items, mine, back, labels)
    rows = [row for layer in layers for row in _broken(layer, items)]
    _place_in_rows(rows, items, mine)
    return _Router(items, rows, mine, starts, labels).routed()


def _item(box: Box, ways: dict[int | None, list[_Way]], labels: dict[Arrow, str]) -> _Item:
    inside = _lay_block(box.inside, box.number, ways, labels) if box.inside is not None else None
    item = _Item(box, _lines(box), inside)
    item.width = max((_width(line) for line in item.lines), default=0) + 2 * _PADDING
    item.height = item.header() + (_PADDING // 2)
    if inside is not None:
        item.width = max(item.width, inside.width + 2 * _PADDING)
        item.height = item.header() + inside.height + 2 * _PADDING
    for exit_ in box.exits:
        text = cut(f"{', '.join(exit_.events)}: {exit_.text}", _MAX_LINE)
        item.exits.append((exit_, text, _width(text) + _PADDING))
    return item


def _lines(box: Box) -> tuple[str, ...]:
    if box.kind in ("start", "end"):
        return (box.name,)
    detail = f"{box.kind} · {box.detail}" if box.detail else box.kind
    return (cut(box.name, _MAX_NAME), *(cut(line, _MAX_LINE) for line in (detail, *box.notes)))


def _leading_back(size: int, ways: Iterable[_Way]) -> set[_Way]:
    """The arrows that close a cycle, found by walking from the first box; without them the graph is acyclic."""
    leaving: list[list[_Way]] = [[] for _ in range(size)]
    for way in ways:
        leaving[way.source].append(way)
    back: set[_Way] = set()
    new, open_, done = 0, 1, 2
    state = [new] * size
    for first in range(size):
        if state[first] != new:
            continue
        state[first] = open_
        walk = [(first, iter(leaving[first]))]
        while walk:
            at, rest = walk[-1]
            following = next(rest, None)
            if following is None:
                state[at] = done
                walk.pop()
            elif state[following.target] == open_:
                back.add(following)
            elif state[following.target] == new:
                state[following.target] = open_
                walk.append((following.target, iter(leaving[following.target])))
    return back


def _ordered(size: int, ways: Sequence[_Way]) -> list[list[int]]:
    """Layers, and in each the order in which boxes are near those they are connected with."""
    before: list[list[int]] = [[] for _ in range(size)]
    after: list[list[int]] = [[] for _ in range(size)]
    # Of the targets of one box, the first (success) is on the left.
    rank = [0] * size
    for way in ways:
        rank[way.target] = max(rank[way.target], len(after[way.source]))
        before[way.target].append(way.source)
        after[way.source].append(way.target)
    layers = _lowered(order(before).waves, ways, after)
    place = [0.0] * size

    def number(layer: list[int]) -> None:
        for index, box in enumerate(layer):
            place[box] = (index + 0.5) / len(layer)

    for layer in layers:
        number(layer)
    for sweep in range(_SWEEPS):
        downwards = sweep % 2 == 0
        neighbours = before if downwards else after
        for layer in layers if downwards else reversed(layers):
            wanted = {
                box: sum(place[other] for other in neighbours[box]) / len(neighbours[box])
                if neighbours[box]
                else place[box]
                for box in layer
            }
            layer.sort(key=lambda box: (wanted[box], rank[box], box))
            number(layer)
    return layers


def _lowered(layers: list[list[int]], ways: Sequence[_Way], after: list[list[int]]) -> list[list[int]]:
    """A box that more boxes wait for than it waits for itself is placed right above the first of them, so
    that arrows are short.
    """
    weight: Counter[int] = Counter()
    for way in ways:
        if not way.arrow.implied:
            weight[way.source] += 1
            weight[way.target] -= 1
    layer_of = {box: number for number, layer in enumerate(layers) for box in layer}
    for layer in reversed(layers):
        for box in layer:
            if weight[box] > 0:
                layer_of[box] = min(layer_of[other] for other in after[box]) - 1
    # No layer becomes empty: nothing can move along the longest path to the last layer.
    lowered: list[list[int]] = [[] for _ in layers]
    for box in sorted(layer_of):
        lowered[layer_of[box]].append(box)
    return lowered


def _broken(layer: list[int], items: list[_Item]) -> Iterator[list[int]]:
    row: list[int] = []
    width = 0
    for box in layer:
        needed = items[box].whole_width + _BESIDE
        if row and width + needed > _WIDEST_ROW:
            yield row
            row, width = [], 0
        row.append(box)
        width += needed
    yield row


def _place_in_rows(rows: list[list[int]], items: list[_Item], ways: Sequence[_Way]) -> None:
    """Place boxes below their predecessors, as far as their neighbours leave space."""
    row_of = {box: number for number, row in enumerate(rows) for box in row}
    leading: list[list[int]] = [[] for _ in items]
    for way in ways:
        if row_of[way.source] < row_of[way.target]:
            leading[way.target].append(way.source)
    for row in rows:
        pushed: list[int] = []
        right: int | None = None
        for box in row:
            item = items[box]
            item.x = right or 0
            if leading[box]:
                wanted = (
                    sum(items[other].axis for other in leading[box]) // len(leading[box]) - item.width // 2
                )
                item.x = wanted if right is None else max(right, wanted)
                pushed.append(item.x - wanted)
            right = item.x + item.whole_width + _BESIDE
        # Undo the average shift to the right, so that the row is below its predecessors.
        first, last = items[row[0]], items[row[-1]]
        shift = sum(pushed) // len(pushed) if pushed else (first.x + last.x + last.width) // 2
        for box in row:
            items[box].x -= shift
    left = min((item.x for item in items), default=0)
    for item in items:
        item.x -= left


# --- arrows ---------------------------------------------------------------------------------------

# Arrows in lanes that are drawn as one: "to" or "from", which box, with which label, whether they lead back,
# and whether they are implied. Arrows from a box are only joined if they have the same label: otherwise it
# would be unclear which of them leads where.
_Bundle: TypeAlias = tuple[str, int, str, bool, bool]


class _Starts:
    """Where arrows leave their box: those that lead back on the left, the first other one in the middle."""

    def __init__(
        self, items: list[_Item], ways: Sequence[_Way], back: set[_Way], labels: dict[Arrow, str]
    ) -> None:
        self._labels = labels
        self._items = items
        self._leftwards: dict[int, list[_Way]] = defaultdict(list)
        self._others: dict[int, list[_Way]] = defaultdict(list)
        for way in ways:
            (self._leftwards if way in back else self._others)[way.source].append(way)
        for box, item in enumerate(items):
            sides = (self._shared(self._leftwards[box]), self._shared(self._others[box]))
            item.width = max(item.width, *(2 * sum(self._room(ways[0]) for ways in side) for side in sides))

    def _room(self, way: _Way) -> int:
        label = self._labels[way.arrow]
        return _width(label) + 16 if label else 12

    def all(self) -> Iterator[tuple[_Way, int]]:
        """Each arrow with the x coordinate at which it leaves its box."""
        for box, item in enumerate(self._items):
            for first, side in ((item.x + 8, self._leftwards[box]), (item.axis, self._others[box])):
                at = first
                for ways in self._shared(side):
                    yield from ((way, at) for way in ways)
                    at += self._room(ways[0])

    def _shared(self, ways: list[_Way]) -> list[list[_Way]]:
        """Arrows with the same label start at the same point, where nothing has to distinguish them."""
        groups: dict[str, list[_Way]] = defaultdict(list)
        for way in ways:
            groups[self._labels[way.arrow]].append(way)
        return list(groups.values())


class _Router:
    """Determines the heights of rows, and the points of arrows."""

    def __init__(
        self,
        items: list[_Item],
        rows: list[list[int]],
        ways: Sequence[_Way],
        starts: _Starts,
        labels: dict[Arrow, str],
    ) -> None:
        self._items = items
        self._rows = rows
        self._labels = labels
        self._row_of = {box: number for number, row in enumerate(rows) for box in row}
        self._start = {id(way): at for way, at in starts.all()}
        self._near = [way for way in ways if self._row_of[way.target] == self._row_of[way.source] + 1]
        near = {id(way) for way in self._near}
        self._far = [way for way in ways if id(way) not in near]
        # Beside the middle, because arrows arrive there in the row below, and the two would look like one.
        for way in self._far:
            self._start[id(way)] += _ASIDE

    def routed(self) -> _Block:
        right = max((item.x + item.whole_width for item in self._items), default=0)
        bundles = self._bundles()
        lanes = self._lanes(bundles)
        leftmost = max((lane for back, lane in lanes.values() if back), default=-1) + 1
        rightmost = max((lane for back, lane in lanes.values() if not back), default=-1) + 1
        shift = (leftmost + 1) * _TRACK if leftmost else 0
        width = shift + right + ((rightmost + 1) * _TRACK if rightmost else 0)
        for item in self._items:
            item.x += shift
        at = {
            key: (shift - (lane + 1) * _TRACK) if back else shift + right + (lane + 1) * _TRACK
            for key, (back, lane) in lanes.items()
        }
        starts = {key: start + shift for key, start in self._start.items()}
        tracks, used = self._tracks(bundles, at, starts)
        gaps, height = self._heights(used)
        lines = [self._near_line(way, starts[id(way)], gaps) for way in self._near]
        for key, ways in bundles.items():
            lines += [self._far_line(way, key, starts[id(way)], at[key], tracks, gaps) for way in ways]
        return _Block(self._items, lines, width, height)

    # --- lanes and tracks -------------------------------------------------------------------------

    def _bundles(self) -> dict[_Bundle, list[_Way]]:
        """Arrows in lanes that share an end: the end where more of them meet."""
        out = Counter((way.source, self._labels[way.arrow]) for way in self._far)
        in_ = Counter(way.target for way in self._far)
        bundles: dict[_Bundle, list[_Way]] = defaultdict(list)
        for way in self._far:
            back = self._row_of[way.target] <= self._row_of[way.source]
            label = self._labels[way.arrow]
            if in_[way.target] >= out[way.source, label]:
                bundles["to", way.target, "", back, way.arrow.implied].append(way)
            else:
                bundles["from", way.source, label, back, way.arrow.implied].append(way)
        return bundles

    def _lanes(self, bundles: dict[_Bundle, list[_Way]]) -> dict[_Bundle, tuple[bool, int]]:
        """The side and the distance of each bundle: a bundle never shares a lane with one that it passes."""
        lanes: dict[_Bundle, tuple[bool, int]] = {}
        for side in (True, False):
            spans = []
            for key, ways in bundles.items():
                if key[3] is side:
                    gaps = [gap for way in ways for gap in self._gaps_of(way)]
                    spans.append((min(gaps), max(gaps), key))
            for key, lane in _apart(spans):
                lanes[key] = (side, lane)
        return lanes

    def _gaps_of(self, way: _Way) -> tuple[int, int]:
        """The gap below the source and the one above the target; gap n is the one above row n."""
        return self._row_of[way.source] + 1, self._row_of[way.target]

    def _tracks(
        self,
        bundles: dict[_Bundle, list[_Way]],
        lanes: dict[_Bundle, int],
        starts: dict[int, int],
    ) -> tuple[dict[tuple[int, _Bundle], int], Counter[int]]:
        """For each gap and bundle the track in which it runs to the side; and the number of tracks of each
        gap.
        """
        reach: dict[int, dict[_Bundle, list[int]]] = defaultdict(lambda: defaultdict(list))
        for key, ways in bundles.items():
            for way in ways:
                below, above = self._gaps_of(way)
                reach[below][key] += [starts[id(way)], lanes[key]]
                reach[above][key] += [self._items[way.target].axis, lanes[key]]
        tracks: dict[tuple[int, _Bundle], int] = {}
        used: Counter[int] = Counter()
        for gap, keys in reach.items():
            spans = [(min(at), max(at), key) for key, at in keys.items()]
            for key, track in _apart(spans):
                tracks[gap, key] = track
                used[gap] = max(used[gap], track + 1)
        return tracks, used

    # --- heights ----------------------------------------------------------------------------------

    def _heights(self, used: Counter[int]) -> tuple[list[int], int]:
        """The start of each gap, and the total height."""
        gaps = [0]
        y = used[0] * _TRACK + _TIP if used[0] else 0
        last = len(self._rows) - 1
        crossed = {self._row_of[way.target] for way in self._near}
        for number, row in enumerate(self._rows):
            for box in row:
                self._items[box].y = y
            y += max(self._items[box].whole_height for box in row)
            gaps.append(y)
            if number < last:
                needs_room = used[number + 1] or number + 1 in crossed
                y += _GAP + used[number + 1] * _TRACK if needs_room else _LABEL
            elif used[number + 1]:
                y += _LABEL + used[number + 1] * _TRACK + _TIP
        return gaps, y

    def _track_y(self, gap: int, track: int, gaps: list[int]) -> int:
        return gaps[gap] + (_LABEL if gap else 0) + (track + 1) * _TRACK - _TRACK // 2

    # --- points -----------------------------------------------------------------------------------

    def _near_line(self, way: _Way, x: int, gaps: list[int]) -> Line:
        source, target = self._items[way.source], self._items[way.target]
        top = gaps[self._row_of[way.target]] + _LABEL
        points = (
            (x, source.y + source.height),
            (x, top),
            (target.axis, target.y - _TIP),
            (target.axis, target.y),
        )
        return self._line(way, points, bent=True)

    def _far_line(
        self,
        way: _Way,
        key: _Bundle,
        x: int,
        lane: int,
        tracks: dict[tuple[int, _Bundle], int],
        gaps: list[int],
    ) -> Line:
        source, target = self._items[way.source], self._items[way.target]
        below, above = self._gaps_of(way)
        first = self._track_y(below, tracks[below, key], gaps)
        second = self._track_y(above, tracks[above, key], gaps)
        points = (
            (x, source.y + source.height),
            (x, first),
            (lane, first),
            (lane, second),
            (target.axis, second),
            (target.axis, target.y),
        )
        return self._line(way, points, bent=False)

    def _line(self, way: _Way, points: tuple[tuple[int, int], ...], *, bent: bool) -> Line:
        x, y = points[0]
        return Line(way.arrow, points, bent, self._labels[way.arrow], (x + 5, y + 13))


def _apart(
    spans: list[tuple[int, int, _Bundle]],
) -> Iterator[tuple[_Bundle, int]]:
    """Assigns spans to as few lanes as possible, without overlaps in a lane."""
    free: list[tuple[int, int]] = []
    for first, last, key in sorted(spans):
        if free and free[0][0] < first:
            lane = free[0][1]
            heapreplace(free, (last, lane))
        else:
            lane = len(free)
            heappush(free, (last, lane))
        yield key, lane
