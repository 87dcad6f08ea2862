"""Nothing waits silently: what only a person can give is said at once in every view, with the commands to call."""

import os
import resource
import signal
from pathlib import Path

import pytest

from tests.acceptance.podium import Place, ended, until
from tests.acceptance.test_reuse import Terminal

PAYS = """
steps:
  - {name: Pay, command: [sh, -c, "echo paid >> paid; touch begun; test -f again || sleep 60"], idempotent: false}
  - {name: Next, command: [touch, next]}
"""
ASKS = "steps: [{name: Ask now, approval: {message: Publish to production?}}, {name: B, command: ['true']}]"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def in_doubt(place: Place) -> None:
    place.write(PAYS)
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until((place.folder / "begun").exists)
    process.kill()
    ended(process)


def commands(place: Place) -> list[str]:
    of_step = f"{place.run_id} Pay"
    return [f"podium {name} {of_step}" for name in ("approve", "reject", "retry-step", "skip-step")]


@pytest.mark.rule("G13")
@pytest.mark.parametrize("mode", ["--quiet", "--json", "--stream"])
def test_a_step_in_doubt_is_shown_with_all_that_a_person_can_do(place: Place, mode: str) -> None:
    in_doubt(place)
    resumed = place.begin("resume", place.run_id, mode)
    shown = resumed.stdout if mode == "--stream" else resumed.stderr
    assert shown is not None
    text = ""
    while "skip-step" not in text:
        line = shown.readline()
        assert line, text
        text += line
    assert "'Pay' was interrupted, and it is not known whether it happened" in text
    for command in commands(place):
        assert command in text
    place.run(*commands(place)[0].split()[1:])
    code, _, err = ended(resumed)
    assert code == 0, err
    assert (place.folder / "paid").read_text() == "paid\n"


@pytest.mark.parametrize(("answer", "code", "paid"), [("y", 0, 1), ("n", 1, 1), ("r", 0, 2), ("s", 0, 1)])
def test_at_a_terminal_a_step_in_doubt_is_asked_about(
    place: Place, answer: str, code: int, paid: int
) -> None:
    in_doubt(place)
    (place.folder / "again").touch()
    terminal = Terminal(place, "resume", place.run_id)
    terminal.shows("did it happen?")
    terminal.type(answer)
    assert terminal.ends() == code
    assert (place.folder / "paid").read_text().count("paid") == paid


@pytest.mark.rule("D29")
@pytest.mark.parametrize("command", ["run", "resume"])
def test_the_live_view_shows_what_is_asked_and_keeps_it_visible(place: Place, command: str) -> None:
    place.write(ASKS)
    arguments = ["run", "w.yaml", "--run-id", place.run_id]
    if command == "resume":
        place.run(*arguments, "--no-wait", code=5)
        arguments = ["resume", place.run_id]
    terminal = Terminal(place, *arguments)
    terminal.shows("waiting for your approval: Publish to production?")
    for columns in (100, 90):  # while a question is open, the view is drawn again only if it changes
        terminal.resize(30, columns)
        terminal.shows("waiting for your approval: Publish to production?")
    terminal.type("y")
    assert terminal.ends() == 0


def seconds_of_cpu(pid: int) -> float:
    """What a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.rule("D29")
@pytest.mark.parametrize("options", [(), ("--stream",), ("--quiet",)])
def test_a_run_whose_terminal_is_gone_waits_quietly_for_an_answer_from_elsewhere(
    place: Place, options: tuple[str, ...]
) -> None:
    """Under `nohup`: else the hangup would cancel the run."""
    place.write(ASKS)
    ignoring = {"preexec_fn": lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)}
    terminal = Terminal(place, "run", "w.yaml", "--run-id", place.run_id, *options, **ignoring)
    try:
        terminal.shows("waiting for your approval: Publish to production?")
        terminal.close()
        before, others = seconds_of_cpu(terminal.process.pid), resource.getrusage(resource.RUSAGE_CHILDREN)
        for _ in range(3):
            place.run("why", place.run_id)
        used = seconds_of_cpu(terminal.process.pid) - before
        # A process that reads the closed terminal again and again uses as much as any other that is never idle.
        assert used < (resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - others.ru_utime) / 2
        place.run("approve", place.run_id)
        assert terminal.leave() == 0
    finally:
        terminal.process.kill()


def test_a_step_that_a_cancel_stopped_is_in_doubt_by_the_attempt_that_ran(place: Place) -> None:
    place.write(PAYS)
    process = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until((place.folder / "begun").exists)
    process.terminate()
    assert ended(process)[0] == 2
    said = place.run("resume", place.run_id, "--no-wait", code=5).stdout
    assert "x  Pay: interrupted" in said
    assert "step 'Pay' was interrupted" in said
    assert "attempt 2" not in said
    assert (place.folder / "paid").read_text() == "paid\n"
