"""How long ended runs are kept, by the status they ended with: the file for `podium prune --policy`.

    completed: 30d
    failed: 90d
    cancelled: 12h

Runs with a status that the file does not name are kept forever. Nothing is removed unless `podium prune` is
called.
"""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from podium.errors import InvalidConfiguration
from podium.language.diagnostics import did_you_mean
from podium.language.reader import Document, read_yaml
from podium.language.tree import Entry, Scalar, describe
from podium.language.tree import Mapping as Written
from podium.log.transitions import TERMINAL, RunStatus

MAX_POLICY_BYTES: Final = 1 << 16
_AGE: Final = re.compile(r"([0-9]{1,6})([mhd])")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}
_STATUSES: Final = {status.lower(): status for status in sorted(TERMINAL)}

RetentionPolicy = Mapping[RunStatus, timedelta]


def parse_age(text: str) -> timedelta | None:
    """`90d`, `12h` or `30m`; None if it is none of these."""
    found = _AGE.fullmatch(text)
    return timedelta(**{_UNITS[found[2]]: int(found[1])}) if found is not None else None


def read_policy(content: bytes, name: str) -> RetentionPolicy:
    """Raises `InvalidConfiguration` with every problem and its position."""
    document = read_yaml(content, name)
    if document.report.diagnostics:
        raise InvalidConfiguration("\n".join(str(found) for found in document.report.diagnostics))
    if not isinstance(document.root, Written) or not document.root.entries:
        raise InvalidConfiguration(
            f"{name!r} has no keys: write a status and an age, like `completed: 30d`. {_expected()}"
        )
    policy: dict[RunStatus, timedelta] = {}
    problems = []
    for key, entry in document.root.entries.items():
        status, age = _STATUSES.get(key), _age_of(entry)
        if status is None:
            near = did_you_mean(key, _STATUSES)
            problems.append(
                _at(document, entry, f"{key!r} is not a status of an ended run. {near} {_expected()}")
            )
        elif age is None:
            wrong = f"`{key}` is {describe(entry.value)}; write an age: a number and m, h or d, like 30d"
            problems.append(_at(document, entry, wrong))
        else:
            policy[status] = age
    if problems:
        raise InvalidConfiguration("\n".join(problems))
    return policy


def _age_of(entry: Entry) -> timedelta | None:
    value = entry.value
    return parse_age(value.value) if isinstance(value, Scalar) and isinstance(value.value, str) else None


def _at(document: Document, entry: Entry, text: str) -> str:
    at = document.source.position(entry.key.start)
    return f"{document.source.name}:{at.line}:{at.column}: {text}"


def _expected() -> str:
    return f"Statuses: {', '.join(_STATUSES)}"
