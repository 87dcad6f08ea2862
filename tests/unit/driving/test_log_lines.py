"""Every line of `workflow.jsonl` has the same keys."""

import json
from pathlib import Path

from tests.unit.tasks.engine import run, sh


def test_lines_about_the_run_itself_have_no_step_and_say_so(tmp_path: Path) -> None:
    ended = run(tmp_path, sh("true"))
    lines = [json.loads(line) for line in (ended.directory / "logs/workflow.jsonl").read_text().splitlines()]
    assert {frozenset(line) for line in lines} == {
        frozenset({"timestamp", "run_id", "level", "message", "step"})
    }
    assert lines[0]["step"] is None
    assert {line["step"] for line in lines} == {None, "A"}
