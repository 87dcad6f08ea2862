"""A run outlives the processes that drive it: killed at any moment, it goes on and does nothing twice that is done."""

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.acceptance.podium import Place, ended, until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.rule("D31", "D60", "G13")
@pytest.mark.timeout(200)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_hundred_kills_at_random_moments_lose_nothing_and_repeat_only_what_was_under_way(
    seed: int, tmp_path: Path
) -> None:
    """`tests/torture/kills.py` says what is checked; `python -m tests.torture.kills` does it two thousand times."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.torture.kills", "--kills", "100", "--seed", str(seed)),
            *("--workers", "1", "--folder", str(tmp_path)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=190,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    told = re.search(r"(\d+) kills in (\d+) runs, (\d+) visits, (\d+) of them repeated", done.stdout)
    assert told is not None
    kills, runs, visits, repeated = map(int, told.groups())
    assert kills >= 100
    assert runs >= 5
    assert visits > 50
    assert repeated > 5, "the kills fell into the work"


HUNDRED = "steps:\n" + "".join(
    f"  - {{name: S{n}, command: [sh, -c, 'echo S{n} >> story']}}\n" for n in range(100)
)


@pytest.mark.rule("D31")
def test_a_killed_run_of_a_hundred_steps_goes_on_where_it_was(place: Place) -> None:
    place.write(HUNDRED)
    story = place.folder / "story"
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until(lambda: story.exists() and len(story.read_text().split()) >= 50)
    process.kill()
    ended(process)
    until(lambda: not place.processes(), 5)
    before = story.read_text().split()
    floor = min(_took([sys.executable, "-c", "pass"]) for _ in range(3))
    began = time.monotonic()
    resumed = place.begin("resume", place.run_id, "--quiet")
    until(lambda: len(story.read_text().split()) > len(before))
    took = time.monotonic() - began
    code, _, err = ended(resumed)
    assert code == 0, err
    print(
        f"\nresume of a 100-step run: first new step after {took:.2f} s; python -c pass takes {floor:.2f} s"
    )
    after = story.read_text().split()
    # The one under way when it was killed may stand there twice; nothing else does, and nothing is missing.
    assert list(dict.fromkeys(after)) == [f"S{n}" for n in range(100)]
    assert len(after) <= 101
    assert after[: len(before)] == before
    ends = [event for event in place.events() if event["eventType"] == "StepCompleted"]
    assert [event["stepId"] for event in ends] == [f"S{n}" for n in range(100)]
    assert sum(event["engineAttemptId"] > 1 for event in ends) == len(after) - 100 or len(after) == 100


def _took(command: list[str]) -> float:
    began = time.monotonic()
    subprocess.run(command, check=True)
    return time.monotonic() - began


@pytest.mark.rule("D60")
def test_children_of_a_killed_runner_are_stopped_before_their_visit_runs_again(place: Place) -> None:
    place.write(
        """
        steps:
          - name: A
            command: [sh, -c, "echo $$ >> pids; test $(wc -l < pids) -ge 2 || { setsid sleep 60 & sleep 60; }"]
        """
    )
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    pids = place.folder / "pids"
    until(lambda: pids.exists() and len(place.processes()) >= 3)
    orphans = place.processes()
    process.kill()
    ended(process)
    assert set(place.processes()) == set(orphans), "nobody stops them yet"
    code, _, err = ended(place.begin("resume", place.run_id, "--quiet"))
    assert code == 0, err
    assert not set(place.processes())
    assert not [pid for pid in orphans if _is_alive(pid)]


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.rule("D31")
@pytest.mark.parametrize(
    ("text", "code", "status"),
    [
        ("steps: [{name: A, command: ['true']}, {name: B, command: [test, -f, ok]}]", 1, "failed"),
        (
            "timeout: 4\nsteps: [{name: A, command: ['true']}, {name: B, command: [sh, -c, 'test -f ok || sleep 90']}]",
            3,
            "timeout",
        ),
    ],
)
def test_a_run_that_failed_or_timed_out_goes_on_with_what_caused_it(
    place: Place, text: str, code: int, status: str
) -> None:
    place.write(text)
    place.run("run", "w.yaml", "--run-id", place.run_id, code=code)
    assert place.state()["status"] == status
    (place.folder / "ok").touch()
    place.run("resume", place.run_id)
    state = place.state()
    assert (state["status"], state["exit_code"], state["error"]) == ("completed", 0, None)
    assert (state["steps"]["A"]["attempts"], state["steps"]["B"]["attempts"]) == (1, 2)
    assert "RUN_COMPLETED" in place.run("resume", place.run_id, code=64).stderr


@pytest.mark.rule("R071")
@pytest.mark.rule("D31")
def test_a_cancelled_run_goes_on(place: Place) -> None:
    place.write("steps: [{name: A, command: [sh, -c, 'test -f ok || sleep 60']}]")
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until(place.processes)
    process.send_signal(signal.SIGINT)
    assert ended(process)[0] == 2
    (place.folder / "ok").touch()
    place.run("resume", place.run_id)
    assert place.state()["status"] == "completed"


@pytest.mark.rule("D31")
def test_the_kept_plan_is_what_a_run_goes_on_with(place: Place) -> None:
    place.write("steps: [{name: A, command: ['false']}]")
    place.run("run", "w.yaml", "--run-id", place.run_id, code=1)
    place.write("steps: [{name: Other, command: ['true']}]")
    place.run("resume", place.run_id, code=1)
    assert set(place.state()["steps"]) == {"A"}
    plan = place.file("plan.json")
    plan.write_bytes(plan.read_bytes().replace(b"false", b"truer"))
    # The store has the plan; what stands in the directory is a copy for people.
    place.run("resume", place.run_id, code=1)
    assert set(place.state()["steps"]) == {"A"}
    # A run that an earlier version created has its plan in the directory only.
    forget_contents(place.runs / "podium.db")
    assert "PLAN_MISSING" in place.run("resume", place.run_id, code=65).stderr


def test_a_run_begun_under_other_rules_is_not_gone_on_with(place: Place) -> None:
    place.write("steps: [{name: A, command: [sh, -c, 'test -f go']}]")
    place.run("run", "w.yaml", "--run-id", place.run_id, "--quiet", code=1)
    with sqlite3.connect(place.runs / "podium.db") as database:
        database.execute(
            """UPDATE events SET payload =
            CAST(replace(CAST(payload AS TEXT), '"rulesVersion":', '"rulesVersion":9') AS BLOB)"""
        )
    (place.folder / "go").touch()
    before = len(place.events())
    told = place.run("resume", place.run_id, "--quiet", code=78).stderr
    assert "OTHER_RULES" in told
    assert f"podium rerun {place.run_id}" in told
    assert len(place.events()) == before


@pytest.mark.rule("G17")
def test_a_store_that_takes_nothing_more_is_told_and_nothing_goes_on_unrecorded(place: Place) -> None:
    """The database is held by somebody else for longer than the budget of a write."""
    place.write(
        """
        steps:
          - {name: A, command: [sh, -c, "touch begun; until test -f locked; do sleep 0.02; done"]}
          - {name: B, command: [touch, second]}
        """
    )
    process = place.begin(
        "run", "w.yaml", "--run-id", place.run_id, "--quiet", env={"PODIUM_STORE_OUTAGE": "1"}
    )
    until((place.folder / "begun").exists)
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(place.runs / "podium.db")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        (place.folder / "locked").touch()
        code, _, err = ended(process)
    finally:
        holder.kill()
        holder.communicate()
    assert code == 69, err
    assert "STORE_UNAVAILABLE" in err
    assert f"podium resume {place.run_id}" in err
    assert not (place.folder / "second").exists()
    assert not place.processes()
    assert [event["eventType"] for event in place.events()][-1] == "StepStarted"
    place.run("resume", place.run_id)
    assert place.state()["status"] == "completed"


_HOLD = """
import sys, time, apsw
from pathlib import Path
from podium.stores.sqlite.lock import FileLock
lock = FileLock(Path(sys.argv[1] + ".lock"))
lock.take()
db = apsw.Connection(sys.argv[1])
db.execute("BEGIN IMMEDIATE")
print("held", flush=True)
time.sleep(60)
"""


@pytest.mark.rule("G13")
def test_a_step_that_may_not_run_twice_is_asked_about(place: Place) -> None:
    place.write(
        """
        steps:
          - name: Pay
            command: [sh, -c, "echo paid >> paid; sleep 60"]
            idempotent: false
            on_doubt: ask
          - {name: B, command: ['true']}
        """
    )
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until((place.folder / "paid").exists)
    process.kill()
    ended(process)
    resumed = place.begin("resume", place.run_id, "--quiet")
    until(lambda: place.state()["status"] == "waiting")
    assert not place.processes(), "it is not repeated blindly"
    store = str(place.runs / "podium.db")
    place.run("approve", place.run_id, "--store", store)
    code, _, err = ended(resumed)
    assert code == 0, err
    assert (place.folder / "paid").read_text() == "paid\n"


def test_a_process_killed_while_it_writes_leaves_nothing_half_done_in_the_directory(place: Place) -> None:
    place.write("steps: [{name: A, command: [sleep, '60']}]")
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until(place.processes)
    process.kill()
    ended(process)
    for name in (".state.json.abc.podium-tmp",):
        place.file(name).write_text("{")
    with place.file("logs/events.jsonl").open("a") as file:
        file.write('{"runSeq": 3, "half')
    resumed = place.begin("resume", place.run_id, "--quiet")
    until(lambda: not place.file(".state.json.abc.podium-tmp").exists())
    resumed.send_signal(signal.SIGINT)
    assert ended(resumed)[0] == 2
    lines = [json.loads(line) for line in place.file("logs/events.jsonl").read_text().splitlines()]
    assert lines == place.events()


def test_an_interrupt_in_the_first_moment_of_a_resume_cancels_the_run(place: Place) -> None:
    place.write("steps: [{name: A, command: [sh, -c, 'echo A >> story; sleep 60']}]")
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until(place.processes)
    process.kill()
    ended(process)
    # A pipe in the place of the plan: the process has the run, and waits until it is told the plan.
    plan = place.file("plan.json")
    content = plan.read_bytes()
    plan.unlink()
    os.mkfifo(plan)
    forget_contents(place.runs / "podium.db")
    resumed = place.begin("resume", place.run_id, "--quiet")
    while True:
        pipe = until(lambda: _read_by_somebody(plan))
        plan.unlink()
        if _drives(place, resumed.pid):
            break
        # It only looks at what the run needs: an interrupt would change nothing yet.
        os.mkfifo(plan)
        os.write(pipe, content)
        os.close(pipe)
    resumed.send_signal(signal.SIGINT)
    plan.write_bytes(content)  # read once more, to be put into the store
    os.write(pipe, content)
    os.close(pipe)
    assert ended(resumed)[0] == 2
    assert place.state()["status"] == "cancelled"
    assert not place.processes()


def forget_contents(store: Path) -> None:
    """As a store that an earlier version has filled."""
    with sqlite3.connect(store) as database:
        database.execute("DELETE FROM kept_contents")
        database.execute("DELETE FROM contents")


def _drives(place: Place, pid: int) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return bool(json.loads(place.file(".lock").read_text()).get("pid") == pid)
    return False


def _read_by_somebody(pipe: Path) -> int | None:
    try:
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None  # nobody has opened it yet


def test_a_resume_that_is_stopped_while_it_waits_changes_nothing(place: Place) -> None:
    place.write("steps: [{name: A, command: [sleep, '60']}]")
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until(place.processes)
    waiting = place.begin("resume", place.run_id)
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == f"run {place.run_id}\n"  # from here on it waits
    waiting.send_signal(signal.SIGINT)
    assert ended(waiting)[0] != 0
    assert place.state()["status"] == "running"
    process.send_signal(signal.SIGINT)
    assert ended(process)[0] == 2


# --- rerun ----------------------------------------------------------------------------------------


def test_a_run_is_rerun_from_a_step_and_what_came_before_is_taken_over(place: Place) -> None:
    place.write(
        """
        inputs: {who: {default: me}}
        steps:
          - {name: A, command: [sh, -c, "echo A >> story; echo a-$RANDOM; echo kept > $PODIUM_ARTIFACTS/kept.txt"]}
          - name: L
            for_each: {items: [1, 2], steps: [{name: I, command: [sh, -c, "echo I >> story"]}]}
          - {name: Flaky, command: [sh, -c, "echo F >> story; exit 1"], allow_failure: true}
          - {name: B, command: [sh, -c, "echo B >> story; test -f $PODIUM_ARTIFACTS/kept.txt"]}
          - {name: C, command: [sh, -c, "echo C-$WHO >> story; test -f ok"], env: {WHO: "${steps.A.output}"}}
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, code=1)
    first = place.state()
    story = place.folder / "story"
    story.unlink()
    (place.folder / "ok").touch()
    again = f"{place.run_id}-again"
    place.run("rerun", place.run_id, "--from", "B", "--run-id", again)
    state = place.state(again)
    assert state["status"] == "completed"
    assert story.read_text().split() == ["B", f"C-{first['steps']['A']['output'].strip()}"]
    assert state["steps"]["A"]["output"] == first["steps"]["A"]["output"]
    assert state["steps"]["Flaky"]["status"] == "failed"
    log = place.events(again)
    assert log[0]["payload"]["originalRunId"] == place.run_id
    reused = {event["stepId"] for event in log if event["payload"].get("reusedFrom") == place.run_id}
    assert reused - {None} == {"A", "L", "L[0]/I", "L[1]/I", "Flaky"}
    assert place.state() == first, "the earlier run stays as it is"
    assert "never reached" in place.run("rerun", place.run_id, "--from", "Nowhere", code=64).stderr


@pytest.mark.rule("D31", "D59")
def test_a_run_whose_last_moment_was_lost_to_a_kill_is_told_as_it_ended(place: Place) -> None:
    """Killed between the last commit and the files of the directory: a resume has nothing to do but to tell it."""
    place.write("steps: [{name: A, command: ['true']}]")
    place.run("run", "w.yaml", "--run-id", place.run_id)
    for name in ("state.json", "logs/events.jsonl", "logs/workflow.jsonl"):
        kept = place.file(name).read_text()
        place.file(name).write_text(
            kept.replace('"status": "completed"', '"status": "running"')[: len(kept) - 40]
        )
    assert "RUN_COMPLETED" in place.run("resume", place.run_id, code=64).stderr
    assert place.state()["status"] == "completed"
    lines = [json.loads(line) for line in place.file("logs/events.jsonl").read_text().splitlines()]
    assert lines == place.events()
    assert not place.file(".lock").exists()
