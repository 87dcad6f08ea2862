"""A defect of ours in carrying out a step ends that step, and the run does not wait for ever."""

from pathlib import Path

import pytest

from podium.runtime.tasks.commands import CommandTasks
from podium.runtime.tasks.order import CancelToken, TaskOrder, TaskResult
from tests.unit.tasks.engine import run


@pytest.mark.rule("R088")
def test_a_defect_fails_the_step_and_its_traceback_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_self: CommandTasks, _order: TaskOrder, _stopping: CancelToken) -> TaskResult:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(CommandTasks, "perform", broken)
    ended = run(tmp_path, {"name": "a", "command": ["echo"]})
    assert ended.run.exit_code == 1
    assert "ZeroDivisionError: a defect" in ended.run.error
    assert b"Traceback" in ended.log("a.1.err")
