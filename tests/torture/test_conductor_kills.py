"""A sample of `python -m tests.torture.conductor_kills`: two runs and four kills."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from services.conductor import ConductorServer
from tests.torture.conductor_kills import Case
from tests.torture.forked import Forker


@pytest.fixture
def forker() -> Iterator[Forker]:
    forker = Forker()
    yield forker
    forker.close()


@pytest.mark.rule("G13", "G45")
@pytest.mark.timeout(400)
def test_workers_of_conductor_are_killed_at_random_moments(
    tmp_path: Path, shared_conductor: ConductorServer, forker: Forker
) -> None:
    case = Case(tmp_path, shared_conductor, 7, None, forker, runs=2, steps=5, max_kills=4)
    problems = case.run()
    assert not problems, f"{problems}\n{case.outputs}"
