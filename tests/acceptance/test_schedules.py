"""Schedules on the command line: added, ticked by workers that are killed, and looked at."""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.podium import Place

WORKFLOW = """\
version: 2.0
name: nightly
inputs:
  at: {type: string, default: ""}
steps:
  - name: say
    set: {at: "${inputs.at}"}
"""
LIMIT = 60.0


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.environment["PODIUM_LEASE"] = "2"
    place.write(WORKFLOW)
    return place


def worker(place: Place) -> "subprocess.Popen[str]":
    process = place.begin("worker", "--engine", "local", "--pool", "default", "--drain", "1")
    assert process.stdout is not None
    assert "ready" in process.stdout.readline()
    return process


def show(place: Place, schedule_id: str = "s") -> Any:
    return json.loads(place.run("schedule", "show", schedule_id, "--ticks", "1000", "--json").stdout)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.3)


def test_workers_that_are_killed_start_each_time_once(place: Place) -> None:
    place.run(
        "schedule",
        "add",
        "s",
        "w.yaml",
        "--every",
        "1s",
        "--overlap",
        "allow",
        "--input",
        "at=${schedule.time}",
    )
    for _ in range(2):
        workers = [worker(place), worker(place)]
        seen = len(show(place)["ticks"])
        until(lambda seen=seen: len(show(place)["ticks"]) >= seen + 3)  # type: ignore[misc]
        for process in workers:
            process.kill()
            process.communicate(timeout=LIMIT)
    place.run("schedule", "pause", "s", "--reason", "enough")
    ticks = show(place)["ticks"]
    times = [tick["time"] for tick in ticks]
    assert len(times) == len(set(times))
    assert {tick["outcome"] for tick in ticks} == {"started"}
    runs = json.loads(place.run("runs", "list", "--limit", "1000", "--json").stdout)["runs"]
    assert len(runs) == len(ticks)


def test_a_schedule_is_steered_from_the_command_line(place: Place) -> None:
    added = place.run("schedule", "add", "s", "w.yaml", "--cron", "30 2 * * *", "--timezone", "Europe/Berlin")
    assert "At 02:30 every day (Europe/Berlin)" in added.stdout
    assert "SCHEDULE_EXISTS" in place.run("schedule", "add", "s", "w.yaml", "--every", "1h", code=64).stderr
    place.run("schedule", "add", "s", "w.yaml", "--every", "1h", "--start", "2026-01-01", "--replace")
    place.run("schedule", "pause", "s", "--reason", "night")
    assert show(place)["pause"]["reason"] == "night"
    assert "paused" in place.run("schedule", "list").stdout
    place.run("schedule", "resume", "s")
    run_id = json.loads(place.run("schedule", "trigger", "s", "--json").stdout)["run"]
    assert [tick["runId"] for tick in show(place)["ticks"]] == [run_id]
    preview = place.run(
        "schedule", "backfill", "s", "--from", "2026-01-01", "--to", "2026-01-02", "--preview"
    )
    assert "24 times; nothing was started" in preview.stdout
    place.run("schedule", "backfill", "s", "--from", "2026-01-01", "--to", "2026-01-02", "--concurrency", "4")
    assert show(place)["backfill"]["concurrency"] == 4
    place.run("schedule", "backfill", "s", "--stop")
    assert show(place)["backfill"] is None
    place.run("schedule", "rm", "s")
    assert "SCHEDULE_NOT_FOUND" in place.run("schedule", "show", "s", code=64).stderr


def test_a_backfill_is_carried_out_by_a_worker(place: Place) -> None:
    place.run("schedule", "add", "s", "w.yaml", "--every", "1h", "--start", "2026-01-01")
    place.run(
        "schedule",
        "backfill",
        "s",
        "--from",
        "2026-01-01",
        "--to",
        "2026-01-01T05:00:00Z",
        "--concurrency",
        "2",
    )
    process = worker(place)
    try:
        until(lambda: show(place)["backfill"] is None)
    finally:
        process.terminate()
        process.communicate(timeout=LIMIT)
    assert sorted(tick["time"][11:13] for tick in show(place)["ticks"]) == ["00", "01", "02", "03", "04"]


def test_what_is_wrong_is_said_with_its_place_and_nothing_is_stored(place: Place) -> None:
    for arguments, message in (
        (("--cron", "30 25 * * *"), "cron, character 4: '25' is not a valid hour"),
        (("--every", "soon"), "'soon' is not a duration"),
        (("--at", "tomorrow"), "'tomorrow' is not a time"),
        (("--every", "1h", "--cron", "* * * * *"), "give one of --cron, --every and --at"),
        (("--every", "1h", "--timezone", "UTC+1"), "--timezone is for --cron"),
        (("--every", "1h", "--input", "at=${schedule.tim}"), "inputs.at, character 1"),
        (("--every", "1h", "--input", "what=1"), "unknown input 'what'"),
    ):
        assert message in place.run("schedule", "add", "s", "w.yaml", *arguments, code=64).stderr
    preview = place.run("schedule", "add", "s", "w.yaml", "--every", "1h", "--preview", "--json")
    assert len(json.loads(preview.stdout)["nextTimes"]) == 10
    assert json.loads(place.run("schedule", "list", "--json").stdout) == []
