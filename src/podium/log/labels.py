"""Labels of runs: names with values, by which people find runs again."""

from collections.abc import Mapping, Sequence
from typing import Final

from podium.errors import PodiumError
from podium.patterns import lazy_pattern
from podium.text import shortened

MAX_LABELS: Final = 32
MAX_VALUE_CHARACTERS: Final = 255
_NAME: Final = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}")


class InvalidLabel(PodiumError):
    code = "INVALID_LABEL"


def check_labels(labels: Mapping[str, str]) -> None:
    """Refuse what no store may keep; all stores apply the same rule."""
    if len(labels) > MAX_LABELS:
        raise InvalidLabel(f"a run has at most {MAX_LABELS} labels; these are {len(labels)}")
    for name, value in labels.items():
        check_label(name, value)


def check_label(name: str, value: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidLabel(
            f"{_shown(name)} is not a valid name of a label: use 1-63 letters, digits or . _ / -, starting with a "
            "letter or digit"
        )
    if not 1 <= len(value) <= MAX_VALUE_CHARACTERS or not value.isprintable():
        raise InvalidLabel(
            f"the label {name!r} cannot be {_shown(value)}: use 1-{MAX_VALUE_CHARACTERS} printable characters"
        )


def parse_labels(given: Sequence[str]) -> dict[str, str]:
    """Parse texts like `name=value`. Raises `InvalidLabel`, also if a name is given twice."""
    labels: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidLabel(f"{_shown(text)} is not a label: write it as name=value")
        if name in labels:
            raise InvalidLabel(f"the label {_shown(name)} is given twice; a run has one value for each name")
        labels[name] = value
    check_labels(labels)
    return labels


def _shown(value: str) -> str:
    return shortened(ascii(value))
