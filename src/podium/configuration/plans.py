"""`plans`: where published plans may be fetched from and written to."""

from pathlib import Path
from typing import Final

from podium.configuration.problems import Problems
from podium.language.tree import Entry, Node, Scalar, Sequence, describe
from podium.language.tree import Mapping as Written
from podium.plan.locations import AllowedPlace, PlanPlaces, PlanUriNotAllowed, allowed_place
from podium.text import shortened

_KEYS: Final = ("allow", "allow_loopback", "file_root")
_PLACE: Final = "https://plans.example.com/releases or s3://bucket"


def read_plans(entry: Entry, folder: Path, problems: Problems) -> PlanPlaces | None:
    if not isinstance(entry.value, Written):
        problems.wrong(entry, "plans", "write a mapping, like {allow: ['https://plans.example.com']}")
        return None
    entries = entry.value.entries
    problems.unknown(entries, _KEYS, "plans.")
    return PlanPlaces(
        _allowed(entries.get("allow"), problems),
        _file_root(entries.get("file_root"), folder, problems),
        _flag(entries.get("allow_loopback"), "plans.allow_loopback", problems),
    )


def _allowed(entry: Entry | None, problems: Problems) -> tuple[AllowedPlace, ...]:
    if entry is None:
        return ()
    if not isinstance(entry.value, Sequence):
        problems.wrong(entry, "plans.allow", f"write a list of places, like [{_PLACE}]")
        return ()
    places = [_place(item, problems) for item in entry.value.items]
    return tuple(place for place in places if place is not None)


def _place(node: Node, problems: Problems) -> AllowedPlace | None:
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        problems.add_at(node, f"`plans.allow` has {describe(node)}; write a place, like {_PLACE}")
        return None
    try:
        return allowed_place(node.value)
    except PlanUriNotAllowed as error:
        shown = shortened(node.value, 100)
        problems.add_at(node, f"`plans.allow` has {shown!r}: {error.reason}; write a place, like {_PLACE}")
        return None


def _file_root(entry: Entry | None, folder: Path, problems: Problems) -> str | None:
    if entry is None:
        return None
    match entry.value:
        case Scalar(value=str(text)) if text and "://" not in text:
            # Relative paths start at the folder of this file, like those of secrets.
            return str(folder / Path(text).expanduser())
    problems.wrong(entry, "plans.file_root", "write the path of a folder")
    return None


def _flag(entry: Entry | None, key: str, problems: Problems) -> bool:
    if entry is None:
        return False
    match entry.value:
        case Scalar(value=bool(flag)):
            return flag
    problems.wrong(entry, key, "write true or false")
    return False
