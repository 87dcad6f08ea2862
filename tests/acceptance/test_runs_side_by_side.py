"""Runs of one folder do not wait for each other: each has a lock of its own."""

import asyncio
from pathlib import Path

import pytest

from tests.unit.tasks.engine import Ended, drive, sh


@pytest.mark.rule("R082")
def test_two_runs_of_one_folder_are_driven_at_the_same_time(tmp_path: Path) -> None:
    """Each ends only when the other one has begun."""

    async def both() -> list[Ended]:
        meet = "touch {0}; until test -e {1}; do sleep 0.02; done"
        first, second = (sh(meet.format(*pair), timeout=40) for pair in (("a", "b"), ("b", "a")))
        return list(await asyncio.gather(drive(tmp_path, first), drive(tmp_path, second)))

    assert [ended.exit_code for ended in asyncio.run(both())] == [0, 0]
