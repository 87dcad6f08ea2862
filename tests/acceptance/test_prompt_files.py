"""Where prompts are read from, and which of them are templates."""

from pathlib import Path

import pytest

from tests.acceptance.podium import Place


@pytest.mark.rule("D38", "D51")
def test_a_prompt_file_whose_path_is_known_only_at_run_time_is_read_in_the_workspace_as_it_is(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)
    (place.folder / "ask.md").write_text("say ${context.word}")
    place.write(
        "context: {file: ask.md, word: hello}\nsteps:\n"
        "  - {name: Known, provider: echo, prompt_file: ask.md}\n"
        "  - {name: Later, provider: echo, prompt_file: '${context.file}'}"
    )
    place.run("run", "w.yaml", "--run-id", place.run_id)
    steps = place.state()["steps"]
    assert "say hello" in steps["Known"]["output"]
    assert "say ${context.word}" in steps["Later"]["output"]
