"""Two engines and one run: whoever lost it cannot write, says so, and does no harm."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from podium.stores.sqlite.lock import FileLock
from tests.acceptance.podium import Place, ended, until

SHORT = {"PODIUM_LEASE": "1", "PODIUM_LOCK_WAIT": "6"}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def freeze(place: Place, process: "subprocess.Popen[str]") -> None:
    """Stop a process, but not in the middle of a write: SQLite's one writer would keep everybody waiting with it."""
    lock = FileLock(place.runs / "podium.db.lock")
    while True:
        os.kill(process.pid, signal.SIGSTOP)
        if lock.try_take():
            lock.close()
            return
        os.kill(process.pid, signal.SIGCONT)
        time.sleep(0.01)


LONG = """
steps:
  - {name: A, command: [sh, -c, "echo A >> story; sleep 0.3"]}
  - {name: B, command: [sh, -c, "echo B >> story; test -f go || sleep 60"]}
  - {name: C, command: [sh, -c, "echo C >> story"]}
"""


@pytest.mark.rule("D32", "G45")
def test_an_engine_frozen_past_its_lease_cannot_write_when_it_wakes(place: Place) -> None:
    place.write(LONG)
    story = place.folder / "story"
    frozen = place.begin("run", "w.yaml", "--run-id", place.run_id, env=SHORT)
    until(lambda: story.exists() and story.read_text().endswith("B\n"))
    freeze(place, frozen)
    try:
        (place.folder / "go").touch()
        # The other one waits until the lease has lapsed, not longer, though the lock is still held.
        code, out, err = ended(place.begin("resume", place.run_id, env=SHORT))
        assert code == 0, (out, err)
        log = place.events()
        before = place.file("state.json").read_bytes()
    finally:
        os.kill(frozen.pid, signal.SIGCONT)
    code, out, err = ended(frozen)
    assert code == 75, (out, err)
    assert "STALE_FENCE" in err
    assert place.events() == log, "nothing was written by the one that had lost its lease"
    assert json.loads(before)["status"] == place.state()["status"] == "completed"
    ends = [(e["stepId"], e["logicalAttemptId"]) for e in log if e["eventType"] == "StepCompleted"]
    assert ends == [("A", 1), ("B", 1), ("C", 1)], "no step completes twice"
    assert story.read_text().split() == ["A", "B", "B", "C"]
    assert not place.processes()
    assert not place.file(".lock").exists()


@pytest.mark.rule("D31", "D32")
def test_a_run_whose_driver_is_frozen_past_its_lease_continues_with_another_workflow(place: Place) -> None:
    place.write(LONG)
    place.write(LONG.replace("echo B >> story; test -f go || sleep 60", "echo other >> story"), "other.yaml")
    story = place.folder / "story"
    frozen = place.begin("run", "w.yaml", "--run-id", place.run_id, env=SHORT)
    until(lambda: story.exists() and story.read_text().endswith("B\n"))
    freeze(place, frozen)
    try:
        code, out, err = ended(place.begin("resume", place.run_id, "--workflow", "other.yaml", env=SHORT))
        assert code == 0, (out, err)
    finally:
        os.kill(frozen.pid, signal.SIGCONT)
    assert ended(frozen)[0] == 75
    assert story.read_text().split() == ["A", "B", "other", "C"]


@pytest.mark.rule("D31", "D32")
def test_a_run_whose_driver_is_frozen_within_its_lease_is_not_given_another_workflow(place: Place) -> None:
    place.write(LONG)
    story = place.folder / "story"
    frozen = place.begin("run", "w.yaml", "--run-id", place.run_id, env={"PODIUM_LEASE": "600"})
    until(lambda: story.exists() and story.read_text().endswith("B\n"))
    freeze(place, frozen)
    try:
        code, out, err = ended(place.begin("resume", place.run_id, "--workflow", "w.yaml"))
        assert code == 75, (out, err)
        assert f"process {frozen.pid}" in err
        assert "kill -CONT" in err, "it says what to do next"
    finally:
        os.kill(frozen.pid, signal.SIGCONT)
        (place.folder / "go").touch()
        place.run("cancel", place.run_id)
        ended(frozen)


@pytest.mark.rule("D32", "G45")
def test_an_engine_that_wakes_while_the_other_one_works_leaves_it_alone(place: Place) -> None:
    place.write(
        """
        steps:
          - {name: A, command: [sh, -c, "echo A >> story; test -f go || sleep 60"]}
          - {name: B, command: [sh, -c, "echo B >> story; until test -f on; do sleep 0.05; done"]}
          - {name: C, command: [sh, -c, "echo C >> story"]}
        """
    )
    story = place.folder / "story"
    frozen = place.begin("run", "w.yaml", "--run-id", place.run_id, env=SHORT)
    until(story.exists)
    freeze(place, frozen)
    (place.folder / "go").touch()
    second = place.begin("resume", place.run_id, env=SHORT)
    until(lambda: story.read_text().endswith("B\n"))
    os.kill(frozen.pid, signal.SIGCONT)
    code, _, err = ended(frozen)
    assert code == 75, err
    assert json.loads(place.file(".lock").read_text())["pid"] == second.pid, "the lock is the other one's"
    assert second.poll() is None
    (place.folder / "on").touch()
    code, _, err = ended(second)
    assert code == 0, err
    assert story.read_text().split() == ["A", "A", "B", "C"]
    assert place.state()["status"] == "completed"
    lines = [json.loads(line) for line in place.file("logs/events.jsonl").read_text().splitlines()]
    assert sorted({line["runSeq"] for line in lines}) == [event["runSeq"] for event in place.events()]


