"""Runs on Temporal that have failed, or whose execution cannot continue."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.engines.site import PODIUM, until
from tests.temporal.site import Site

FAILS = """
version: "2.0"
name: w
steps:
  - {name: A, command: [touch, a.txt]}
  - {name: F, command: [test, -e, flag.txt]}
  - {name: Z, command: ["true"]}
"""
WAITS = 'version: "2.0"\nname: w\nsteps: [{name: Ask, approval: go}, {name: Z, command: ["true"]}]\n'


def _places(site: Site) -> list[str]:
    return ["--store", site.store, "--runs", str(site.runs)]


def test_resume_finds_the_engine_of_a_failed_run_and_reopens_it_there(site: Site) -> None:
    site.start_worker()
    run = site.begin(FAILS, "r")
    assert run.wait() == 1
    (site.workspace / "flag.txt").touch()
    site.podium("resume", "r", *_places(site))
    events = site.events_of("r")
    assert events[-1] == "RunCompleted"
    assert events.count("StepStarted A") == 1
    assert events.count("StepStarted F") == 2


def test_two_who_resume_a_failed_run_reopen_it_once(site: Site) -> None:
    site.start_worker()
    assert site.begin(FAILS, "r").wait() == 1
    (site.workspace / "flag.txt").touch()
    command = [*PODIUM, "resume", "r", *_places(site)]
    both = [
        subprocess.Popen(command, cwd=site.workspace, env=site.environment, stderr=subprocess.DEVNULL)
        for _ in range(2)
    ]
    codes = sorted(one.wait(90) for one in both)
    assert codes[0] == 0
    assert codes[1] in (0, 64, 75)
    assert site.events_of("r").count("RunReopened") == 1


def test_a_completed_run_is_not_resumed(site: Site) -> None:
    site.start_worker()
    (site.workspace / "flag.txt").touch()
    assert site.begin(FAILS, "r").wait() == 0
    assert "RUN_COMPLETED" in site.podium("resume", "r", *_places(site), code=64).stderr


def test_an_execution_that_cannot_be_replayed_is_replaced(site: Site, tmp_path: Path) -> None:
    worker = site.start_worker()
    site.begin(WAITS, "r")
    until(lambda: "StepStarted Ask" in site.events_of("r"), "the approval")
    worker.kill9()
    # The same worker with one command more in its workflow.
    source = Path(sys.modules["podium"].__path__[0])
    copy = tmp_path / "src"
    shutil.copytree(source, copy / "podium")
    workflow = copy / "podium" / "engines" / "temporal" / "workflow.py"
    text = workflow.read_text()
    changed = text.replace(
        "        follower.restart()\n",
        "        await workflow.sleep(0.01)\n        follower.restart()\n",
    )
    assert changed != text
    workflow.write_text(changed)
    site.environment["PYTHONPATH"] = str(copy)
    site.start_worker()
    site.signal("approve", "r", "Ask")
    until(lambda: site.events_of("r")[-1] == "RunCompleted", "the run to continue in a new execution")
