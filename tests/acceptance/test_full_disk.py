"""A full disk behind the files of a run or behind standard output does not stop the run, and is said once."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.podium import PODIUM, Place

FLOW = """
steps:
  - {name: Fill, command: [sh, -c, "head -c 4000000 /dev/zero > small/fill 2>/dev/null; true"]}
  - {name: Work, command: [sleep, "0.6"]}
  - {name: Free, command: [sh, -c, "test FREE && rm -f small/fill; true"]}
  - {name: Last, command: [sleep, "0.6"]}
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Runs are kept on a disk of one megabyte, the store is not."""
    small = tmp_path / "small"
    small.mkdir()
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)]
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no small disk can be mounted here")
    place = Place(tmp_path)
    place.runs = small / "runs"
    yield place
    subprocess.run(["umount", "-l", str(small)], check=True)


def run(place: Place, text: str, *options: str) -> "subprocess.CompletedProcess[str]":
    place.write(text)
    where = ("--runs", str(place.runs), "--store", str(place.folder / "kept.db"))
    return place.run("run", "w.yaml", "--run-id", place.run_id, *where, *options)


@pytest.mark.parametrize("options", [(), ("-q",), ("--json",)])
def test_the_files_of_a_run_catch_up_when_there_is_room_again(place: Place, options: tuple[str, ...]) -> None:
    done = run(place, FLOW.replace("FREE", "1"), *options)
    said = done.stdout + done.stderr
    assert "Traceback" not in said
    assert said.count("state.json cannot be written (No space left on device); the run continues") == 1
    assert said.count("state.json is written again and complete") == 1
    assert place.state()["status"] == "completed"
    logged = [json.loads(line) for line in place.file("logs/events.jsonl").read_text().splitlines()]
    assert [event["runSeq"] for event in logged] == list(range(1, len(logged) + 1))
    assert logged[-1]["eventType"] == "RunCompleted"
    assert len(place.file("logs/workflow.jsonl").read_text().splitlines()) == len(logged)


def test_a_run_completes_on_a_disk_that_stays_full(place: Place) -> None:
    done = run(place, FLOW.replace("FREE", ""), "-q")
    assert "Traceback" not in done.stderr
    assert done.stderr.count("state.json cannot be written") == 1
    (place.folder / "small/fill").unlink()
    kept = str(place.folder / "kept.db")
    shown = place.run("events", place.run_id, "--json", "--store", kept).stdout.splitlines()
    assert json.loads(shown[-1])["eventType"] == "RunCompleted"


@pytest.mark.parametrize("options", [(), ("-q",), ("--json",), ("--stream",)])
def test_a_full_disk_behind_standard_output_does_not_stop_the_run(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    place = Place(tmp_path)
    place.write("steps: [{name: A, command: [echo, hi]}, {name: B, command: [sh, -c, 'exit 3']}]")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*PODIUM, "run", "w.yaml", "--run-id", place.run_id, *options],
            cwd=place.folder,
            env=place.environment,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("standard output cannot be written (No space left on device)") == 1
    assert place.state()["status"] == "failed"
