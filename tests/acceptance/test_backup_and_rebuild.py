"""What is left of a run is enough: a backup, an export, its directory without the store, the store without it."""

import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.podium import Place, ended, until
from tests.acceptance.test_crash_and_resume import forget_contents

WAITS = """
inputs:
  text: {type: string}
steps:
  - {name: Large, command: [seq, "60000"], capture: lines}
  - {name: Keep, command: [echo, kept], output_file: kept.txt}
  - name: Loop
    for_each: {items: [1, 2], steps: [{name: In, command: [sh, -c, "echo in >> story"]}]}
  - {name: Ask, approval: {message: Ship it?}}
  - {name: Last, command: [touch, last], when: {expr: "${steps.Large.lines[59999]} == 60000"}}
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    folder = tmp_path / "here"
    folder.mkdir()
    return Place(folder)


@pytest.fixture
def waiting(place: Place) -> Place:
    """A run with large inputs, spilled values and a finished loop, which waits for an approval."""
    place.write(WAITS)
    (place.folder / "inputs.json").write_text(json.dumps({"text": "x" * 300_000}))
    place.run("run", "w.yaml", "--run-id", place.run_id, "--input-file", "inputs.json", "--no-wait", code=5)
    return place


def other(place: Place) -> Place:
    """Another machine: another folder, and nothing of the run in it."""
    folder = place.folder.parent / "there"
    folder.mkdir()
    there = Place(folder)
    there.run_id = place.run_id
    return there


def finishes(there: Place) -> None:
    there.run("approve", there.run_id, "Ask")
    there.run("resume", there.run_id, "--quiet")
    assert there.state()["status"] == "completed"
    workspace = there.folder.parent / "here"
    assert (workspace / "last").exists()
    assert (workspace / "story").read_text() == "in\nin\n"  # done before, and not again


@pytest.mark.rule("G48")
def test_a_backup_continues_elsewhere(waiting: Place) -> None:
    there = other(waiting)
    there.runs.mkdir()
    waiting.run("store", "backup", str(there.runs / "podium.db"))
    told = there.run("logs", there.run_id).stderr
    assert "was missing and is rebuilt from the store" in told
    assert "artifacts/kept.txt" in told
    for name in (
        "plan.json",
        "workflow.yaml",
        "state.json",
        "run.json",
        "logs/events.jsonl",
        "logs/workflow.jsonl",
    ):
        assert there.file(name).exists(), name
    assert there.file("logs/events.jsonl").read_bytes() == waiting.file("logs/events.jsonl").read_bytes()
    finishes(there)


@pytest.mark.rule("G19")
def test_what_is_asked_about_a_run_and_of_it_needs_no_run_directory_and_makes_none(waiting: Place) -> None:
    there = other(waiting)
    there.runs.mkdir()
    waiting.run("store", "backup", str(there.runs / "podium.db"))
    assert "step 'Ask' waits for a person" in there.run("why", there.run_id).stdout
    refused = there.run("approve", there.run_id, "First", code=64).stderr
    assert "SIGNAL_IGNORED" in refused
    there.run("skip-step", there.run_id, "No such step", code=64)
    there.run("approve", there.run_id, "Ask")
    assert "SIGNAL_IGNORED" in there.run("approve", there.run_id, "Ask", code=64).stderr
    assert not (there.runs / there.run_id).exists()


@pytest.mark.rule("G19")
def test_a_signal_about_a_step_is_refused_if_the_plan_it_has_to_be_checked_with_is_lost(
    waiting: Place,
) -> None:
    forget_contents(waiting.runs / "podium.db")
    waiting.file("plan.json").unlink()
    for command in (("approve", "Ask"), ("retry-step", "Ask"), ("skip-step", "Ask")):
        refused = waiting.run(command[0], waiting.run_id, command[1], code=65).stderr
        assert "PLAN_MISSING" in refused
    assert '"SignalAccepted"' not in waiting.run("events", waiting.run_id, "--json").stdout


@pytest.mark.rule("G48")
def test_an_export_continues_elsewhere(waiting: Place) -> None:
    there = other(waiting)
    waiting.run("export", waiting.run_id, "-o", str(there.folder / "run.jsonl"))
    there.run("import", "run.jsonl")
    there.run("approve", there.run_id, "Ask")
    told = there.run("resume", there.run_id, "--quiet").stderr
    assert "artifacts/kept.txt" in told
    assert there.state()["status"] == "completed"


def test_a_run_of_an_earlier_version_is_exported_with_its_plan_and_values(waiting: Place) -> None:
    forget_contents(waiting.runs / "podium.db")
    there = other(waiting)
    waiting.run("export", waiting.run_id, "-o", str(there.folder / "run.jsonl"))
    there.run("import", "run.jsonl")
    finishes(there)


def test_a_run_of_an_earlier_version_is_in_a_backup_with_its_plan_and_values(waiting: Place) -> None:
    forget_contents(waiting.runs / "podium.db")
    there = other(waiting)
    there.runs.mkdir()
    waiting.run("store", "backup", str(there.runs / "podium.db"))
    finishes(there)


def test_a_run_of_an_earlier_version_continues_and_is_in_the_store_then(waiting: Place) -> None:
    forget_contents(waiting.runs / "podium.db")
    waiting.run("approve", waiting.run_id, "Ask")
    waiting.run("resume", waiting.run_id, "--quiet")
    assert waiting.state()["status"] == "completed"
    shutil.rmtree(waiting.runs / waiting.run_id)
    waiting.run("logs", waiting.run_id)
    assert waiting.state()["status"] == "completed"


def test_a_lost_store_is_rebuilt_from_run_directories(waiting: Place) -> None:
    for file in waiting.runs.glob("podium.db*"):
        file.unlink()
    assert "podium store rebuild" in waiting.run("resume", waiting.run_id, code=64).stderr
    told = waiting.run("run", "w.yaml", "--run-id", waiting.run_id, "--input", "text=a", code=64).stderr
    assert "RUN_EXISTS" in told
    assert "podium store rebuild" in told
    rebuilt = json.loads(waiting.run("store", "rebuild", "--json").stdout)
    assert [(one["run_id"], one["status"], one["rebuilt"], one["notes"]) for one in rebuilt] == [
        (waiting.run_id, "RUNNING", True, [])
    ]
    assert "STORE_EXISTS" in waiting.run("store", "rebuild", code=64).stderr
    assert "the store is sound" in waiting.run("store", "check").stdout
    finishes(waiting)


def test_a_torn_log_is_rebuilt_up_to_its_last_whole_line_and_that_is_told(waiting: Place) -> None:
    for file in waiting.runs.glob("podium.db*"):
        file.unlink()
    log = waiting.file("logs/events.jsonl")
    log.write_bytes(log.read_bytes()[:-20])
    (waiting.runs / "broken" / "logs").mkdir(parents=True)
    (waiting.runs / "broken" / "logs" / "events.jsonl").write_text("nonsense\n")
    told = waiting.run("store", "rebuild", code=1).stdout
    assert "partial: the last line is torn" in told
    assert "broken: not rebuilt" in told
    assert "1 of 2 runs rebuilt" in told
    waiting.run("resume", waiting.run_id, "--no-wait", code=5)
    finishes(waiting)


def test_a_damaged_content_is_an_error_with_a_code(waiting: Place) -> None:
    with sqlite3.connect(waiting.runs / "podium.db") as database:
        database.execute(
            "UPDATE contents SET content = x'00' WHERE number IN (SELECT content FROM kept_contents "
            "WHERE name LIKE 'values/%')"
        )
    assert "CONTENT_DAMAGED" in waiting.run("resume", waiting.run_id, "--no-wait", code=65).stderr
    assert "SHA-256" in waiting.run("store", "check", code=1).stderr


# --- one id, two workflows ------------------------------------------------------------------------

_RACE = """
import sys
from pathlib import Path
import podium.stores.sqlite.store as store
from podium.cli.app import run
create = store.SqliteStore.create_run
async def slow(self, *given):
    Path(sys.argv[1]).touch()
    while not Path(sys.argv[2]).exists():
        import asyncio
        await asyncio.sleep(0.01)
    return await create(self, *given)
