"""On the host of a run of Temporal its directory shows the run, although no driver is there."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services import temporal
from services.temporal import TemporalServer
from tests.servers import need

SECONDS = 100.0
PODIUM = str(Path(sys.executable).with_name("podium"))
WORKFLOW = """
version: "2.0"
name: hello
steps:
  - name: A
    command: [sh, -c, "echo one"]
  - name: Ask
    approval: {message: "Continue?"}
  - name: B
    command: [sh, -c, "echo two"]
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    found = need(lambda: temporal.share(tmp_path_factory.getbasetemp().parent))
    yield found
    found.stop()


def run_podium(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [PODIUM, *words], cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def state(folder: Path) -> dict[str, Any]:
    for file in folder.glob("runs/*/state.json"):
        found: dict[str, Any] = json.loads(file.read_text())
        return found
    return {}


def wait_for_status(folder: Path, status: str) -> None:
    until = time.monotonic() + SECONDS
    while state(folder).get("status") != status:
        assert time.monotonic() < until, state(folder)
        time.sleep(0.05)


@pytest.mark.rule("EN10")
def test_the_directory_of_a_run_shows_it_while_it_waits_and_when_it_has_ended(
    tmp_path: Path, server: TemporalServer
) -> None:
    (tmp_path / "w.yaml").write_text(WORKFLOW)
    at = ("--engine", "temporal", "--address", server.address)
    worker = subprocess.Popen([PODIUM, "worker", *at], cwd=tmp_path)
    try:
        running = subprocess.Popen([PODIUM, "run", "w.yaml", *at, "--run-id", "files-1"], cwd=tmp_path)
        wait_for_status(tmp_path, "waiting")
        lines = (tmp_path / "runs/files-1/logs/events.jsonl").read_text().splitlines()
        assert [json.loads(line)["eventType"] for line in lines][-2:] == ["StepCompleted", "StepStarted"]
        run_podium(tmp_path, "approve", "files-1", "Ask")
        assert running.wait(SECONDS) == 0
        wait_for_status(tmp_path, "completed")
        events = run_podium(tmp_path, "events", "files-1", "--json").splitlines()
        assert (tmp_path / "runs/files-1/logs/events.jsonl").read_text().splitlines() == events
    finally:
        worker.terminate()
        worker.wait(SECONDS)
