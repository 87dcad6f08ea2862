"""Recordings: a run with agents, kept and run again without them, as users see it."""

import json
import signal
import stat
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.acceptance.podium import Place, ended, until

# An agent that does what its prompt says, line by line, and never answers the same twice if it has to guess.
AGENT = """\
#!/usr/bin/env python3
import json, os, pathlib, sys, time, uuid
counting = pathlib.Path(os.environ["COUNTING"])
prompt = sys.stdin.read()
session = os.environ.get("PODIUM_SESSION") or f"session-{os.getpid()}"
text = ""
for line in prompt.splitlines():
    word, _, rest = line.partition(" ")
    if word == "say":
        text += rest
    elif word == "guess":
        text += str(uuid.uuid4())
    elif word == "fail-first":
        file = counting / rest
        if not file.exists():
            file.touch()
            sys.exit("not now")
    elif line.startswith("Your result does not fit"):
        text += '{"approved": true}'
    elif word == "write":
        name, _, content = rest.partition(" ")
        path = pathlib.Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(os.path.expandvars(content) + "\\n")
        text += f"wrote {path.absolute()}"
    elif word == "remove":
        os.remove(rest)
    elif word == "link":
        name, _, target = rest.partition(" ")
        os.symlink(target, name)
    elif word == "wait":
        (counting / "waits").touch()
        time.sleep(float(rest))
print(json.dumps({"text": text, "session": session}))
"""
TOP = """\
version: "2.0"
name: test
env_policy: inherit
providers:
  mine: {argv: [agent], result: json, text_field: text, session_field: session}
"""


class Agents(Place):
    """A place with an agent, which can be taken away."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.program = folder / "bin" / "agent"
        self.program.parent.mkdir()
        self.program.write_text(AGENT)
        self.program.chmod(0o755)
        self.counting = folder / "counting"
        self.counting.mkdir()
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        self.environment |= {
            "PATH": f"{self.program.parent}:{self.environment['PATH']}",
            "COUNTING": str(self.counting),
        }

    def write(self, text: str, name: str = "w.yaml") -> Path:
        return super().write(TOP + dedent(text).lstrip(), name)

    def record(self, code: int = 0, *arguments: str, **options: Any) -> None:
        self.run(*self.words("w.yaml", "recorded"), "--record", "kept", *arguments, code=code, **options)

    def replay(self, code: int = 0, name: str = "w.yaml", run_id: str = "replayed", **options: Any) -> str:
        """In a workspace as new, without the agent."""
        self.program.unlink(missing_ok=True)
        self.renew()
        return self.run(*self.words(name, run_id), "--replay", "kept", code=code, **options).stdout

    def renew(self) -> None:
        self.workspace.rename(self.folder / f"workspace-{len(list(self.folder.iterdir()))}")
        self.workspace.mkdir()

    def words(self, file: str, run_id: str) -> tuple[str, ...]:
        return "run", file, "--run-id", run_id, "--workspace", "workspace"

    def check_the_same(self) -> None:
        assert self.history("replayed") == self.history("recorded")

    def error(self, step: str) -> dict[str, Any]:
        ends = [
            e for e in self.events("replayed") if e["eventType"] == "StepFailed" and e.get("stepId") == step
        ]
        assert len(ends) == 1, "it is not tried again"
        error: dict[str, Any] = ends[0]["payload"]["error"]
        return error

    def kept(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "kept").iterdir())


@pytest.fixture
def place(tmp_path: Path) -> Agents:
    return Agents(tmp_path)


EVERYTHING = """
steps:
  - {name: Again, provider: mine, prompt: "fail-first once\\nsay here", retry: {attempts: 2, delay: 0.01}}
  - name: Judge
    provider: mine
    prompt: say not JSON
    expect: {schema: {type: object, required: [approved], properties: {approved: {type: boolean}}}}
  - {name: Begin, provider: mine, prompt: say hello}
  - {name: Go on, provider: mine, prompt: say goodbye, session: {resume: Begin}}
  - name: Loop
    repeat_until:
      condition: {step_ok: Test}
      max_iterations: 3
      steps:
        - {name: Edit, provider: mine, prompt: "guess\\nwrite src/mended.txt pass ${loop.iteration}"}
        - {name: Test, command: [grep, -q, pass 1, src/mended.txt], allow_failure: false}
  - {name: Show, command: [cat, src/mended.txt]}
