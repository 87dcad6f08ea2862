"""What is known of an agent while it is at work."""

import json
from pathlib import Path
from typing import Any

import pytest

from podium.log.ids import RunId
from podium.log.redaction import Redactor
from podium.plan.plan import Agent, Block, Prompt, Step, Workflow
from podium.ports.provider import Progress, Provider
from podium.providers.registry import find_provider
from podium.runtime.rundir import RunDirectory
from podium.runtime.tasks.host import TaskHost
from podium.runtime.tasks.order import TaskOrder
from podium.runtime.tasks.output import Output
from podium.runtime.tasks.watching import Watch, interrupted_session

STEP = Step("Ask", Agent("claude", Prompt("hi")))
SECRET = "s3cret-value"


def order(engine_attempt: int = 1) -> TaskOrder:
    workflow = Workflow("w", Block("implied", (STEP,)))
    return TaskOrder(RunId("r"), "Ask", 1, engine_attempt, STEP, workflow, {}, {}, {})


@pytest.fixture
def host(tmp_path: Path) -> TaskHost:
    directory = RunDirectory(tmp_path, "r")
    directory.make()
    return TaskHost(directory, tmp_path, redactor=Redactor([SECRET]))


def lines(host: TaskHost) -> list[str]:
    return host.directory.step_file("Ask", 1, "progress").read_text().splitlines()


def heard(host: TaskHost, name: str, *said: Any) -> list[str]:
    watch = Watch(order(), find_provider(name), host)
    watch.begin()
    for one in said:
        watch.hear(json.dumps(one).encode())
    return lines(host)


def claude(*blocks: dict[str, Any], tokens: int = 10) -> dict[str, Any]:
    message = {"content": list(blocks), "usage": {"output_tokens": tokens}}
    return {"type": "assistant", "session_id": "s", "message": message}


def uses(tool: str, **arguments: str) -> dict[str, Any]:
    return {"type": "tool_use", "name": tool, "input": arguments}


def test_turns_tools_and_tokens_of_claude(host: TaskHost) -> None:
    assert heard(
        host,
        "claude",
        {"type": "system", "subtype": "init", "session_id": "s"},
        claude({"type": "text", "text": "I look"}),
        # One message comes in several lines, each with what the whole message has cost so far.
        claude(uses("Read", file_path="a.py")),
        claude(uses("Bash", command="ls"), tokens=12),
        {"type": "user", "message": {}},
        {"type": "user", "message": {}},
        claude({"type": "text", "text": "done"}, tokens=5),
        {"type": "result"},
    ) == [
        "turn 1: writes (10 tokens)",
        "turn 1: Read a.py (10 tokens)",
        "turn 1: Bash ls (12 tokens)",
        "turn 2: writes (17 tokens)",
    ]


def test_turns_and_tools_of_codex_and_its_session_from_its_first_line(host: TaskHost) -> None:
    command = {"type": "command_execution", "command": "make test"}
    assert heard(
        host,
        "codex",
        {"type": "thread.started", "thread_id": "t-1"},
        {"type": "item.started", "item": command},
        {"type": "item.completed", "item": command},
        {"type": "item.completed", "item": {"type": "agent_message", "text": "done"}},
        {"type": "turn.completed", "usage": {"output_tokens": 7}},
    ) == ["turn 1: command_execution make test", "turn 2: writes", "turn 2: writes (7 tokens)"]
    assert interrupted_session(order(2), find_provider("codex"), host) == "t-1"
    # Of a visit that nobody has interrupted there is nothing to go on with.
    assert interrupted_session(order(1), find_provider("codex"), host) is None
    assert interrupted_session(order(2), find_provider("echo"), host) is None


def test_turns_and_tools_of_gemini(host: TaskHost) -> None:
    assert heard(
        host,
        "gemini",
        {"type": "init", "session_id": "g"},
        {"type": "tool_use", "tool_name": "read_file", "parameters": {"path": "a"}},
        {"type": "tool_result"},
        {"type": "message", "role": "assistant", "content": "do"},
        {"type": "message", "role": "assistant", "content": "ne"},
        {"type": "result", "stats": {"output_tokens": 3}},
    ) == ["turn 1: read_file a", "turn 2: writes", "turn 2: writes (3 tokens)"]


