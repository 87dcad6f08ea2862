"""The three examples with a recording: made with the real programs, they run again without them, identically."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.agents.box import Box
from tests.agents.example_runs import KEY, ROOT, ExampleRuns


def asked_in(folder: Path) -> dict[str, Any]:
    calls = (path for path in folder.glob("*.json") if path.name != "recording.json")
    return {path.name: json.loads(path.read_text())["asked"] for path in calls}


@pytest.mark.parametrize("name", ["review_loop", "fan_out_review", "fix_the_tests"])
def test_an_example_is_recorded_with_real_agents_and_replays_with_the_same_history(
    name: str, tmp_path: Path, box: Box, words: Callable[[str], list[str]]
) -> None:
    runs = ExampleRuns(tmp_path, box, words)
    kept = tmp_path / "kept"
    runs.record(name, kept)
    runs.replay(name, kept)
    assert runs.history("replayed") == runs.history("recorded")
    # What is kept beside the examples was made in the same way.
    assert asked_in(kept) == asked_in(ROOT / "examples/recordings" / name)
    for path in kept.iterdir():
        assert KEY not in path.read_text()
        assert str(tmp_path) not in path.read_text()
