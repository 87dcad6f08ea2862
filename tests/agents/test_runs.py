"""Whole runs with a real agent: prompts, results, sessions, costs and failures, from the workflow to the log."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.agents.box import Box
from tests.agents.servers import Calls, ModelServer, Refuses, Says, Turn

KEY = "sk-fake-0123456789abcdef"
REVIEW = """
version: "2.0"
name: review
steps:
  - name: Work
    provider: claude
    prompt: "Write a haiku about ${context.topic}."
    output_file: haiku.txt
  - name: Judge
    provider: claude
    prompt: Is it good?
    session: {resume: Work}
    input_file: haiku.txt
    expect:
      schema: {type: object, required: [approved], properties: {approved: {type: boolean}}}
  - name: Approved
    when: {expr: "${steps.Judge.json.approved}"}
    on: {success: {end: true}, failure: {error: not approved}}
context: {topic: rivers}
"""


class Runs:
    """Runs workflows with the real claude in a box without a network."""

    def __init__(self, folder: Path, box: Box, words: list[str]) -> None:
        self.folder = folder
        self._box = box
        program = folder / "bin" / "claude"
        program.parent.mkdir()
        command = " ".join(f"'{word}'" for word in box.inside(words))
        program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        program.chmod(0o755)

    def run(self, workflow: str, turns: Sequence[Turn], code: int = 0) -> list[Any]:
        (self.folder / "w.yaml").write_text(workflow)
        with ModelServer(turns, self._box.listen()) as server:
            environment = {
                "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
                "HOME": str(self.folder),
                "ANTHROPIC_BASE_URL": server.url,
                "ANTHROPIC_API_KEY": KEY,
                "CLAUDE_CODE_MAX_RETRIES": "0",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            }
            done = subprocess.run(
                [sys.executable, "-m", "podium", "run", "w.yaml", "--run-id", "r"],
                cwd=self.folder,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )
            assert done.returncode == code, (done.stdout, done.stderr)
            return list(server.asked)

    def step(self, name: str) -> dict[str, Any]:
        state = json.loads((self.folder / "runs/r/state.json").read_text())
        step: dict[str, Any] = state["steps"][name]
        return step


@pytest.fixture
def runs(tmp_path: Path, box: Box, words: Callable[[str], list[str]]) -> Runs:
    return Runs(tmp_path, box, words("claude"))


@pytest.mark.rule("D50", "D51", "D52", "R093")
def test_a_review_goes_on_in_the_session_of_the_work_and_its_verdict_decides(runs: Runs) -> None:
    asked = runs.run(
        REVIEW, [Says("the river runs on"), Calls("StructuredOutput", {"approved": True}), Says("done")]
    )
    assert (runs.folder / "runs/r/artifacts/haiku.txt").read_text() == "the river runs on"
    assert "about rivers" in str(asked[0].body["messages"])
    # The conversation so far, and the file under its name, are there in the second turn.
    assert "about rivers" in str(asked[1].body["messages"])
    assert "## haiku.txt" in str(asked[1].body["messages"])
    assert runs.step("Work")["usage"]["tokens"] > 0
    prompt = (runs.folder / "runs/r/logs/steps/Judge.1.prompt").read_text()
    assert "Is it good?" in prompt


@pytest.mark.rule("D52")
def test_an_agent_that_is_overloaded_fails_the_step_and_may_be_tried_again(runs: Runs) -> None:
    workflow = """
version: "2.0"
name: once more
steps:
  - {name: Ask, provider: claude, prompt: hello, retry: {attempts: 2, delay: 0.1}}
"""
    runs.run(workflow, [Refuses(529, "overloaded_error"), Says("here I am")])
    assert runs.step("Ask")["output"] == "here I am"
    assert runs.step("Ask")["attempts"] == 2


@pytest.mark.rule("D34", "D35")
def test_the_key_of_a_provider_reaches_its_steps_alone_and_is_masked(runs: Runs) -> None:
    workflow = """
version: "2.0"
name: keys
steps:
  - {name: Ask, provider: claude, prompt: hello}
  - {name: Look, command: [sh, -c, 'echo "key=[$ANTHROPIC_API_KEY]"']}
"""
    runs.run(workflow, [Says(f"the key is {KEY}")])
    assert runs.step("Look")["output"].strip() == "key=[]"
    assert runs.step("Ask")["output"] == "the key is ***"
    files = [path for path in (runs.folder / "runs").rglob("*") if path.is_file()]
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []
