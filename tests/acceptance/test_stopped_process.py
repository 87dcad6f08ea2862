"""A process that is stopped while it writes to the store is waited for and named; it does not end other runs."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.podium import PODIUM, Place, ended, until

# Stops inside a transaction; when it is continued, commits and ends.
_STOPS = """
import os, signal, sys, apsw
from pathlib import Path
from podium.stores.sqlite.lock import FileLock
lock = FileLock(Path(sys.argv[1] + ".lock"))
lock.take()
db = apsw.Connection(sys.argv[1])
db.execute("BEGIN IMMEDIATE")
os.kill(os.getpid(), signal.SIGSTOP)
db.execute("COMMIT")
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write("steps: [{name: A, command: [sh, -c, 'echo $PODIUM_RUN_ID >> story']}]")
    place.run("run", "w.yaml", "-q")
    place.write(
        """
        steps:
          - {name: A, command: [sh, -c, 'touch begun; until test -e go; do sleep 0.02; done']}
          - {name: B, command: [touch, second]}
        """,
        "long.yaml",
    )
    return place


def stopped(place: Place) -> "subprocess.Popen[str]":
    holder = subprocess.Popen([sys.executable, "-c", _STOPS, str(place.runs / "podium.db")], text=True)
    os.waitid(os.P_PID, holder.pid, os.WSTOPPED | os.WNOWAIT)
    return holder


@pytest.mark.rule("R082")
@pytest.mark.timeout(170)
def test_runs_and_new_runs_wait_for_a_stopped_process_name_it_and_continue(place: Place) -> None:
    running = place.begin("run", "long.yaml", "--run-id", place.run_id, "-q")
    until((place.folder / "begun").exists)
    holder = stopped(place)
    try:
        (place.folder / "go").touch()
        shown = place.run("runs", "list", "--store", "runs/podium.db").stdout
        assert place.run_id in shown, "reading does not wait"
        output = place.folder / "output"
        with output.open("w") as file:
            starting = subprocess.Popen(
                [*PODIUM, "run", "w.yaml"],
                cwd=place.folder,
                env={**place.environment, "PYTHONUNBUFFERED": "1"},
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        until(lambda: f"process {holder.pid} holds its write lock and is stopped" in output.read_text(), 60)
        assert running.poll() is None
        assert starting.poll() is None
        assert not (place.folder / "second").exists()
        holder.send_signal(signal.SIGCONT)
        assert starting.wait(60) == 0, output.read_text()
        code, _, err = ended(running, 60)
        assert code == 0, err
    finally:
        holder.kill()
        holder.wait()
