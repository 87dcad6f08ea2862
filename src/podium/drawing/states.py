"""The state of a run in the picture of its plan: each box gets a word that selects its colour, and a line
with details.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from podium.drawing.picture import Box, Picture

# For a step without any events.
NOT_REACHED = "not-reached"


class BoxState(NamedTuple):
    """`word`: ok, failed, stopped, skipped, running, waiting. `text`: a description that does not rely on
    colours.
    """

    word: str
    text: str


def with_states(picture: Picture, states: Mapping[str, BoxState]) -> Picture:
    """`states`: by the path of a step in the plan."""
    return replace(picture, boxes=tuple(_with_state(box, states) for box in picture.boxes))


def _with_state(box: Box, states: Mapping[str, BoxState]) -> Box:
    inside = tuple(_with_state(one, states) for one in box.inside) if box.inside is not None else None
    if not box.path:
        return replace(box, inside=inside)
    state = states.get(box.path, BoxState(NOT_REACHED, ""))
    notes = (*box.notes, state.text) if state.text else box.notes
    return replace(box, inside=inside, state=state.word, notes=notes)