"""


def test_a_run_is_replayed_without_its_agent_and_its_history_is_the_same(place: Agents) -> None:
    place.write(EVERYTHING)
    place.record()
    place.replay()
    place.check_the_same()
    assert place.state("replayed")["steps"]["Show"]["output"].strip() == "pass 1"
    assert place.state("replayed")["steps"]["Again"]["attempts"] == 2
    assert place.kept() == [
        "Again.1.json",
        "Again.2.json",
        "Begin.1.json",
        "Go on.1.json",
        "Judge.1.json",
        "Judge.1.repair.json",
        "Loop[0]~Edit.1.json",
        "Loop[1]~Edit.1.json",
        "recording.json",
    ]
    # A session is named by the call that began it.
    asked = json.loads((place.folder / "kept/Go on.1.json").read_text())["asked"]
    assert asked["session"] == "Begin.1"
    assert (place.runs / "replayed/logs/steps/Begin.1.prompt").read_text() == "say hello"


def test_branches_that_ask_the_same_at_once_get_their_own_answers(place: Agents) -> None:
    place.write(
        """
        steps:
          - name: All
            for_each:
              items: [a, b, c, d]
              parallel: true
              steps:
                - {name: Ask, provider: mine, access: read, prompt: guess}
        """
    )
    place.record()
    place.replay()
    place.check_the_same()


def test_a_changed_prompt_is_a_miss_and_told_with_its_first_other_line(place: Agents) -> None:
    place.write(
        """
        steps:
          - {name: Ask, provider: mine, prompt: "say one\\nsay two", retry: {attempts: 3, delay: 0.01}}
        """
    )
    place.record()
    changed = (place.folder / "w.yaml").read_text().replace("say two", "say twenty")
    (place.folder / "w.yaml").write_text(changed)
    place.replay(code=1)
    error = place.error("Ask")
    assert (error["code"], error["retryable"]) == ("REPLAY_MISS", False)
    assert error["message"] == (
        "the recording 'kept' has no answer for step 'Ask', attempt 1: the prompt differs in line 2: "
        "it was 'say two', and now it is 'say twenty'. Record it again with --record, or undo the change"
    )


def test_a_miss_that_the_workflow_gets_over_is_no_success(place: Agents) -> None:
    place.write("steps: [{name: Ask, provider: mine, prompt: say one, allow_failure: true}]\n")
    place.record()
    (place.folder / "w.yaml").write_text((place.folder / "w.yaml").read_text().replace("say one", "say two"))
    place.program.unlink()
    done = place.run(*place.words("w.yaml", "replayed"), "--replay", "kept", code=1)
    assert done.stderr == "REPLAY_MISS: the recording has no answer for 'Ask'\n"
    assert place.state("replayed")["status"] == "completed"


@pytest.mark.parametrize(
    ("was", "is_now", "told"),
    [
        ("model: small", "model: large", "`model` was 'small', and now it is 'large'"),
        ("temperature: 1", "temperature: 0", "`temperature` was 1, and now it is 0"),
        ("access: read", "access: edit", "`access` was 'read', and now it is 'edit'"),
        ("boolean", "string", "the schema of its result is another now"),
        ("argv: [agent]", "argv: [agent, -x]", "the provider 'mine' is described differently now"),
        ("provider: mine", "provider: echo", "'mine' was asked, and now it is 'echo'"),
        ("name: Ask", "name: Beg", "the same prompt was recorded as 'Ask.1' only"),
        ("session: {resume: First}", "", "it resumed the session of First.1, and now with that of None"),
        ("say {}", "say {}\\nand more", "the prompt differs in line 2: 'and more' is new"),
    ],
)
def test_whatever_else_is_asked_differently_is_a_miss_too(
    place: Agents, was: str, is_now: str, told: str
) -> None:
    place.write(
        """
        steps:
          - {name: First, provider: mine, prompt: say first}
          - name: Ask
            provider: mine
            model: small
            temperature: 1
            access: read
            session: {resume: First}
            prompt: "say {}"
            expect: {schema: {type: object, properties: {approved: {type: boolean}}}}
        """
    )
    place.record()
    text = (place.folder / "w.yaml").read_text()
    # Of what stands there more than once, the last.
    head, _, tail = text.rpartition(was)
    assert head
    (place.folder / "w.yaml").write_text(head + is_now + tail)
    place.replay(code=1)
    failed = [e for e in place.events("replayed") if e["eventType"] == "StepFailed"]
    assert failed[0]["payload"]["error"]["code"] == "REPLAY_MISS"
    assert told in failed[0]["payload"]["error"]["message"]


def test_what_an_agent_did_to_files_is_done_again(place: Agents) -> None:
    place.write(
        """
        steps:
          - {name: Before, command: [sh, -c, "echo old > old.txt; echo same > same.txt"]}
          - name: Edit
            provider: mine
            prompt: |
              remove old.txt
              write new/deep/file.txt hello
              link link.txt new/deep/file.txt
          - name: Leave
            provider: mine
            access: read
            prompt: "write ${run.artifacts}/report.md fine"
            expect: {files: [report.md]}
          - name: Look
            command: [sh, -c, "cat link.txt same.txt; ls; readlink link.txt"]
        """
    )
    place.record()
    place.replay()
    place.check_the_same()
    kept = json.loads((place.folder / "kept/Edit.1.json").read_text())
    assert [change["path"] for change in kept["workspace"]] == ["link.txt", "new/deep/file.txt", "old.txt"]
    assert (place.runs / "replayed/artifacts/report.md").read_text() == "fine\n"
    # Where it lies is not part of what was asked or answered.
    assert "«artifacts»/report.md" in (place.folder / "kept/Leave.1.json").read_text()
    assert str(place.folder) not in (place.folder / "kept/Leave.1.json").read_text()
    assert "replayed/artifacts" in place.state("replayed")["steps"]["Leave"]["output"]


def test_what_git_ignores_and_what_podium_writes_is_no_work_of_an_agent(place: Agents) -> None:
    place.write(
        """
        steps:
          - {name: Make, command: [sh, -c, "git init -q . && echo junk/ > .gitignore"]}
          - {name: Edit, provider: mine, prompt: "write junk/a no\\nwrite .git/b no\\nwrite c yes"}
        """
    )
    # The store, the runs and the recording all lie where the agent works.
    place.run("run", "w.yaml", "--run-id", place.run_id, "--record", "kept", "--store", "log.db")
    kept = json.loads((place.folder / "kept/Edit.1.json").read_text())
    assert [change["path"] for change in kept["workspace"]] == ["c"]


def test_a_file_that_is_too_large_is_left_out_and_told(place: Agents) -> None:
    place.write("steps: [{name: Edit, provider: mine, prompt: 'write large $LARGE'}]\n")
    place.record(env={"LARGE": "x" * 100_000})
    assert "warnings" not in place.events("recorded")[-2]["payload"]
    agent = place.program.read_text().replace("expandvars(content)", "expandvars(content) * 20")
    place.program.write_text(agent)
    place.run(*place.words("w.yaml", "again"), "--record", "kept", env={"LARGE": "x" * 100_000})
    step = next(e for e in place.events("again") if e["eventType"] == "StepCompleted")
    warning = "the recording is without these files, which are too large: 'large'"
    assert step["payload"]["warnings"] == [warning]
    place.replay()
    assert place.history("replayed") == place.history("again")


def test_no_secret_is_ever_in_a_recording(place: Agents) -> None:
    place.write(
        """
        secrets: [TOKEN]
        steps:
          - name: Ask
            provider: mine
            secrets: [TOKEN]
            prompt: "say the token is ${env.TOKEN}\\nwrite token.txt $TOKEN"
          # What no process prints is masked by nobody else.
          - {name: Say, provider: echo, secrets: [TOKEN], prompt: "${env.TOKEN}"}
        """
    )
    token = "correct-horse-battery"
    place.record(env={"TOKEN": token})
    for path in (place.folder / "kept").iterdir():
        assert token not in path.read_text()
    # Another value is as good: it is masked, too.
    place.replay(env={"TOKEN": "another-horse"})
    place.check_the_same()
    assert (place.workspace / "token.txt").read_text() == "***\n"


def test_a_secret_of_several_lines_is_not_kept_line_by_line(place: Agents) -> None:
    place.write(
        """
        secrets: [KEY]
        steps: [{name: Say, provider: echo, secrets: [KEY], prompt: "this is it: ${env.KEY}"}]
        """
    )
    place.record(env={"KEY": "begin-of-key\nmiddle-of-key\nend-of-key"})
    kept = json.loads((place.folder / "kept/Say.1.json").read_text())
    assert kept["asked"]["prompt"] == ["this is it: ***"]
    assert kept["answer"]["text"] == ["this is it: ***"]


def test_a_call_that_its_join_made_needless_waits_to_be_stopped_again(place: Agents) -> None:
    place.write(
        """
        steps:
          - name: Race
            parallel:
              - {name: Slow, provider: mine, access: read, prompt: wait 60}
              - {name: Quick, provider: mine, access: read, prompt: say done}
            join: {wait_for: any}
        """
    )
    place.record()
    place.replay()
    place.check_the_same()
    stopped = next(
        e for e in place.events("replayed") if e.get("stepId") == "Race/Slow" and "error" in e["payload"]
    )
    assert stopped["payload"]["error"]["code"] == "JOIN_DECIDED"


def test_running_out_of_time_is_replayed_at_once(place: Agents) -> None:
    place.write(
        """
        steps:
          - {name: Ask, provider: mine, prompt: wait 60, timeout: 1, allow_failure: true}
          - {name: After, command: [echo, fine]}
        """
    )
    place.record()
    place.replay()
    place.check_the_same()


HELD = """
steps:
  - {name: One, provider: mine, prompt: guess}
  - {name: Two, provider: mine, prompt: "guess\\nwait 30", session: {resume: One}}
  - {name: Hold, command: [sh, -c, 'touch "$COUNTING/held"; test -f "$COUNTING/go" || sleep 30']}
  - {name: Three, provider: mine, prompt: guess, session: {resume: Two}}
