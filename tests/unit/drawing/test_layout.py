"""Where things stand: nothing covers anything else, and everything is where it belongs."""

from itertools import pairwise

import pytest

from podium.drawing.layout import Layout, PlacedBox, columns, cut, laid_out
from tests.unit.drawing import plans

PICTURES = {
    "one": plans.chain(1),
    "chain": plans.chain(40),
    "every kind": plans.EVERY_KIND,
    "branches": plans.branches(60),
    "graph": plans.dense_graph(60),
    "jumps": plans.jumps(60),
    "hub": plans.flow(
        *(
            f"{{name: s{n}, command: [x], on: {{success: {{end: true}}, failure: {{goto: z}}}}}}"
            for n in range(9)
        ),
        "{name: z, command: [x]}",
        head="strict_flow: false",
    ),
}

Area = tuple[int, int, int, int]


def area(box: PlacedBox) -> Area:
    return (box.x, box.y, box.x + box.width, box.y + box.height)


def exit_areas(box: PlacedBox) -> list[Area]:
    return [(e.x, e.y, e.x + e.width, e.y + e.height) for e in box.exits]


def overlap(one: Area, other: Area) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def inside(inner: Area, outer: Area) -> bool:
    return outer[0] <= inner[0] and outer[1] <= inner[1] and inner[2] <= outer[2] and inner[3] <= outer[3]


def siblings(layout: Layout) -> list[tuple[PlacedBox | None, list[PlacedBox]]]:
    """Each box with those inside of it; None with the outermost."""
    placed = {box.box.number: box for box in layout.boxes}
    lists: list[tuple[PlacedBox | None, list[PlacedBox]]] = [
        (None, [b for b in layout.boxes if b.depth == 0])
    ]
    lists += [
        (box, [placed[child.number] for child in box.box.inside])
        for box in layout.boxes
        if box.box.inside is not None
    ]
    return lists


@pytest.fixture(params=list(PICTURES.values()), ids=list(PICTURES))
def layout(request: pytest.FixtureRequest) -> Layout:
    return laid_out(plans.picture(request.param))


def test_no_two_boxes_and_no_two_exits_overlap(layout: Layout) -> None:
    for _, boxes in siblings(layout):
        areas = [one for box in boxes for one in (area(box), *exit_areas(box))]
        areas.sort()
        for number, one in enumerate(areas):
            assert not any(overlap(one, other) for other in areas[number + 1 :])


def test_boxes_stand_inside_those_they_belong_to(layout: Layout) -> None:
    page = (0, 0, layout.width, layout.height)
    for owner, boxes in siblings(layout):
        outer = area(owner) if owner is not None else page
        for box in boxes:
            assert inside(area(box), outer)
            assert all(inside(one, outer) for one in exit_areas(box))
            if owner is not None:
                # Below the words at the top of the frame.
                assert box.y >= owner.y + 17 * len(owner.lines)


def test_texts_fit_into_their_boxes(layout: Layout) -> None:
    for box in layout.boxes:
        assert all(columns(line) * 7.2 < box.width for line in box.lines)
        assert all(columns(exit_.text) * 7.2 < exit_.width for exit_ in box.exits)


def test_no_arrow_crosses_a_box_of_its_list(layout: Layout) -> None:
    ends = {box.box.number: box for box in layout.boxes}
    parents = {child.box.number: owner for owner, boxes in siblings(layout) for child in boxes}
    for line in layout.lines:
        owner = parents[line.arrow.target]
        around = next(boxes for other, boxes in siblings(layout) if other is owner)
        for (x1, y1), (x2, y2) in pairwise(line.points):
            # A bend stays between the heights of its ends, so its corners tell enough.
            piece = (min(x1, x2), min(y1, y2), max(x1, x2) + 1, max(y1, y2) + 1)
            for box in around:
                left, top, right, bottom = area(box)
                assert not overlap(piece, (left + 1, top + 1, right - 1, bottom - 1)), (
                    line.arrow,
                    box.box.name,
                )
        assert line.points[-1][1] == ends[line.arrow.target].y


def test_arrows_stay_on_the_page_and_every_arrow_is_drawn(layout: Layout) -> None:
    assert all(
        0 <= x <= layout.width and 0 <= y <= layout.height for line in layout.lines for x, y in line.points
    )


def test_labels_of_one_box_do_not_cover_each_other(layout: Layout) -> None:
    for box in layout.boxes:
        mine = {(line.label_at, line.label) for line in layout.lines if line.arrow.source == box.box.number}
        labels = [(x, y - 10, x + int(columns(text) * 6.7), y + 2) for (x, y), text in mine if text]
        for number, one in enumerate(labels):
            assert not any(overlap(one, other) for other in labels[number + 1 :])


def test_what_follows_stands_below() -> None:
    layout = laid_out(plans.picture(plans.dense_graph(60)))
    at = {box.box.number: box.y for box in layout.boxes}
    assert all(at[line.arrow.source] < at[line.arrow.target] for line in layout.lines)


def test_arrows_back_run_on_the_left_and_long_ones_on_the_right() -> None:
    steps = (
        "{name: a, command: [x]}",
        "{name: b, command: [x], on: {success: {goto: c}, failure: {goto: a}}}",
        "{name: c, command: [x]}",
        "{name: d, command: [x], on: {success: {end: true}, failure: {goto: a}}}",
    )
    layout = laid_out(plans.picture(plans.flow(*steps)))
    at = {box.box.number: box for box in layout.boxes}
    for line in layout.lines:
        xs = [x for x, _ in line.points]
        if at[line.arrow.target].y < at[line.arrow.source].y:
            assert min(xs) < min(box.x for box in layout.boxes)


def test_two_outcomes_of_a_step_never_share_a_line() -> None:
    steps = (
        "{name: a, command: [x], on: {success: {goto: b}, failure: {goto: c}, timeout: {goto: d}}}",
        "{name: b, command: [x]}",
        "{name: c, command: [x]}",
        "{name: d, command: [x]}",
    )
    layout = laid_out(plans.picture(plans.flow(*steps)))
    far = [line for line in layout.lines if not line.bent and line.arrow.events[0] in ("failure", "timeout")]
    assert len(far) == 2
    # The lane, and the height at which it is reached.
    assert len({line.points[2][0] for line in far}) == 2
    assert len({line.points[1][1] for line in far}) == 2


@pytest.mark.parametrize(
    "text", [plans.branches(1000), plans.chain(1000), plans.jumps(1000), plans.dense_graph(1000)]
)
def test_a_thousand_steps_stay_readable(text: str) -> None:
    layout = laid_out(plans.picture(text))
    assert len(layout.boxes) >= 1000
    # No row becomes wider than a screen or two, whatever stands side by side: the rest is lanes.
    boxes_end = max(box.x + box.width for box in layout.boxes) - min(box.x for box in layout.boxes)
    assert boxes_end < 6000


def test_a_picture_is_laid_out_the_same_way_every_time() -> None:
    for text in PICTURES.values():
        assert laid_out(plans.picture(text)) == laid_out(plans.picture(text))


def test_wide_characters_take_two_columns_and_marks_none() -> None:
    assert columns("abc") == 3
    assert columns("日本") == 4
    assert columns("e\u0301") == 1
    assert cut("日本語日本語", 6) == "日本…"
    assert cut("short", 6) == "short"
