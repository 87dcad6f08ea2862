"""The examples run as they stand, with nothing but what is in the repository."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from services import podman, ssh
from tests.servers import need

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.yaml"))
# Those that need a person.
WAITING = ("release", "database_migration")
# Those that are refused where a program is missing.
PROGRAMS = {"restart_over_ssh": ssh.find, "test_in_container": podman.find}
# What a person sets before: a token for those that publish, CI for the one that deploys only there.
ENVIRONMENT = {
    "GITHUB_TOKEN": "any-text",
    "OPENAI_API_KEY": "any-text",
    "RELEASE_TOKEN": "any-text",
    "CI": "true",
}


def started(name: str, runs: Path, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "podium", "run", f"examples/{name}.yaml", "--run-id", "r"]
    return subprocess.Popen(
        [*command, "--runs", str(runs), *arguments],
        cwd=ROOT,
        env={**os.environ, **ENVIRONMENT},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.rule("R095", "R096", "R097", "R098", "R099")
@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in WAITING])
def test_an_example_runs_to_a_good_end(name: str, tmp_path: Path) -> None:
    if name in PROGRAMS:
        need(PROGRAMS[name])
    recording = f"examples/recordings/{name}"
    running = started(name, tmp_path, *(("--replay", recording) if (ROOT / recording).exists() else ()))
    printed, _ = running.communicate(timeout=90)
    assert running.returncode == 0, printed
    assert json.loads((tmp_path / "r/state.json").read_text())["status"] == "completed"


def test_three_examples_have_a_recording() -> None:
    kept = sorted(path.name for path in (ROOT / "examples/recordings").iterdir())
    assert kept == ["fan_out_review", "fix_the_tests", "review_loop"]


@pytest.mark.rule("G11")
def test_the_migration_waits_for_an_approval_of_its_plan(tmp_path: Path) -> None:
    running = started("database_migration", tmp_path)
    assert running.stdout is not None
    line = next(line for line in running.stdout if "podium approve" in line)
    approve = shlex.split(line.partition("it may start")[0])[1:]
    subprocess.run([sys.executable, "-m", "podium", *approve], check=True, cwd=ROOT, timeout=60)
    printed, _ = running.communicate(timeout=90)
    assert running.returncode == 0, printed
    assert "Migrate" in printed


def test_the_release_waits_for_a_person(tmp_path: Path) -> None:
    running = started("release", tmp_path, "--input", "version=1.4.0")
    assert running.stdout is not None
    for line in running.stdout:
        if "podium approve" in line:
            break
    store = str(tmp_path / "podium.db")
    approve = [
        sys.executable,
        "-m",
        "podium",
        "approve",
        "r",
        "--store",
        store,
        "--by",
        "me",
        "--field",
        "channel=stable",
    ]
    subprocess.run(approve, cwd=ROOT, check=True, capture_output=True)
    printed, _ = running.communicate(timeout=60)
    assert running.returncode == 0, printed
