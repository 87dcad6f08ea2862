"""`runs list` and `runs show` say about an open run what `podium why` says."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.podium import Place, ended, until

PAYS = """
steps:
  - {name: Pay, command: [sh, -c, "touch begun; sleep 60"], idempotent: false}
"""
SHARES = """
concurrency: {key: production, limit: 1}
steps: [{name: A, command: [sh, -c, "touch begun-$PODIUM_RUN_ID; until test -e go; do sleep 0.02; done"]}]
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def views(place: Place, run_id: str) -> dict[str, str]:
    commands = (("why", run_id), ("runs", "list"), ("runs", "show", run_id))
    return {" ".join(command[:2]): place.run(*command).stdout for command in commands}


@pytest.mark.rule("G13")
def test_a_step_in_doubt_is_shown_as_such_by_every_view(place: Place) -> None:
    place.write(PAYS)
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until((place.folder / "begun").exists, 60)
    process.kill()
    ended(process)
    place.run("resume", place.run_id, "--no-wait", "--quiet", code=5)
    for view, shown in views(place, place.run_id).items():
        assert "(IN_DOUBT)" in shown, view
        assert "step 'Pay' was interrupted, and it is not known whether it happened" in shown, view
    shown = place.run("runs", "show", place.run_id).stdout
    (row,) = [line for line in shown.splitlines() if line.startswith("Pay ")]
    assert "IN_DOUBT" in row
    assert "interrupted; it is not known whether it happened" in row
    assert f"podium skip-step {place.run_id} Pay" in shown
    document = json.loads(place.run("runs", "show", place.run_id, "--json").stdout)
    assert document["summary"]["substatus"] == "IN_DOUBT"
    assert [one["kind"] for one in document["waitsFor"]] == ["doubt"]
    assert document["steps"][0]["newest"]["error"]["code"] == "INTERRUPTED"
    (listed,) = json.loads(place.run("runs", "list", "--json").stdout)["runs"]
    assert listed["substatus"] == "IN_DOUBT"


def started(place: Place, run_id: str) -> "subprocess.Popen[str]":
    process = place.begin("run", "w.yaml", "--run-id", run_id, "--quiet")
    until((place.folder / f"begun-{run_id}").exists, 60)
    return process


@pytest.mark.rule("OP04", "G47")
@pytest.mark.parametrize("was_started", [False, True])
def test_a_run_that_waits_for_a_slot_is_shown_as_such_by_every_view(place: Place, was_started: bool) -> None:
    place.write(SHARES)
    holder, waiter = f"{place.run_id}-1", f"{place.run_id}-2"
    if was_started:
        dies = started(place, waiter)
        dies.kill()
        ended(dies)
    holds = started(place, holder)
    arguments = ("resume", waiter) if was_started else ("run", "w.yaml", "--run-id", waiter)
    waits = place.begin(*arguments, "--quiet")
    try:
        text = f"waiting for concurrency key 'production': place 1 of 1, held by run {holder}"
        until(lambda: waiter in place.run("runs", "list").stdout, 60)
        until(lambda: text in place.run("why", waiter).stdout, 60)
        for view, shown in views(place, waiter).items():
            assert text in shown, view
            assert "no process" not in shown, view
        document = json.loads(place.run("runs", "show", waiter, "--json").stdout)
        assert document["driver"]["waitsFor"] == text
    finally:
        (place.folder / "go").touch()
        ended(holds, 60)
        code, _, err = ended(waits, 60)
    assert code == 0, err


def test_a_process_that_waited_for_a_slot_and_was_killed_is_not_shown_as_waiting(place: Place) -> None:
    place.write(SHARES)
    holder, waiter = f"{place.run_id}-1", f"{place.run_id}-2"
    holds = started(place, holder)
    waits = place.begin("run", "w.yaml", "--run-id", waiter, "--quiet", env={"PODIUM_LEASE": "600"})
    try:
        until(lambda: waiter in place.run("runs", "list").stdout, 60)
        until(lambda: "waiting for concurrency key" in place.run("why", waiter).stdout, 60)
        waits.kill()
        ended(waits)
        for view, shown in views(place, waiter).items():
            assert "waiting for concurrency key" not in shown, view
        assert "no process has started it" in place.run("why", waiter).stdout
    finally:
        (place.folder / "go").touch()
        ended(holds, 60)


def test_a_step_whose_driver_was_killed_is_not_said_to_run(place: Place) -> None:
    place.write("steps: [{name: A b, command: [sh, -c, 'touch begun; sleep 60']}]")
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until((place.folder / "begun").exists, 60)
    process.kill()
    ended(process)
    shown = place.run("why", place.run_id).stdout
    assert "is running\n" not in shown
    assert "step 'A b' was running when the driver of the run ended; no process drives the run" in shown
    assert f"podium resume {place.run_id}  " in shown
    (reason,) = json.loads(place.run("why", place.run_id, "--json").stdout)["waitsFor"]
    assert reason["kind"] == "task"
    assert reason["commands"][0]["command"] == f"podium resume {place.run_id}"
