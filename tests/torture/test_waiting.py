"""A sample of runs that wait on one worker; `make torture` has ten thousand of them, and measures time, too."""

import asyncio
from pathlib import Path

from tests.torture.waiting import measure


def test_runs_that_wait_hold_no_descriptors_and_continue_when_they_are_approved(tmp_path: Path) -> None:
    figures = asyncio.run(measure(tmp_path, 120, seconds=0.1, signals=4))
    assert figures.descriptors < 60