@pytest.mark.rule("D32", "D29")
def test_a_run_that_a_live_process_drives_is_locked(place: Place) -> None:
    place.write("steps: [{name: A, command: [sleep, '60']}]")
    process = place.begin("run", "w.yaml", "--run-id", place.run_id)
    until(place.processes)
    began = time.monotonic()
    done = place.run("resume", place.run_id, code=75, env={"PODIUM_LOCK_WAIT": "0.5"})
    assert time.monotonic() - began > 0.5
    assert "RUN_LOCKED" in done.stderr
    assert f"process {process.pid}" in done.stderr
    assert len(place.processes()) == 1, "what runs goes on"
    process.send_signal(signal.SIGINT)
    assert ended(process)[0] == 2


@pytest.mark.rule("D32", "R080")
@pytest.mark.parametrize("left", ["dead", "garbage", "another boot"])
def test_a_stale_lock_is_taken_over_at_once(place: Place, left: str) -> None:
    """With a lease of ten minutes: whoever waited for it to lapse would not come through here."""
    place.write("steps: [{name: A, command: [sh, -c, 'test -f go || sleep 60']}]")
    long = {"PODIUM_LEASE": "600"}
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, env=long)
    until(place.processes)
    if left == "garbage":
        # Somebody wrote into it while nobody held the run.
        process.send_signal(signal.SIGINT)
        assert ended(process)[0] == 2
        place.file(".lock").write_text("not JSON at all")
    else:
        process.kill()
        ended(process)
        held = json.loads(place.file(".lock").read_text())
        if left == "another boot":
            place.file(".lock").write_text(json.dumps({**held, "boot_id": "another", "pid": 1}))
    (place.folder / "go").touch()
    began = time.monotonic()
    place.run("resume", place.run_id, env=long)
    print(f"\ntaken over after {time.monotonic() - began:.2f} s")
    assert place.state()["status"] == "completed"
    assert not place.file(".lock").exists()


@pytest.mark.rule("D32")
def test_of_many_who_resume_at_once_one_drives(place: Place) -> None:
    place.write(
        "steps:\n"
        + "".join(f"  - {{name: S{n}, command: [sh, -c, 'echo S{n} >> story']}}\n" for n in range(8))
    )
    process = place.begin("run", "w.yaml", "--run-id", place.run_id)
    story = place.folder / "story"
    until(story.exists)
    process.kill()
    ended(process)
    several = [place.begin("resume", place.run_id, env={"PODIUM_LOCK_WAIT": "20"}) for _ in range(4)]
    codes = sorted(ended(one, 60)[0] for one in several)
    # The one that drove it; the others wanted to while it was open (75), or only looked when it had completed (64).
    assert codes[0] == 0
    assert set(codes[1:]) <= {64, 75}
    told = story.read_text().split()
    assert list(dict.fromkeys(told)) == [f"S{n}" for n in range(8)]
    assert len(told) <= 9


_DRIVE = """
import asyncio, sys
from podium.log.ids import RunId
from podium.wiring.engines import local_engine
from podium.wiring.stores import open_store, system_clock
from pathlib import Path
async def main():
    store = await open_store(sys.argv[1])
    engine = local_engine(store, system_clock(), Path(sys.argv[2]), lease=1, lock_wait=1)
    try:
        await engine.drive(RunId(sys.argv[3]))
    finally:
        await store.close()
asyncio.run(main())
"""


@pytest.mark.rule("G45")
def test_another_directory_does_not_get_round_the_lease(place: Place) -> None:
    """The lock is a file of one directory; the lease is in the store, for all."""
    place.write("steps: [{name: A, command: [sleep, '60']}]")
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, env={"PODIUM_LEASE": "600"})
    until(place.processes)
    other = place.folder / "other" / place.run_id
    other.mkdir(parents=True)
    (other / "plan.json").write_bytes(place.file("plan.json").read_bytes())
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            _DRIVE,
            str(place.runs / "podium.db"),
            str(place.folder / "other"),
            place.run_id,
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=place.environment,
    )
    assert f"is driven by process {process.pid} on" in done.stderr, done.stderr
    process.send_signal(signal.SIGINT)
    assert ended(process)[0] == 2
