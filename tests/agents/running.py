"""Whole runs with real agents: `podium run` as a process, programs in a box without a network, scripted servers."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from tests.agents.box import Box
from tests.agents.servers import Asked, ModelServer, Turn

KEY: Final = "sk-fake-0123456789abcdef"
PROGRAMS: Final = ("claude", "codex", "gemini")
MODELS: Final = {"claude": "sonnet", "codex": "gpt-5.1", "gemini": "gemini-2.5-pro"}
_CODEX: Final = """
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "CODEX_API_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"""
_GEMINI: Final = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"maxAttempts": 1}}


@dataclass
class Served:
    """The model servers of a run, by who asks them."""

    servers: dict[str, ModelServer] = field(default_factory=dict)

    def asked(self, who: str) -> list[Asked]:
        return self.servers[who].asked


class Runs:
    """A folder, a home and the programs on PATH. A server is reached by whoever it was scripted for."""

    def __init__(self, folder: Path, box: Box, words: Callable[[str], list[str]] | None) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.run_id = f"r-{uuid4().hex[:12]}"
        self._box = box
        for place in (folder / "bin", self.home / ".codex", self.home / ".gemini"):
            place.mkdir(parents=True)
        (self.home / ".gemini" / "settings.json").write_text(json.dumps(_GEMINI))
        for name in PROGRAMS if words is not None else ():
            assert words is not None
            program = folder / "bin" / name
            command = " ".join(f"'{word}'" for word in box.inside(words(name)))
            program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            program.chmod(0o755)

    @property
    def path(self) -> Path:
        return self.folder / "runs" / self.run_id

    def environment(self, served: Served) -> dict[str, str]:
        urls = {name: server.url for name, server in served.servers.items()}
        if "codex" in urls:
            (self.home / ".codex" / "config.toml").write_text(_CODEX.format(url=urls["codex"]))
        messages = urls.get("claude") or urls.get("anthropic") or ""
        return {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "ANTHROPIC_BASE_URL": messages,
            "ANTHROPIC_API_KEY": KEY,
            "OPENAI_BASE_URL": f"{urls['openai']}/v1"
            if "openai" in urls
            else urls.get("chat", "") + "/v1/chat/completions",
            "OPENAI_API_KEY": KEY,
            "GOOGLE_GEMINI_BASE_URL": urls.get("gemini", ""),
            "GEMINI_API_KEY": KEY,
            "CODEX_API_KEY": KEY,
            "CLAUDE_CODE_MAX_RETRIES": "0",
            # In the box everybody is root.
            "IS_SANDBOX": "1",
        }

    @contextmanager
    def serving(self, turns: Mapping[str, Sequence[Turn]]) -> Iterator[Served]:
        with ExitStack() as stack:
            served = Served()
            for name, said in turns.items():
                # Programs live in the box; what asks over HTTP itself is Podium, which does not.
                listening = self._box.listen() if name in PROGRAMS else None
                served.servers[name] = stack.enter_context(ModelServer(said, listening))
            yield served

    @contextmanager
    def begun(
        self, workflow: str, turns: Mapping[str, Sequence[Turn]]
    ) -> "Iterator[tuple[subprocess.Popen[str], Served]]":
        """A run that is under way."""
        (self.folder / "w.yaml").write_text(f'version: "2.0"\nname: agents\n{workflow}')
        with self.serving(turns) as served:
            process = subprocess.Popen(
                [sys.executable, "-m", "podium", "run", "w.yaml", "--run-id", self.run_id],
                cwd=self.folder,
                env=self.environment(served),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            try:
                yield process, served
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGKILL)
                    process.communicate()

    def run(self, workflow: str, turns: Mapping[str, Sequence[Turn]], code: int = 0) -> Served:
        with self.begun(workflow, turns) as (process, served):
            out, err = process.communicate(timeout=150)
            assert process.returncode == code, (out, err)
            self.printed = out + err
            return served

    def podium(self, *arguments: str) -> bytes:
        """What a command prints about the run, byte for byte."""
        return subprocess.run(
            [sys.executable, "-m", "podium", *arguments],
            cwd=self.folder,
            capture_output=True,
            check=True,
            timeout=100,
        ).stdout

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads((self.path / "state.json").read_bytes())
        return state

    def step(self, name: str) -> dict[str, Any]:
        step: dict[str, Any] = self.state()["steps"][name]
        return step

    def ends(self, step: str) -> list[dict[str, Any]]:
        """How its attempts ended, as the log has it, in their order."""
        events = map(json.loads, (self.path / "logs/events.jsonl").read_bytes().splitlines())
        return [
            one["payload"]
            for one in events
            if one["eventType"] in ("StepCompleted", "StepFailed") and one.get("stepId") == step
        ]

    def codes(self, step: str) -> list[str | None]:
        """The codes of the errors that its attempts ended with; None for one that ended well."""
        return [one.get("error", {}).get("code") for one in self.ends(step)]

    def processes(self) -> list[int]:
        """Every process that carries the run in its environment and is not over."""
        wanted = f"PODIUM_RUN_DIR={self.path}".encode()
        return [pid for pid in _processes() if wanted in _environment_of(pid)]

    def files(self) -> list[Path]:
        return [path for path in (self.folder / "runs").rglob("*") if path.is_file()]


def _processes() -> list[int]:
    return [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()]


def _environment_of(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
