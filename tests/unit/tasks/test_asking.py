"""What a condition learns of the environment when it is asked in a run."""

from pathlib import Path

import pytest

from tests.unit.tasks.engine import run


@pytest.mark.rule("D35", "R050")
def test_a_variable_is_set_if_it_is_there_and_not_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FULL", "0")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.delenv("NOWHERE", raising=False)
    names = ("FULL", "EMPTY", "NOWHERE", "TOKEN")
    steps = [{"name": name, "command": ["true"], "when": {"env_set": name}} for name in names]
    ended = run(tmp_path, *steps, secrets={"TOKEN": "a-secret-value"})
    skipped = [event.step_id for event in ended.events if event.event_type == "StepSkipped"]
    assert skipped == ["EMPTY", "NOWHERE"]
