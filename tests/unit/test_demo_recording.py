"""The recording of the demo can be played, and the picture in the README is made from it."""

import json

from tests.demo_recording import CAST, SVG, Screen, events_of, svg_of


def test_the_recording_is_of_version_2_and_shows_the_demo_to_its_end() -> None:
    header, *events = map(json.loads, CAST.read_text().splitlines())
    assert (header["version"], header["width"], header["height"]) == (2, 80, 24)
    assert [at for at, _, _ in events] == sorted(at for at, _, _ in events)
    assert "completed after" in "".join(text for _, _, text in events)


def test_the_picture_is_made_from_the_recording() -> None:
    assert SVG.read_text() == svg_of(events_of(CAST.read_text()))


def test_what_is_drawn_again_is_drawn_over() -> None:
    screen = Screen()
    screen.write("first\r\nsecond\r\x1b[2K\x1b[1A\x1b[2Kthird")
    assert ["".join(character for character, _ in row.values()) for row in screen.rows] == ["third", ""]
