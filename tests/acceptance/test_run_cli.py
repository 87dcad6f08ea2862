"""`podium run` and what it leaves behind, as a person or a script meets it."""

import getpass
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest

from tests.acceptance.podium import PODIUM, Place, ended, until
from tests.pace import Delays

TWO = """
inputs:
  who: {type: string, default: world}
  n: {type: int, default: 1}
steps:
  - {name: Greet, command: [echo, "Hello, ${inputs.who}!"], output_file: greeting.txt}
  - {name: Count, command: [sh, -c, "echo one; echo two >&2"]}
"""
SLEEPS = """
steps:
  - {name: Sleep, command: [sh, -c, "trap '' TERM; sleep 60 & wait; sleep 60"]}
finally:
  - {name: Tidy, command: [echo, tidied]}
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# --- exit codes -----------------------------------------------------------------------------------


@pytest.mark.rule("D29", "R068", "R069", "R001")
@pytest.mark.parametrize(
    ("text", "code", "status"),
    [
        ("steps: [{name: A, command: ['true']}]", 0, "completed"),
        ("steps: [{name: A, command: ['false']}]", 1, "failed"),
        ("steps: [{name: A, command: ['true'], on: {success: {error: no}}}]", 1, "failed"),
        ("timeout: 0.2\nsteps: [{name: A, command: [sleep, '30']}]", 3, "timeout"),
        ("steps: [{name: A, command: ['false'], on: {success: {end: true}}}]", 4, "failed"),
        (
            "steps: [{name: A, command: ['true'], on: {success: {end: true}}}, {name: B, command: ['false']}]",
            0,
            "completed",
        ),
    ],
)
def test_the_exit_code_says_how_the_run_ended(place: Place, text: str, code: int, status: str) -> None:
    place.write(text)
    place.run("run", "w.yaml", "--run-id", place.run_id, code=code)
    state = place.state()
    assert (state["status"], state["exit_code"]) == (status, code)


@pytest.mark.rule("D29")
def test_what_is_not_a_run_has_other_exit_codes(place: Place) -> None:
    assert "cannot read" in place.run("run", "missing.yaml", code=64).stderr
    place.write("steps: [{name: A}]", "bad.yaml")
    assert "E" in place.run("run", "bad.yaml", code=65).stderr
    assert "no such option" in place.run("run", "bad.yaml", "--nonsense", code=64).stderr.lower()
    place.write("steps: [{name: A, command: ['true']}]")
    assert "RUN_NOT_FOUND" in place.run("resume", "r9", "--store", _store(place), code=64).stderr
    assert not place.file("", "r9").exists(), "looking for a run makes none"


def _store(place: Place) -> str:
    place.run("run", "w.yaml", "--run-id", "made", "-q")
    return str(place.runs / "podium.db")


@pytest.mark.rule("R068")
@pytest.mark.rule("R069")
@pytest.mark.rule("D28", "R084")
def test_an_interrupt_cancels_the_run_and_its_finally_runs(place: Place) -> None:
    place.write(SLEEPS)
    process = place.begin("run", "w.yaml", "--run-id", place.run_id)
    until(lambda: _is_running(place, "Sleep"))
    process.send_signal(signal.SIGINT)
    code, out, err = ended(process)
    assert code == 2, (out, err)
    state = place.state()
    assert (state["status"], state["exit_code"]) == ("cancelled", 2)
    assert state["steps"]["Sleep"]["status"] == "cancelled"
    assert state["steps"]["_finally/Tidy"]["status"] == "completed"
    assert place.processes() == []


@pytest.mark.rule("D28")
def test_a_second_interrupt_kills_at_once(place: Place) -> None:
    # Within the grace time of five seconds that the first interrupt gives, the step would leave its file.
    (place.folder / "step.py").write_text(
        dedent(
            """
            import pathlib, signal, time

            asked = []

            def ask(*_):
                asked.append(time.monotonic())
                pathlib.Path("asked").touch()

            signal.signal(signal.SIGTERM, ask)
            pathlib.Path("ready").touch()
            while not asked or time.monotonic() < asked[0] + 4:
                time.sleep(0.02)
            pathlib.Path("survived").touch()
            """
        )
    )
    place.write(
        f"""
        steps: [{{name: Sleep, command: [{sys.executable}, step.py]}}]
        finally: [{{name: Tidy, command: ["true"]}}]
        """
    )
    process = place.begin("run", "w.yaml", "--run-id", place.run_id)
    until((place.folder / "ready").exists, 60)
    process.send_signal(signal.SIGINT)
    until((place.folder / "asked").exists, 60)
    process.send_signal(signal.SIGINT)
    code, out, err = ended(process, 60)
    assert code == 2, (out, err)
    assert not (place.folder / "survived").exists()
    assert "_finally/Tidy" not in place.state()["steps"]
    until(lambda: place.processes() == [], 2)


@pytest.mark.rule("R084")
@pytest.mark.rule("D28")
def test_a_terminate_is_an_interrupt(place: Place) -> None:
    place.write("steps: [{name: Sleep, command: [sleep, '60']}]")
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until(lambda: _is_running(place, "Sleep"))
    process.send_signal(signal.SIGTERM)
    code, out, _ = ended(process)
    assert code == 2
    assert out.startswith("cancelled after")


def _is_running(place: Place, step: str) -> bool:
    try:
        return place.state()["steps"].get(step, {}).get("status") == "running" and bool(place.processes())
    except (OSError, ValueError):
        return False


# --- inputs ---------------------------------------------------------------------------------------


def test_inputs_come_from_arguments_and_files_and_arguments_win(place: Place) -> None:
    place.write(TWO)
    (place.folder / "in.yaml").write_text("who: file\nn: 3\n")
    place.run("run", "w.yaml", "--run-id", place.run_id, "--input-file", "in.yaml")
    place.run(
        "run", "w.yaml", "--run-id", f"{place.run_id}-2", "--input-file", "in.yaml", "--input", "who=me & you"
    )
    assert place.file("artifacts/greeting.txt").read_text() == "Hello, file!\n"
    assert place.file("artifacts/greeting.txt", f"{place.run_id}-2").read_text() == "Hello, me & you!\n"


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ((), "name"),
        (("--input", "name=x", "--input", "number=many"), "number"),
        (("--input", "name=x", "--input", "unknown=1"), "unknown"),
        (("--input", "nothing"), "nothing"),
        (("--input", "name=x", "--input-file", "list.yaml"), "list.yaml"),
    ],
)
def test_inputs_that_are_missing_or_wrong_are_told_and_nothing_is_run(
    place: Place, inputs: tuple[str, ...], told: str
) -> None:
    place.write(
        "inputs: {name: {required: true}, number: {type: int, default: 1}}\nsteps: [{name: A, command: ['true']}]"
    )
    (place.folder / "list.yaml").write_text("- 1\n- 2\n")
    assert told in place.run("run", "w.yaml", *inputs, code=64).stderr
    assert not place.runs.exists()


def test_a_workflow_is_read_from_standard_input(place: Place) -> None:
    text = 'version: "2.0"\nname: piped\nsteps: [{name: A, command: [echo, hi]}]\n'
    place.run("run", "-", "--run-id", place.run_id, input=text)
    assert place.state()["steps"]["A"]["output"] == "hi\n"
    assert place.file("workflow.yaml").read_text() == text


def test_an_id_belongs_to_one_run(place: Place) -> None:
    place.write(TWO)
    place.run("run", "w.yaml", "--run-id", place.run_id)
    before = place.file("state.json").read_bytes()
    assert "RUN_EXISTS" in place.run("run", "w.yaml", "--run-id", place.run_id, code=64).stderr
    assert place.file("state.json").read_bytes() == before
    assert "INVALID_ID" in place.run("run", "w.yaml", "--run-id", "../x", code=64).stderr


def test_a_directory_that_a_killed_process_left_is_no_run(place: Place) -> None:
    place.write(TWO)
    place.file("artifacts").mkdir(parents=True)
    place.run("run", "w.yaml", "--run-id", place.run_id)
    assert place.state()["status"] == "completed"


def test_a_dry_run_runs_nothing(place: Place) -> None:
    place.write(TWO)
    shown = place.run("run", "w.yaml", "--dry-run").stdout
    assert "Greet" in shown
    assert "Dry run: nothing was run." in shown
    assert not place.runs.exists()


def test_runs_and_store_can_be_elsewhere(place: Place) -> None:
    place.write("steps: [{name: A, command: ['true']}]")
    place.run("run", "w.yaml", "--run-id", place.run_id, "--runs", "here")
    assert (place.folder / f"here/{place.run_id}/state.json").exists()
    assert (place.folder / "here/podium.db").exists()
    place.run("run", "w.yaml", "--run-id", place.run_id, env={"PODIUM_RUNS": str(place.folder / "there")})
    assert (place.folder / f"there/{place.run_id}/state.json").exists()
    place.run("run", "w.yaml", "--run-id", place.run_id, "--store", "own.db")
    assert (place.folder / "own.db").exists()
    assert not (place.runs / "podium.db").exists()


# --- what is printed ------------------------------------------------------------------------------


@pytest.mark.rule("D49")
def test_with_json_every_line_is_an_event_of_the_log(place: Place) -> None:
    place.write(TWO)
    printed = place.run("run", "w.yaml", "--run-id", place.run_id, "--json").stdout
    lines = [json.loads(line) for line in printed.splitlines()]
    log = place.events()
    # RunQueued was there before anybody drove the run.
    assert [line["runSeq"] for line in lines] == [event["runSeq"] for event in log][1:]
    assert [line["eventType"] for line in lines][-1] == "RunCompleted"
    assert lines == log[1:]


def test_quiet_prints_only_the_end_and_plain_lines_tell_each_step(place: Place) -> None:
    place.write(TWO)
    quiet = place.run("run", "w.yaml", "--run-id", place.run_id, "--quiet").stdout.splitlines()
    assert quiet[0].startswith("completed after")
    assert not any("Greet" in line for line in quiet)
    plain = place.run("run", "w.yaml", "--run-id", f"{place.run_id}-2").stdout
    assert f"{place.run_id}-2" in plain.splitlines()[0]
    assert re.search(r"^\d\d:\d\d:\d\d ok Greet", plain, re.MULTILINE)
    assert "\x1b" not in plain


def test_a_failure_shows_its_last_lines_of_output(place: Place) -> None:
    place.write("steps: [{name: A, command: [sh, -c, 'seq 1 40; echo it broke >&2; exit 7']}]")
    shown = place.run("run", "w.yaml", "--run-id", place.run_id, code=1).stdout
    assert "it broke" in shown
    assert "40" in shown
    assert "\n         A | 5\n" not in shown, "the last lines only"
    assert "exit code 7" in shown


HOSTILE = """
steps:
  - {name: A, command: [printf, 'a\\033[31mred\\033]0;title\\007\\r over']}
  - {name: B, command: [sh, -c, 'printf "b\\033[2Jgone"; exit 1']}
