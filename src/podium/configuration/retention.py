"""`retention`: how long the files that steps leave are kept, by kind."""

from datetime import timedelta
from typing import Final

from podium.configuration.problems import Problems
from podium.configuration.values import section
from podium.language.tree import Entry, Scalar
from podium.log.artifacts import ArtifactKind
from podium.operations.retention import parse_age
from podium.runtime.expiring import ArtifactAges

_KINDS: Final = tuple(sorted(ArtifactKind))


def read_retention(entry: Entry, problems: Problems) -> ArtifactAges:
    entries = section(entry, "retention", "write kinds and their ages, like {file: 90d}", problems) or {}
    problems.unknown(entries, _KINDS, "retention.")
    ages: dict[str, timedelta] = {}
    for kind, given in entries.items():
        value = given.value
        age = parse_age(value.value) if isinstance(value, Scalar) and isinstance(value.value, str) else None
        if age is not None:
            ages[kind] = age
        elif kind in _KINDS:
            problems.wrong(given, f"retention.{kind}", "write an age: a number and m, h or d, like 90d")
    return ages
