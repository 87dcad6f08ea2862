"""Files of any size may be given to a step: looking at them can be stopped, and takes no longer than the step may."""

import asyncio
import time
from pathlib import Path

import pytest

from podium.ports.engine import Driving
from tests.unit.tasks.engine import drive, run

# It takes no room on the disk, and would take minutes to read.
HUGE = 1 << 40
STEP = {"name": "A", "command": ["true"], "input_file": "huge"}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    with (folder / "huge").open("wb") as file:
        file.truncate(HUGE)
    return folder


@pytest.mark.rule("D28")
def test_a_run_that_looks_at_a_huge_file_is_cancelled_at_once(tmp_path: Path, workspace: Path) -> None:
    async def cancel(driving: Driving) -> None:
        await asyncio.sleep(0.5)
        driving.cancel("enough")

    began = time.monotonic()
    ended = asyncio.run(drive(tmp_path, STEP, workspace=workspace, meanwhile=cancel))
    assert ended.exit_code == 2
    assert time.monotonic() - began < 60


@pytest.mark.rule("D17")
def test_a_step_that_is_given_a_huge_file_has_its_timeout(tmp_path: Path, workspace: Path) -> None:
    began = time.monotonic()
    ended = run(tmp_path, {**STEP, "timeout": 1}, workspace=workspace)
    assert ended.error("A")[:2] == (124, "TIMEOUT")
    assert time.monotonic() - began < 60