"""


def test_escape_sequences_of_steps_do_not_reach_a_pipe(place: Place) -> None:
    place.write(HOSTILE)
    done = place.run("run", "w.yaml", "--run-id", place.run_id, "--stream", code=1)
    assert "\x1b" not in done.stdout + done.stderr
    assert "gone" in done.stdout


def _at_a_terminal(place: Place, *arguments: str) -> tuple[int, str]:
    """Run with a pseudo-terminal as standard output."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [*PODIUM, *arguments],
        cwd=place.folder,
        env={**place.environment, "TERM": "xterm", "COLUMNS": "100"},
        stdout=terminal,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
    )
    os.close(terminal)
    written = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([controller], [], [], 0.2)[0]:
            try:
                block = os.read(controller, 65536)
            except OSError:
                break  # the other end is closed: it has ended
            if not block:
                break
            written += block
    os.close(controller)
    return process.wait(timeout=60), written.decode(errors="replace")


def test_a_terminal_shows_what_runs_now_and_nothing_of_a_step_controls_it(place: Place) -> None:
    place.write(
        HOSTILE.replace("steps:", "steps:\n  - {name: Slow, command: [sleep, '0.8']}", 1),
    )
    code, shown = _at_a_terminal(place, "run", "w.yaml", "--run-id", place.run_id)
    assert code == 1
    assert re.search(r"Slow.*0 s", shown), "what runs now, and for how long"
    assert "gone" in shown
    for sequence in ("\x1b[31mred", "\x1b]0;title", "\x1b[2J", "\x07"):
        assert sequence not in shown


