"""Whole runs with the real programs: prompts, tools, results, sessions, retries, limits, from the workflow to the log.

The tests of each program tell what it does; these tell what a user's run makes of it.
"""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from tests.agents.asking import processes_with
from tests.agents.box import Box
from tests.agents.running import KEY, MODELS, PROGRAMS, Runs
from tests.agents.servers import Asked, Calls, Decides, Refuses, Says, Turn

SHELLS = {
    "claude": ("Bash", "command"),
    "codex": ("exec_command", "cmd"),
    "gemini": ("run_shell_command", "command"),
}
OVERLOADS: dict[str, Turn] = {
    "claude": Refuses(529, "overloaded_error"),
    "codex": Refuses(503, "server_error"),
    "gemini": Refuses(503, "UNAVAILABLE"),
}


def shell(program: str, command: str) -> Calls:
    tool, key = SHELLS[program]
    # codex gives a slow command back to the model after a while, unless it is told to wait.
    return Calls(
        tool, {key: command, "description": "x", **({"yield_time_ms": 60_000} if key == "cmd" else {})}
    )


def told(asked: Asked) -> str:
    """All that the model was told, in whatever dialect."""
    return str(asked.body.get("messages") or asked.body.get("input") or asked.body.get("contents"))


@pytest.fixture
def runs(tmp_path: Path, box: Box, words: Callable[[str], list[str]]) -> Runs:
    return Runs(tmp_path, box, words)


@pytest.mark.rule("D50", "D51", "D52", "R093")
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_judge_goes_on_in_the_session_of_the_work_and_its_verdict_is_repaired(
    runs: Runs, program: str
) -> None:
    workflow = f"""
context: {{topic: rivers}}
defaults: {{provider: {program}}}
steps:
  - name: Work
    model: {MODELS[program]}
    prompt: "Write a haiku about ${{context.topic}}."
    access: full
    output_file: haiku.txt
  - name: Judge
    model: {MODELS[program]}
    prompt: Is it good?
    session: {{resume: Work}}
    input_file: haiku.txt
    expect:
      schema:
        type: object
        required: [approved]
        additionalProperties: false
        properties: {{approved: {{type: boolean}}}}
  - name: Approved
    when: {{expr: "${{steps.Judge.json.approved}}"}}
    on: {{success: {{end: true}}, failure: {{error: not approved}}}}
"""
    work: list[Turn] = [shell(program, "echo drafted > draft"), Says("the river runs on")]
    # claude reminds the model by itself, once, before it gives up.
    wrong: list[Turn] = [Says("all fine"), Says("all fine")] if program == "claude" else [Says("all fine")]
    right: Turn = (
        Calls("StructuredOutput", {"approved": True}) if program == "claude" else Says('{"approved": true}')
    )
    asked = runs.run(workflow, {program: [*work, *wrong, right, Says("done")]}).asked(program)
    assert (runs.folder / "draft").read_text() == "drafted\n"
    assert (runs.path / "artifacts/haiku.txt").read_text() == "the river runs on"
    judging = asked[len(work)]
    assert "about rivers" in told(judging), "the conversation so far"
    assert "## haiku.txt" in told(judging), "the file, under its name"
    repairing = asked[len(work) + len(wrong)]
    assert "all fine" in told(repairing)
    assert "does not fit" in told(repairing)
    assert runs.ends("Judge")[-1]["json"] == {"approved": True}
    assert runs.step("Work")["session"] == runs.step("Judge")["session"]
    # Each turn of the script costs 17 tokens; a session that goes on is not paid for twice.
    assert runs.step("Work")["usage"]["tokens"] == 2 * (20 if program == "claude" else 17)
    prompt = (runs.path / "logs/steps/Judge.1.prompt").read_text()
    assert "Is it good?" in prompt
    assert "does not fit" in prompt


@pytest.mark.rule("D52")
@pytest.mark.parametrize("program", PROGRAMS)
def test_an_overload_and_a_cut_answer_are_failures_that_may_be_tried_again(runs: Runs, program: str) -> None:
    workflow = f"""
steps:
  - {{name: Ask, provider: {program}, model: {MODELS[program]}, prompt: hello, retry: {{attempts: 3, delay: 0.1}}}}
"""
    cut = [Says("half of", cut=True)] * (2 if program == "claude" else 1)
    turns = [OVERLOADS[program], *cut, Says("the whole answer")]
    runs.run(workflow, {program: turns})
    step = runs.step("Ask")
    assert (step["output"], step["attempts"]) == ("the whole answer", 3)
    lost = "PROVIDER_UNAVAILABLE" if program == "claude" else "AGENT_TRUNCATED"
    assert runs.codes("Ask") == ["OVERLOADED", lost, None]


