"""The examples with real agents: claude, codex and gemini in a box without a network, and models that are scripted.

Run as a program (`python -m tests.agents.example_runs`) this makes the recordings in `examples/recordings` anew; that
is needed when a prompt or a setting of theirs has changed.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from services import agents
from tests.acceptance.podium import Place
from tests.agents.box import Box
from tests.agents.servers import Calls, ModelServer, Says, Turn

ROOT = Path(__file__).parents[2]
PROGRAMS = ("claude", "codex", "gemini")
KEY = "sk-scripted-0123456789"


def _verdict(*, approved: bool, remarks: str) -> dict[str, object]:
    return {"approved": approved, "remarks": remarks}


def _mending(folder: Path, old: str, new: str, said: str) -> list[Turn]:
    file = str(folder / "build/till/till.py")
    edit = {"file_path": file, "old_string": old, "new_string": new}
    return [Calls("Read", {"file_path": file}), Calls("Edit", edit), Says(said)]


def turns_of(name: str, folder: Path) -> Mapping[str, Sequence[Turn]]:
    """What the model of each program says in an example that runs in this folder."""
    match name:
        case "review_loop":
            first = _verdict(approved=False, remarks="It does not say what is new: name the CSV export.")
            second = _verdict(approved=True, remarks="none")
            return {
                "claude": [
                    Says("Version 1.4.0 is here, and it is better than ever."),
                    Calls("StructuredOutput", first),
                    Says("Version 1.4.0 exports reports as CSV."),
                    Calls("StructuredOutput", second),
                ]
            }
        case "fan_out_review":
            fine = _verdict(approved=True, remarks="none")
            doubt = _verdict(approved=False, remarks="I would like to see a test.")
            return {
                "claude": [Calls("StructuredOutput", fine)],
                "codex": [Says(json.dumps(doubt))],
                "gemini": [Says(json.dumps(fine))],
            }
        case _:
            return {
                "claude": [
                    *_mending(
                        folder, "sum(prices[1:])", "sum(prices)", "The total left the first price out."
                    ),
                    *_mending(
                        folder,
                        "cents - cents * percent",
                        "cents - cents * percent // 100",
                        "The discount took a percentage for a fraction.",
                    ),
                ]
            }


class ExampleRuns(Place):
    """A copy of the examples to run, and a home for the programs."""

    def __init__(self, folder: Path, box: Box, words: Callable[[str], list[str]]) -> None:
        workspace = folder / "work"
        shutil.copytree(ROOT / "examples", workspace / "examples")
        super().__init__(workspace)
        self._box = box
        self._home = folder / "home"
        self._programs = folder / "bin"
        for made in (self._home / ".gemini", self._home / ".codex", self._programs):
            made.mkdir(parents=True)
        settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"maxAttempts": 1}}
        (self._home / ".gemini/settings.json").write_text(json.dumps(settings))
        for name in PROGRAMS:
            command = " ".join(f"'{word}'" for word in box.inside(words(name)))
            program = self._programs / name
            program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            program.chmod(0o755)

    def record(self, name: str, folder: Path) -> None:
        with ExitStack() as stack:
            urls = {}
            for program, turns in turns_of(name, self.folder).items():
                server = ModelServer(turns, self._box.listen())
                urls[program] = stack.enter_context(server).url
            environment = {
                "PATH": f"{self._programs}:{os.environ['PATH']}",
                "HOME": str(self._home),
                "ANTHROPIC_BASE_URL": urls.get("claude", ""),
                "ANTHROPIC_API_KEY": KEY,
                "CLAUDE_CODE_MAX_RETRIES": "0",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "GOOGLE_GEMINI_BASE_URL": urls.get("gemini", ""),
                "GEMINI_API_KEY": KEY,
                "CODEX_API_KEY": KEY,
            }
            (self._home / ".codex/config.toml").write_text(_codex_settings(urls.get("codex", "")))
            self._run(name, "recorded", environment, "--record", str(folder))

    def replay(self, name: str, folder: Path) -> None:
        """Without the programs, their keys and their settings."""
        shutil.rmtree(self.folder / "build", ignore_errors=True)
        environment = {"PATH": os.environ["PATH"], "HOME": str(self._home / "nowhere")}
        self._run(name, "replayed", environment, "--replay", str(folder))

    def _run(self, name: str, run_id: str, environment: dict[str, str], *arguments: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "podium", "run", f"examples/{name}.yaml", "--run-id", run_id, *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, (done.stdout, done.stderr)


def _codex_settings(url: str) -> str:
    return (
        'model_provider = "scripted"\n[model_providers.scripted]\nname = "scripted"\n'
        f'base_url = "{url}/v1"\nenv_key = "CODEX_API_KEY"\nwire_api = "responses"\n'
        "request_max_retries = 0\nstream_max_retries = 0\n"
    )


def record_all() -> None:
    with Box() as box:
        for name in ("review_loop", "fan_out_review", "fix_the_tests"):
            with TemporaryDirectory() as folder:
                ExampleRuns(Path(folder), box, agents.find).record(name, ROOT / "examples/recordings" / name)


if __name__ == "__main__":
    record_all()