# --- the run's directory --------------------------------------------------------------------------


@pytest.mark.rule("D49", "D59", "R002", "R007", "R008", "R012", "R013", "R016", "R075", "R087")
def test_a_run_leaves_a_directory_that_can_be_read_without_us(place: Place) -> None:
    place.write(TWO)
    place.run("run", "w.yaml", "--run-id", place.run_id)
    found = sorted(
        str(path.relative_to(place.file("")))
        for path in place.file("").rglob("*")
        if path.is_file() and path.stat().st_size
    )
    assert found == [
        "artifacts/greeting.txt",
        "logs/events.jsonl",
        "logs/steps/Count.1.err",
        "logs/steps/Count.1.out",
        "logs/steps/Greet.1.out",
        "logs/workflow.jsonl",
        "plan.json",
        "run.json",
        "state.json",
        "workflow.yaml",
    ]
    assert place.file("logs/steps/Count.1.out").read_text() == "one\n"
    assert place.file("logs/steps/Count.1.err").read_text() == "two\n"
    state = place.state()
    assert set(state) == {
        *("run_id", "status", "started_at", "completed_at", "context", "steps", "secrets"),
        *("current_step", "error", "exit_code", "reason"),
    }
    assert set(state["steps"]["Greet"]) == {
        *("status", "exit_code", "output", "stderr_tail", "duration", "completed_at", "skipped", "timed_out"),
        *("truncated", "output_bytes", "visits", "attempts", "error", "usage", "session"),
    }
    events = [json.loads(line) for line in place.file("logs/events.jsonl").read_text().splitlines()]
    assert events == place.events()
    lines = [json.loads(line) for line in place.file("logs/workflow.jsonl").read_text().splitlines()]
    assert len(lines) == len(events)
    for line, event in zip(lines, events, strict=True):
        assert {"timestamp", "run_id", "level", "message"} <= set(line)
        assert line["run_id"] == place.run_id
        assert line.get("step") == event.get("stepId")
    assert {line["level"] for line in lines} == {"info"}