@pytest.mark.rule("D08", "D40")
def test_when_their_time_is_up_nothing_of_them_is_left_not_even_tools_in_sessions_of_their_own(
    runs: Runs,
) -> None:
    """All three at once: each has started a tool that has left its group and its session."""
    mark = f"300.{uuid4().int % 10**12:012}"
    steps = "".join(
        f"      - {{name: {name}, provider: {name}, model: {MODELS[name]}, prompt: go, access: full,"
        f" timeout: 25, allow_failure: true}}\n"
        for name in PROGRAMS
    )
    workflow = f"steps:\n  - name: All\n    parallel:\n{steps}"
    turns: dict[str, list[Turn]] = {
        name: [shell(name, f"setsid sh -c 'touch apart-{name}; sleep {mark}'; true"), Says("done")]
        for name in PROGRAMS
    }
    runs.run(workflow, turns)
    for name in PROGRAMS:
        assert (runs.folder / f"apart-{name}").exists(), "its tool was running"
        assert runs.codes(f"All/{name}") == ["TIMEOUT"]
        assert runs.ends(f"All/{name}")[0]["session"], "one can go on with it"
    assert processes_with(mark) == []
    assert runs.processes() == []


@pytest.mark.rule("D52")
@pytest.mark.parametrize(
    ("program", "code"),
    [("claude", "AGENT_DENIED"), ("gemini", "AGENT_DENIED"), ("codex", "EXPECTATION_FAILED")],
)
def test_what_was_denied_fails_the_step_and_where_nobody_tells_expect_does(
    runs: Runs, program: str, code: str
) -> None:
    workflow = f"""
steps:
  - name: Ask
    provider: {program}
    model: {MODELS[program]}
    access: read
    prompt: Write the file.
    expect: {{files: [made]}}
    on: {{failure: {{error: it has no file}}}}
"""
    command = f"touch {runs.path}/artifacts/made"
    runs.run(workflow, {program: [shell(program, command), Says("I wrote it")]}, code=1)
    assert runs.codes("Ask") == [code]
    assert not (runs.path / "artifacts/made").exists()


@pytest.mark.rule("D52")
def test_a_limit_of_turns_is_told_and_what_was_paid_is_counted(runs: Runs) -> None:
    workflow = "steps: [{name: Ask, provider: claude, prompt: go, access: full, max_turns: 1}]"
    runs.run(workflow, {"claude": [shell("claude", "true"), Says("never heard")]}, code=1)
    assert runs.codes("Ask") == ["MAX_TURNS"]
    assert runs.step("Ask")["usage"]["tokens"] > 0


def test_a_long_answer_comes_whole_although_the_programs_do_not_wait_for_their_reader(runs: Runs) -> None:
    steps = "".join(
        f"      - {{name: {name}, provider: {name}, model: {MODELS[name]}, access: read, prompt: go}}\n"
        for name in PROGRAMS
    )
    # gemini stops a model that repeats itself.
    answer = " ".join(map(str, range(70_000)))
    workflow = f"steps:\n  - name: All\n    parallel:\n{steps}"
    runs.run(workflow, {name: [Says(answer)] for name in PROGRAMS})
    for name in PROGRAMS:
        assert (runs.path / f"logs/steps/All~{name}.1.txt").read_text() == answer


@pytest.mark.rule("D34", "D35")
def test_the_key_of_a_provider_reaches_its_steps_alone_and_is_masked(runs: Runs) -> None:
    workflow = """
steps:
  - {name: Ask, provider: claude, prompt: hello}
  - {name: Look, command: [sh, -c, 'echo "key=[$ANTHROPIC_API_KEY]"']}
"""
    runs.run(workflow, {"claude": [Says(f"the key is {KEY}")]})
    assert runs.step("Look")["output"].strip() == "key=[]"
    assert runs.step("Ask")["output"] == "the key is ***"
    assert [path for path in runs.files() if KEY.encode() in path.read_bytes()] == []


@pytest.mark.rule("D35")
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_prompt_of_five_megabytes_is_given_as_a_file_that_the_agent_may_read(
    runs: Runs, program: str
) -> None:
    """All three refuse it as a message before anything is paid. It holds the key, which nothing may keep."""
    lines = "\n".join("word " * 20 for _ in range(50_000))
    (runs.folder / "long.md").write_text(f"Begin with ${{env.GEMINI_API_KEY}}.\n{lines}\nThe end is near.\n")
    workflow = f"""
secrets: [GEMINI_API_KEY]
steps:
  - name: Ask
    provider: {program}
    model: {MODELS[program]}
    access: read
    secrets: [GEMINI_API_KEY]
    prompt_file: long.md
"""
    asked = runs.run(workflow, {program: [Decides(partial(reads, program)), Says("I have read it")]}).asked(
        program
    )
    assert "too long for one message" in told(asked[0])
    assert f"Begin with {KEY}." in told(asked[1])
    step = runs.step("Ask")
    assert step["output"] == "I have read it"
    assert "given as a file" in str(runs.ends("Ask")[-1]["warnings"])
    prompt = (runs.path / "logs/steps/Ask.1.prompt").read_text()
    assert prompt.startswith("Begin with ***.\n")
    assert "The end is near.\n" in prompt
    assert [path for path in runs.files() if KEY.encode() in path.read_bytes()] == []


def reads(program: str, asked: Asked) -> Calls:
    """The beginning of the file that the prompt names."""
    found = re.search(r"/[^\s'\"\\\\]*/task\.md", told(asked))
    assert found is not None
    match program:
        case "claude":
            return Calls("Read", {"file_path": found[0], "offset": 1, "limit": 3})
        case "gemini":
            return Calls("read_file", {"file_path": found[0], "start_line": 1, "end_line": 3})
        case _:
            return Calls("exec_command", {"cmd": f"head -n 3 {found[0]}"})
