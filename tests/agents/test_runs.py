"""Whole runs with a real agent: prompts, results, sessions, costs and failures, from the workflow to the log."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.agents.box import Box
from tests.agents.servers import Calls, Decides, ModelServer, Says, Turn

KEY = "sk-fake-0123456789abcdef"


class Runs:
    """Runs workflows with a real agent in a box without a network."""

    def __init__(self, folder: Path, box: Box, name: str, words: list[str]) -> None:
        self.folder = folder
        self._box = box
        program = folder / "bin" / name
        program.parent.mkdir()
        command = " ".join(f"'{word}'" for word in box.inside(words))
        program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        program.chmod(0o755)

    def run(self, workflow: str, turns: Sequence[Turn], code: int = 0) -> list[Any]:
        (self.folder / "w.yaml").write_text(workflow)
        with ModelServer(turns, self._box.listen()) as server:
            self._podium(server, "run", "w.yaml", "--run-id", "r", code=code)
            return list(server.asked)

    def run_and_kill(self, workflow: str, turns: Sequence[Turn], when: Path) -> list[Any]:
        """Kill the runner as soon as that file is there, and go on with the run."""
        (self.folder / "w.yaml").write_text(workflow)
        with ModelServer(turns, self._box.listen()) as server:
            words = [sys.executable, "-m", "podium", "run", "w.yaml", "--run-id", "r"]
            running = subprocess.Popen(words, cwd=self.folder, env=self._environment(server))
            try:
                deadline = time.monotonic() + 60
                while not when.exists():
                    assert time.monotonic() < deadline
                    time.sleep(0.02)
            finally:
                running.kill()
                running.wait(10)
            self._podium(server, "resume", "r")
            return list(server.asked)

    def _podium(self, server: ModelServer, *words: str, code: int = 0) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "podium", *words],
            cwd=self.folder,
            env=self._environment(server),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == code, (done.stdout, done.stderr)

    def _environment(self, server: ModelServer) -> dict[str, str]:
        return {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_MAX_RETRIES": "0",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "GOOGLE_GEMINI_BASE_URL": server.url,
            "GEMINI_API_KEY": KEY,
            "SCRIPTED_URL": f"{server.url}/v1",
            "CODEX_API_KEY": KEY,
        }

    def step(self, name: str) -> dict[str, Any]:
        state = json.loads((self.folder / "runs/r/state.json").read_text())
        step: dict[str, Any] = state["steps"][name]
        return step


@pytest.fixture
def runs(tmp_path: Path, box: Box, words: Callable[[str], list[str]]) -> Runs:
    return Runs(tmp_path, box, "claude", words("claude"))


AT_WORK = """
version: "2.0"
name: at work
steps:
  - name: Work
    provider: {name}
    prompt: Build the tower.
    {keys}
"""
SLOW = "touch began; sleep 60"


@pytest.mark.rule("D31", "D50")
def test_claude_goes_on_in_its_conversation_after_the_runner_was_killed(runs: Runs) -> None:
    workflow = AT_WORK.format(name="claude", keys="allowed_tools: [Bash]")
    turns: list[Turn] = [
        Calls("Bash", {"command": "echo stone"}),
        Calls("Bash", {"command": SLOW}),
        Says("the tower stands"),
    ]
    asked = runs.run_and_kill(workflow, turns, runs.folder / "began")
    assert runs.step("Work")["output"] == "the tower stands"
    told = str(asked[-1].body["messages"])
    # What it had been told and had done before, and then the task once more.
    assert told.index("Build the tower") < told.index("echo stone") < told.index("You were interrupted")


@pytest.mark.rule("D31", "D50")
def test_codex_goes_on_in_its_conversation_after_the_runner_was_killed(
    tmp_path: Path, box: Box, words: Callable[[str], list[str]]
) -> None:
    runs = Runs(tmp_path, box, "codex", words("codex"))
    home = tmp_path / ".codex"
    home.mkdir()
    program = tmp_path / "bin" / "codex"
    # Its server stands in its own settings.
    settings = """
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "@"
env_key = "CODEX_API_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"""
    (home / "plain.toml").write_text(settings)
    script = program.read_text().replace(
        "exec ", f'sed "s|@|$SCRIPTED_URL|" {home}/plain.toml > {home}/config.toml\nexec ', 1
    )
    program.write_text(script)
    workflow = AT_WORK.format(name="codex", keys="access: full\n    model: gpt-5.1\n    env_policy: inherit")
    turns: list[Turn] = [Calls("exec_command", {"cmd": SLOW}), Says("the tower stands")]
    asked = runs.run_and_kill(workflow, turns, runs.folder / "began")
    assert runs.step("Work")["output"] == "the tower stands"
    told = str(asked[-1].body["input"])
    assert told.index("Build the tower") < told.index("You were interrupted")


@pytest.mark.rule("D31", "D50")
def test_gemini_goes_on_in_its_conversation_after_the_runner_was_killed(
    tmp_path: Path, box: Box, words: Callable[[str], list[str]]
) -> None:
    runs = Runs(tmp_path, box, "gemini", words("gemini"))
    (tmp_path / ".gemini").mkdir()
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"maxAttempts": 1}}
    (tmp_path / ".gemini" / "settings.json").write_text(json.dumps(settings))
    workflow = AT_WORK.format(name="gemini", keys="access: full\n    model: gemini-2.5-pro")
    turns: list[Turn] = [Calls("run_shell_command", {"command": SLOW}), Says("the tower stands")]
    asked = runs.run_and_kill(workflow, turns, runs.folder / "began")
    assert runs.step("Work")["output"] == "the tower stands"
    told = str(asked[-1].body["contents"])
    assert told.index("Build the tower") < told.index("You were interrupted")


def test_two_agents_at_once_change_the_same_file_each_in_its_own_worktree(runs: Runs) -> None:
    author = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")
    (runs.folder / "a.txt").write_text("one\n")
    for words in (["init", "--quiet"], ["add", "a.txt"], ["commit", "--quiet", "-m", "first"]):
        subprocess.run(["git", *author, *words], cwd=runs.folder, check=True)
    workflow = """
version: "2.0"
name: both
steps:
  - name: Both
    parallel:
      - {name: A, provider: claude, prompt: Go., workspace: worktree, allowed_tools: [Bash]}
      - {name: B, provider: claude, prompt: Go., workspace: worktree, allowed_tools: [Bash]}
  - {name: Take, command: [git, apply, "${run.artifacts}/${steps.A.diff}"]}
"""
    # Not by turns: whoever is faster would be served twice.
    more = Calls("Bash", {"command": "echo more >> a.txt"})
    turns: list[Turn] = [
        Decides(lambda asked: Says("done") if "tool_result" in str(asked.body["messages"]) else more)
    ]
    runs.run(workflow, turns)
    for name in ("A", "B"):
        told = (runs.folder / f"runs/r/artifacts/diffs/Both~{name}.1.diff").read_text()
        assert told.count("+more\n") == 1
    assert (runs.folder / "a.txt").read_text() == "one\nmore\n"
