"""Agents while they are at work: how far they are can be seen, and a killed run goes on in their conversation.

The agent is a stand-in that speaks as claude does; `tests/agents` has the real programs.
"""

import json
import os
import pty
import re
import select
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.podium import PODIUM, Place, ended, until

# Keeps its sessions in `sessions`, writes down how it was asked, uses a tool, and waits as long as there is `hold`.
CLAUDE = """#!/usr/bin/env python3
import json, pathlib, sys, time
words = sys.argv
flag = "--resume" if "--resume" in words else "--session-id"
session = words[words.index(flag) + 1]
kept = pathlib.Path("sessions", session)
with open("asked", "a") as asked:
    asked.write(json.dumps({"flag": flag, "session": session, "prompt": sys.stdin.read()}) + "\\n")
if flag == "--resume" and not kept.exists():
    sys.exit("No conversation found with session ID: " + session)
kept.parent.mkdir(exist_ok=True)
kept.touch()
def say(**line):
    print(json.dumps({"session_id": session, **line}), flush=True)
def message(block):
    say(type="assistant", message={"content": [block], "usage": {"output_tokens": 40}})
say(type="system", subtype="init")
message({"type": "tool_use", "name": "Bash", "input": {"command": "cat secret\\u001b[2J; ls\\n " + "x" * 500}})
while pathlib.Path("hold").exists():
    time.sleep(0.02)
say(type="user", message={"content": [{"type": "tool_result"}]})
message({"type": "text", "text": "fine"})
say(type="result", subtype="success", is_error=False, result="fine", usage={"output_tokens": 80})
"""
ASK = "steps: [{name: Ask, provider: claude, prompt: how are you}]"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(CLAUDE)
    program.chmod(0o755)
    place.environment["PATH"] = f"{program.parent}:{place.environment['PATH']}"
    place.write(ASK)
    return place


def asked(place: Place) -> list[dict[str, Any]]:
    file = place.folder / "asked"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def progress(place: Place) -> str:
    file = place.file("logs/steps/Ask.1.progress")
    return file.read_text() if file.exists() else ""


def test_with_stream_each_tool_and_turn_is_a_line_and_not_what_the_program_writes(place: Place) -> None:
    (place.folder / "hold").touch()
    running = place.begin("run", "w.yaml", "--run-id", place.run_id, "--stream")
    lines = running.stdout
    assert lines is not None
    first = until(lambda: next((line for line in iter(lines.readline, "") if "Ask |" in line), None))
    assert first.strip().startswith("Ask | turn 1: Bash cat secret [2J; ls xxx")
    assert len(first) < 220
    (place.folder / "hold").unlink()
    code, out, _ = ended(running)
    assert code == 0
    assert "Ask | turn 2: writes (80 tokens)" in out
    assert "session_id" not in out


def test_a_terminal_shows_the_turn_and_the_tool_of_a_running_agent_in_one_line(place: Place) -> None:
    (place.folder / "hold").touch()
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [*PODIUM, "run", "w.yaml", "--run-id", place.run_id],
        cwd=place.folder,
        env={**place.environment, "TERM": "xterm", "COLUMNS": "60"},
        stdout=terminal,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
    )
    os.close(terminal)
    shown = b""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if select.select([controller], [], [], 0.1)[0]:
            try:
                shown += os.read(controller, 65536)
            except OSError:
                break
        if b"turn 1: Bash" in shown:
            (place.folder / "hold").unlink(missing_ok=True)
    os.close(controller)
    assert process.wait(timeout=60) == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    line = re.search(r"└ Ask  \d+ s  turn 1: Bash cat secret \[2J; ls[^\r\n]*", plain)
    assert line is not None, plain
    assert len(line[0]) <= 60


