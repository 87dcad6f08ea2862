"""Ids of new runs: which ones a caller may choose, and which ones are generated.

A generated id is typed by people, so it is short: `nightly-3f2a`. It need not be unguessable, because without
access rules every user of the store may see every run. With rules, and for runs of pools and of other
engines, callers choose a UUID.
"""

import os
from collections.abc import Iterator
from typing import Final

from podium.errors import InvalidId
from podium.log.ids import LAST, RunId, check_id

_STORE_FILE: Final = "podium.db"
_MAX_STEM: Final = 40
_MIN_DIGITS: Final = 4
_MAX_DIGITS: Final = 32


def check_run_id(run_id: str) -> None:
    """Raises `InvalidId` for an id that no new run can have."""
    check_id("run_id", run_id)
    if run_id == LAST:
        raise InvalidId(f"{run_id!r} is not a possible run id: commands use it for the newest run")
    if _is_of_store(run_id):
        raise InvalidId(
            f"{run_id!r} is not a possible run id: names that start with {_STORE_FILE!r} are the store's"
        )


def generated_ids(plan_id: str) -> Iterator[RunId]:
    """Candidates for the id of a run of this plan, each longer than the previous one. The store decides which
    one is free.
    """
    stem = "run" if _is_of_store(plan_id) else plan_id[:_MAX_STEM]
    for digits in range(_MIN_DIGITS, _MAX_DIGITS + 1):
        yield RunId(f"{stem}-{os.urandom(_MAX_DIGITS // 2).hex()[:digits]}")


def _is_of_store(name: str) -> bool:
    """The files of the store are beside the directories of runs."""
    return name.startswith(_STORE_FILE)