"""


def test_a_run_that_was_killed_goes_on_recording_or_replaying(place: Agents) -> None:
    place.write(HELD)
    recorded = place.begin(*place.words("w.yaml", "recorded"), "--record", "kept")
    until((place.counting / "waits").exists)
    recorded.kill()
    ended(recorded)
    # The agent that was under way is stopped and asked again: it does not wait this time.
    place.program.write_text(AGENT.replace("time.sleep(float(rest))", "pass"))
    (place.counting / "go").touch()
    place.run("resume", "recorded", "--record", "kept")
    assert place.kept() == ["One.1.json", "Three.1.json", "Two.1.json", "recording.json"]

    for name in ("go", "held"):
        (place.counting / name).unlink()
    place.program.unlink()
    replayed = place.begin(*place.words("w.yaml", "replayed"), "--replay", "kept")
    until((place.counting / "held").exists)
    replayed.kill()
    ended(replayed)
    (place.counting / "go").touch()
    place.run("resume", "replayed", "--replay", "kept")
    place.check_the_same()


def test_a_failed_replay_goes_on_with_its_recording_when_it_is_resumed(place: Agents) -> None:
    place.write(
        """
        steps:
          - {name: One, provider: mine, prompt: guess}
          - {name: Check, command: [test, -f, go]}
          - {name: Two, provider: mine, prompt: guess, session: {resume: One}}
        """
    )
    (place.workspace / "go").touch()
    place.record()
    place.replay(code=1)
    (place.workspace / "go").touch()
    place.run("resume", "replayed", "--replay", "kept")
    assert (
        place.state("replayed")["steps"]["Two"]["output"] == place.state("recorded")["steps"]["Two"]["output"]
    )
    # Without the flag somebody is asked, and there is nobody.
    place.renew()
    place.replay(code=1, run_id="third")
    (place.workspace / "go").touch()
    assert "PROVIDER_NOT_INSTALLED" in place.run("resume", "third", code=78).stderr


def test_a_new_recording_takes_the_place_of_the_old_one_and_of_nothing_else(place: Agents) -> None:
    place.write("steps: [{name: Old, provider: mine, prompt: say old}]\n")
    place.record()
    place.write("steps: [{name: New, provider: mine, prompt: say new}]\n")
    place.run(*place.words("w.yaml", "r2"), "--record", "kept")
    assert place.kept() == ["New.1.json", "recording.json"]
    (place.folder / "mine").mkdir()
    (place.folder / "mine/notes.json").write_text("{}")
    done = place.run(*place.words("w.yaml", "r3"), "--record", "mine", code=64)
    assert "'mine' holds other files" in done.stderr
    assert (place.folder / "mine/notes.json").exists()


def test_what_is_no_recording_is_said_before_anything_runs(place: Agents) -> None:
    place.write("steps: [{name: Ask, provider: mine, prompt: say x}]\n")
    for folder, told in (("nowhere", "'nowhere' is not a recording"), ("workspace", "is not a recording")):
        done = place.run(*place.words("w.yaml", "r"), "--replay", folder, code=64)
        assert "RECORDING_UNUSABLE" in done.stderr
        assert told in done.stderr
    place.record()
    (place.folder / "kept/Ask.1.json").write_text('{"asked": 1}')
    done = place.run(*place.words("w.yaml", "r"), "--replay", "kept", code=64)
    assert "Ask.1.json' is not a recorded call" in done.stderr
    done = place.run("run", "w.yaml", "--record", "a", "--replay", "b", code=64)
    assert "give one of them" in done.stderr
    assert not (place.runs / "r").exists()


def test_of_two_versions_of_a_file_the_one_that_was_recorded_later_stays(place: Agents) -> None:
    """Agents that work at once see each other's files, also half-written ones."""
    place.write(
        """
        steps:
          - {name: One, provider: mine, prompt: write file.txt half}
          - {name: Other, provider: mine, prompt: write file.txt whole}
        """
    )
    place.record()
    for name, order, now in (("One.1", '"order": 1', '"order": 2'), ("Other.1", '"order": 2', '"order": 1')):
        file = place.folder / f"kept/{name}.json"
        assert order in file.read_text()
        file.write_text(file.read_text().replace(order, now))
    place.replay()
    assert (place.workspace / "file.txt").read_text() == "half\n"