def test_logs_show_what_an_agent_did_and_answered_and_its_stream_only_if_asked(place: Place) -> None:
    place.write(
        """
        steps:
          - {name: Ask, provider: claude, prompt: how are you}
          - {name: Say, command: [echo, said]}
          - {name: Mine, provider: mine, prompt: echo as it prints}
          - {name: Echo, provider: echo, prompt: given back}
        providers: {mine: {argv: [sh]}}
        """
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    first, *rest = place.run("logs", place.run_id).stdout.split("== ")[1:]
    assert first.startswith("Ask attempt 1\nturn 1: Bash cat secret [2J; ls xxx")
    assert first.endswith("\nturn 2: writes (80 tokens)\n")
    assert rest == [
        "Ask attempt 1 (answer)\nfine\n",
        "Say attempt 1\nsaid\n",
        "Mine attempt 1\nas it prints\n",
        "Echo attempt 1 (answer)\ngiven back\n",
    ]
    head, *lines = place.run("logs", place.run_id, "Ask", "--raw").stdout.splitlines()
    assert head == "== Ask attempt 1"
    assert [json.loads(line)["type"] for line in lines] == [
        "system",
        "assistant",
        "user",
        "assistant",
        "result",
    ]


def test_the_logs_of_an_agent_can_be_followed_while_it_works(place: Place) -> None:
    (place.folder / "hold").touch()
    running = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until(lambda: "turn 1" in progress(place))
    following = place.begin("logs", place.run_id, "Ask", "--follow")
    lines = following.stdout
    assert lines is not None
    assert [lines.readline() for _ in range(2)][1].startswith("turn 1: Bash")
    (place.folder / "hold").unlink()
    code, out, _ = ended(following)
    assert (code, ended(running)[0]) == (0, 0)
    assert out.endswith("turn 2: writes (80 tokens)\n== Ask attempt 1 (answer)\nfine\n")
    assert out.count("turn 1: Bash") <= 1, (
        "each line once, though the tokens of the first turn may be told later"
    )


@pytest.mark.rule("D31", "D50")
def test_an_agent_of_a_killed_run_goes_on_in_its_conversation(place: Place) -> None:
    (place.folder / "hold").touch()
    running = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until(lambda: "turn 1" in progress(place))
    running.kill()
    ended(running)
    (place.folder / "hold").unlink()
    place.run("resume", place.run_id, "--quiet")
    first, second = asked(place)
    assert (first["flag"], second["flag"]) == ("--session-id", "--resume")
    assert first["session"] == second["session"]
    # Whether the agent had kept its task nobody knows: it is told again.
    assert second["prompt"].startswith("You were interrupted")
    assert second["prompt"].endswith("\n\nhow are you")
    assert progress(place).startswith("continues where it was interrupted\n")
    step = place.state()["steps"]["Ask"]
    assert (step["status"], step["output"], step["session"]) == ("completed", "fine", first["session"])


def test_an_agent_whose_conversation_is_gone_begins_anew(place: Place) -> None:
    (place.folder / "hold").touch()
    running = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until(lambda: "turn 1" in progress(place))
    running.kill()
    ended(running)
    (place.folder / "hold").unlink()
    for session in (place.folder / "sessions").iterdir():
        session.unlink()
    place.run("resume", place.run_id, "--quiet")
    first, second, third = asked(place)
    assert (second["flag"], second["session"]) == ("--resume", first["session"])
    assert (third["flag"], third["prompt"]) == ("--session-id", "how are you")
    assert third["session"] != first["session"]
    assert place.state()["steps"]["Ask"]["output"] == "fine"


def test_what_was_kept_of_another_providers_session_or_only_half_of_it_is_not_used(place: Place) -> None:
    for content in ('{"provider": "codex", "session": "s"}', '{"provider": "cl', '{"session": ["s"]}'):
        (place.folder / "hold").touch()
        (place.folder / "asked").unlink(missing_ok=True)
        run_id = f"{place.run_id}-{len(content)}"
        running = place.begin("run", "w.yaml", "--run-id", run_id, "--quiet")
        until(lambda: asked(place))
        running.kill()
        ended(running)
        (place.folder / "hold").unlink()
        place.file("logs/steps/Ask.1.session", run_id).write_text(content)
        place.run("resume", run_id, "--quiet")
        assert [one["flag"] for one in asked(place)] == ["--session-id", "--session-id"]


def test_a_new_attempt_is_a_new_conversation(place: Place) -> None:
    place.write("steps: [{name: Ask, provider: claude, prompt: hi, retry: {attempts: 2, delay: 0.1}}]")
    program = place.folder / "bin" / "claude"
    program.write_text(
        CLAUDE.replace(
            'say(type="system"',
            'kept.with_name("x").exists() or (kept.with_name("x").touch(), sys.exit(1))\nsay(type="system"',
        )
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    first, second = asked(place)
    assert [first["flag"], second["flag"]] == ["--session-id", "--session-id"]
    assert first["session"] != second["session"]


WORKTREE = """
providers: {mine: {argv: [sh]}}
steps:
  - name: Work
    provider: mine
    workspace: worktree
    prompt: |
      pwd >> $PODIUM_RUN_DIR/places; ls >> $PODIUM_RUN_DIR/places
      touch made; mkdir closed; touch closed/x; chmod 000 closed
      test -e $PODIUM_RUN_DIR/go || { touch $PODIUM_RUN_DIR/begun; sleep 60; }
      chmod 755 closed; echo fine
"""


def git(folder: Path, *words: str) -> str:
    author = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")
    done = subprocess.run(["git", *author, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.mark.rule("D31")
def test_a_worktree_of_a_killed_run_is_removed_and_its_attempt_has_a_new_one(place: Place) -> None:
    git(place.folder, "init", "--quiet")
    (place.folder / "a.txt").write_text("one\n")
    git(place.folder, "add", "a.txt")
    git(place.folder, "commit", "--quiet", "-m", "first")
    place.write(WORKTREE)
    running = place.begin("run", "w.yaml", "--run-id", place.run_id, "--quiet")
    until(lambda: place.file("begun").exists())
    running.kill()
    ended(running)
    assert len(git(place.folder, "worktree", "list").splitlines()) == 2
    place.file("go").touch()
    place.run("resume", place.run_id, "--quiet")
    first, seen, second, seen_again = place.file("places").read_text().split()
    assert first != second
    assert seen == seen_again == "a.txt", "nothing of the first attempt is there"
    assert len(git(place.folder, "worktree", "list").splitlines()) == 1
    assert [path.name for path in place.file("worktrees").iterdir()] == [".gitignore"]
    assert "made" in place.file("artifacts/diffs/Work.1.diff").read_text()
    # Whoever looks at the workspace sees no worktrees, also not as files that nobody has added.
    assert "worktrees" not in git(place.folder, "status", "--porcelain", "--untracked-files=all")


def test_a_run_that_needs_worktrees_where_there_can_be_none_does_not_begin(place: Place) -> None:
    place.write(WORKTREE)
    done = place.run("run", "w.yaml", code=78)
    assert "WORKTREE_NOT_POSSIBLE: `workspace: worktree` needs a git repository" in done.stderr
    assert "git init" in done.stderr


def test_what_was_changed_in_a_worktree_is_recorded_and_made_again(place: Place) -> None:
    git(place.folder, "init", "--quiet")
    (place.folder / "a.txt").write_text("one\n")
    git(place.folder, "add", "a.txt")
    git(place.folder, "commit", "--quiet", "-m", "first")
    step = "{name: A, provider: mine, workspace: worktree, prompt: 'echo more >> a.txt; echo fine'}"
    place.write(f"providers: {{mine: {{argv: [sh]}}}}\nsteps: [{step}]")
    for run_id, way in (("r1", "--record"), ("r2", "--replay")):
        place.run("run", "w.yaml", "--run-id", run_id, way, "kept")
    first, second = (place.file("artifacts/diffs/A.1.diff", run_id).read_text() for run_id in ("r1", "r2"))
    assert "+more" in first
    assert first == second


VALUES = """
providers: {mine: {argv: [sh]}}
steps:
  - {name: A, provider: mine, prompt: 'echo "n=$((1+1))" > $PODIUM_OUTPUT; echo fine'}
  - {name: B, command: [echo, "${steps.A.outputs.n}"]}
  - {name: C, provider: mine, prompt: 'echo reason=broken > $PODIUM_OUTPUT; exit 1', allow_failure: true}
  - {name: D, provider: mine, prompt: 'echo so=far > $PODIUM_OUTPUT; sleep 60', timeout: 4, allow_failure: true}
  - {name: E, provider: mine, prompt: 'mkfifo $PODIUM_OUTPUT; echo fine', allow_failure: true}
"""


@pytest.mark.rule("D62")
def test_an_agents_program_leaves_values_for_others_as_a_command_does(place: Place) -> None:
    place.write(VALUES)
    for run_id, way in ((place.run_id, "--record"), (f"{place.run_id}-again", "--replay")):
        place.run("run", "w.yaml", "--run-id", run_id, way, "kept")
        steps = place.state(run_id)["steps"]
        assert (steps["A"]["output"], steps["A"]["outputs"]) == ("fine", {"n": "2"})
        assert steps["B"]["output"] == "2\n"
        assert steps["C"]["outputs"] == {"reason": "broken"}
        assert (steps["D"]["timed_out"], steps["D"]["outputs"]) == (True, {"so": "far"})
        assert (steps["E"]["error"]["code"], steps["E"]["error"]["message"]) == (
            "AGENT_ERROR",
            "$PODIUM_OUTPUT is no longer a file",
        )
    left = [path.name for path in place.file("outputs").iterdir()]
    assert left == ["E.1"], "what is no file cannot be read, and holds nothing"


def test_with_stream_a_program_of_ones_own_is_shown_as_it_prints(place: Place) -> None:
    place.write(
        "providers: {mine: {argv: [sh]}}\nsteps: [{name: Ask, provider: mine, prompt: echo as it prints}]"
    )
    out = place.run("run", "w.yaml", "--run-id", place.run_id, "--stream").stdout
    assert "Ask | as it prints" in out
    assert "turn 1" not in out


def test_an_answer_that_could_not_be_written_down_is_none(place: Place) -> None:
    """As on a full disk: what stands in the log is not what the program said."""
    prompt = "mkdir $PODIUM_RUN_DIR/logs/steps/Ask.1.out; echo all is well"
    place.write(
        f"providers: {{mine: {{argv: [sh]}}}}\nsteps: [{{name: Ask, provider: mine, prompt: '{prompt}'}}]"
    )
    place.run("run", "w.yaml", "--run-id", place.run_id, code=1)
    (error,) = [e["payload"]["error"] for e in place.events() if e["eventType"] == "StepFailed"]
    assert error["code"] == "OUTPUT_NOT_KEPT"
    assert "Is a directory" in error["message"]