def test_what_a_tool_is_used_on_is_shown_in_one_short_line_that_controls_no_terminal(host: TaskHost) -> None:
    (line,) = heard(host, "claude", claude(uses("Ba\nsh\x1b[2J", command="\x9b31m\u2028" + "y" * 1000)))
    assert line.startswith("turn 1: Ba sh [2J 31m yyy")
    assert line.isprintable()
    assert len(line) < 200


def test_a_secret_is_masked_before_anything_is_cut(host: TaskHost) -> None:
    watch = Watch(order(), find_provider("claude"), host)
    watch.begin()
    output = Output(host.directory.path / "log", keep=10, redactor=host.redactor, on_line=watch.hear)
    command = "z" * (200 - len("s3cr")) + SECRET
    raw = json.dumps(claude(uses("Bash", command=command))).encode() + b"\n"
    for place in range(0, len(raw), 7):
        output.write(raw[place : place + 7])
    output.close()
    watch.hear_raw(json.dumps(claude(uses("Read", file_path=SECRET))).encode())
    assert "s3c" not in host.directory.step_file("Ask", 1, "progress").read_text()
    assert lines(host)[1] == "turn 1: Read *** (10 tokens)"


def test_a_line_that_is_too_long_is_left_out_and_the_next_one_is_heard(host: TaskHost) -> None:
    told: list[bytes] = []
    output = Output(host.directory.path / "log", keep=10, redactor=None, on_line=told.append)
    for chunk in (b"one\ntw", b"o\n\n", b"x" * (1 << 20), b"x", b"y\nthree\n", b"unfinished"):
        output.write(chunk)
    output.close()
    assert told == [b"one", b"two", b"three"]


class Broken:
    name = "broken"
    sessions = "named"

    def observe(self, line: bytes) -> Progress | None:
        raise KeyError(line)


def test_a_provider_that_cannot_follow_its_agent_does_no_harm(host: TaskHost) -> None:
    provider: Provider = Broken()  # type: ignore[assignment]
    watch = Watch(order(), provider, host)
    watch.begin()
    watch.hear(b"a")
    watch.hear(b"b")
    assert lines(host) == ["it cannot be followed any more: KeyError"]


def test_files_that_cannot_be_written_do_no_harm(host: TaskHost) -> None:
    for kind in ("progress", "session"):
        host.directory.step_file("Ask", 1, kind).mkdir()
    watch = Watch(order(), find_provider("claude"), host)
    watch.begin()
    watch.keep_session("s")
    watch.hear(json.dumps(claude(uses("Bash", command="ls"))).encode())
    assert interrupted_session(order(2), find_provider("claude"), host) is None


def test_progress_has_a_limit(host: TaskHost) -> None:
    said = [claude(uses("Bash", command=f"{number} " + "y" * 150)) for number in range(10_000)]
    heard(host, "claude", *said)
    assert host.directory.step_file("Ask", 1, "progress").stat().st_size <= 1 << 20


@pytest.mark.parametrize("session", ["--dangerous", "", "a\nb", "x" * 201])
def test_a_session_that_is_no_name_is_not_gone_on_with(host: TaskHost, session: str) -> None:
    watch = Watch(order(), find_provider("claude"), host)
    watch.begin()
    watch.keep_session(session)
    assert interrupted_session(order(2), find_provider("claude"), host) is None


def test_who_is_not_shown_is_heard_all_the_same(host: TaskHost) -> None:
    watch = Watch(order(), find_provider("claude"), host)
    watch.hear(json.dumps(claude(uses("Bash", command="ls"))).encode())
    assert not host.directory.step_file("Ask", 1, "progress").exists()
    assert "s" in host.directory.step_file("Ask", 1, "session").read_text()