@pytest.mark.parametrize("path", ["../out.txt", "/tmp/podium-out.txt", ".git/hooks/pre-commit", "a/.."])
def test_a_recording_cannot_write_where_no_agent_should(place: Agents, path: str) -> None:
    place.write("steps: [{name: Edit, provider: mine, prompt: write in.txt hello}]\n")
    place.record()
    file = place.folder / "kept/Edit.1.json"
    file.write_text(file.read_text().replace('"in.txt"', json.dumps(path)))
    place.replay(code=1)
    assert place.error("Edit")["code"] == "PATH_REFUSED"
    assert list(place.workspace.iterdir()) == []
    assert not Path("/tmp/podium-out.txt").exists()


def test_a_provider_that_is_not_installed_is_not_needed(place: Agents) -> None:
    (place.folder / "bin/claude").write_text("#!/bin/sh\nexit 1\n")
    (place.folder / "bin/claude").chmod(stat.S_IRWXU)
    place.write("steps: [{name: Ask, provider: claude, prompt: hello, allow_failure: true}]\n")
    bare = {"PATH": f"{place.folder / 'bin'}:/usr/bin:/bin", "ANTHROPIC_API_KEY": "a-key-that-is-none"}
    place.record(env=bare)
    (place.folder / "bin/claude").unlink()
    place.run(*place.words("w.yaml", "x"), code=78, env={"PATH": "/usr/bin:/bin"})
    place.replay(env={"PATH": "/usr/bin:/bin"})
    place.check_the_same()


def test_ctrl_c_ends_a_replay_that_waits(place: Agents) -> None:
    place.write(
        """
        steps:
          - name: Race
            parallel:
              - {name: Slow, provider: mine, access: read, prompt: wait 60}
              - {name: Quick, command: [sh, -c, "test -f stop || sleep 0.3; test ! -f stop || sleep 60"]}
            join: {wait_for: any}
        """
    )
    place.record()
    place.program.unlink()
    (place.workspace / "stop").touch()
    process = place.begin(*place.words("w.yaml", "replayed"), "--replay", "kept")
    until(lambda: place.processes("replayed"))
    process.send_signal(signal.SIGINT)
    assert ended(process)[0] == 2