@pytest.mark.rule("D32", "R014", "R079")
def test_the_lock_file_says_who_drives_the_run_and_is_gone_afterwards(place: Place) -> None:
    place.write("steps: [{name: Sleep, command: [sleep, '60']}]")
    process = place.begin("run", "w.yaml", "--run-id", place.run_id)
    until(lambda: _is_running(place, "Sleep"))
    held = json.loads(place.file(".lock").read_text())
    assert held["pid"] == process.pid
    assert held["run_id"] == place.run_id
    assert abs(held["timestamp"] - time.time()) < 60
    assert held["hostname"]
    assert "started" in held
    assert "boot_id" in held
    process.send_signal(signal.SIGINT)
    ended(process)
    assert not place.file(".lock").exists()


@pytest.mark.rule("D28", "R085", "R014")
def test_the_cancel_marker_is_acted_on_at_once_and_removed(place: Place) -> None:
    place.write("steps: [{name: Sleep, command: [sleep, '60']}]")
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "--json")
    until(lambda: _is_running(place, "Sleep"))
    with Delays() as delays:
        place.file(".cancel").touch()
        asked = time.time()
        code, out, err = ended(process)
    assert code == 2, (out, err)
    assert not place.file(".cancel").exists()
    noticed = next(json.loads(line) for line in out.splitlines() if "SignalAccepted" in line)
    who = noticed["payload"]
    assert (who["by"], who["byMethod"], who["byUid"]) == (getpass.getuser(), "file", os.getuid())
    from datetime import datetime

    took = datetime.fromisoformat(noticed["emittedAt"]).timestamp() - asked
    # A busy machine delays both processes.
    assert took < 0.5 + 2 * delays.seconds


def test_a_reader_that_goes_away_does_not_stop_the_run(place: Place) -> None:
    place.write("steps: [{name: A, command: ['true']}, {name: B, command: [sh, -c, 'sleep 0.5; exit 3']}]")
    process = place.begin("run", "w.yaml", "--run-id", place.run_id)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process.stderr:
        assert process.wait(timeout=30) == 1
    assert place.state()["steps"]["B"]["exit_code"] == 3


# --- large results --------------------------------------------------------------------------------


@pytest.mark.rule("G48")
def test_a_result_too_large_for_an_event_is_kept_beside_the_log(place: Place) -> None:
    place.write(
        """
        steps:
          - name: A
            command: [sh, -c, "seq 1 60000"]
            capture: lines
          - {name: B, command: [echo, done]}
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id)
    ended_ = next(e for e in place.events() if e["eventType"] == "StepCompleted" and e["stepId"] == "A")
    ref = ended_["payload"]["lines"]["$artifact"]
    kept = place.file(f"payloads/{ref['sha256'][:2]}/{ref['sha256'][2:]}")
    assert json.loads(kept.read_bytes())[-1] == "60000"


@pytest.mark.rule("R071", "R008")
def test_a_run_without_an_id_gets_one_of_its_own(place: Place) -> None:
    place.write("steps: [{name: a, command: [echo]}]")
    for _ in range(2):
        place.run("run", "w.yaml")
    ids = [path.name for path in place.runs.iterdir() if path.is_dir()]
    assert len(ids) == 2
    assert all(run_id.startswith("test-") for run_id in ids)


def test_with_stream_what_a_step_prints_is_shown_while_it_runs(place: Place) -> None:
    place.write(
        "steps: [{name: a, command: [sh, -c, 'echo first; while [ ! -e go ]; do sleep 0.02; done; echo second']}]"
    )
    running = place.begin("run", "w.yaml", "--stream")
    lines = running.stdout
    assert lines is not None
    assert until(lambda: "a | first" in lines.readline())
    (place.folder / "go").touch()
    code, out, _ = ended(running)
    assert code == 0
    assert out.index("a | second") < out.index("ok a")