store.SqliteStore.create_run = slow
sys.exit(run(sys.argv[3:]))
"""


@pytest.mark.parametrize("same", [True, False], ids=["same-workflow", "other-workflow"])
def test_of_two_that_create_one_run_the_loser_touches_nothing(place: Place, same: bool) -> None:
    """The loser has looked, found the id free, and is overtaken before it creates the run."""
    place.write("steps: [{name: A, command: ['true']}]")
    place.write(
        "steps: [{name: B, command: ['false']}]" if not same else "steps: [{name: A, command: ['true']}]",
        "b.yaml",
    )
    arguments = ["ready", "go", "run", "b.yaml", "--run-id", place.run_id, "--quiet"]
    loser = subprocess.Popen(
        [sys.executable, "-c", _RACE, *arguments],
        cwd=place.folder,
        env=place.environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    until((place.folder / "ready").exists)
    place.run("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    before = {file: file.read_bytes() for file in place.file(".").rglob("*") if file.is_file()}
    (place.folder / "go").touch()
    code, _, err = ended(loser)
    assert (code, "RUN_EXISTS" in err) == (64, True), err
    assert {file: file.read_bytes() for file in place.file(".").rglob("*") if file.is_file()} == before
    assert b'"A"' in place.file("plan.json").read_bytes()


def test_a_run_that_was_created_and_has_no_directory_yet_resumes(place: Place) -> None:
    place.write("steps: [{name: A, command: [touch, done]}]")
    place.run("run", "w.yaml", "--run-id", "first", "--quiet")
    script = (
        "import os, sys; from podium.runtime import rundir; rundir.RunDirectory.make = lambda self: os._exit(9)\n"
        "from podium.cli.app import run; sys.exit(run(sys.argv[1:]))"
    )
    arguments = ["run", "w.yaml", "--run-id", place.run_id]
    (place.folder / "done").unlink()
    killed = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=place.folder, env=place.environment, check=False
    )
    assert killed.returncode == 9
    assert not place.file("plan.json").exists()
    assert "RUN_EXISTS" in place.run(*arguments, code=64).stderr
    place.run("resume", place.run_id, "--quiet")
    assert (place.folder / "done").exists()
    assert place.file("workflow.yaml").read_bytes() == (place.folder / "w.yaml").read_bytes()
