"""When the time of a step is up, nothing of it is left: not even a tool that runs in a session of its own."""

from uuid import uuid4

import pytest

from podium.ports.provider import AgentSettings
from podium.runtime.tasks import families
from tests.agents.asking import Desk, processes_with, timed_out
from tests.agents.servers import Calls, Says

PROGRAM = "claude"


@pytest.mark.parametrize(
    ("desk", "tool", "key"),
    [
        ("claude", "Bash", "command"),
        ("codex", "exec_command", "cmd"),
        ("gemini", "run_shell_command", "command"),
    ],
    indirect=["desk"],
)
def test_a_timeout_ends_the_program_and_its_tool(desk: Desk, tool: str, key: str) -> None:
    mark = f"300.{uuid4().int % 10**12:012}"
    command = f"touch begun; setsid sh -c 'touch apart; sleep {mark}'"
    settings = AgentSettings(access="full")
    answer = desk.ask(
        [Calls(tool, {key: command, "description": "x"}), Says("done")],
        settings,
        env={"IS_SANDBOX": "1"},
        doing=timed_out(desk.workspace / "apart"),
    )
    assert answer.stopped >= 3, "the program, a shell and the sleeping tool were running"
    assert processes_with(mark) == []
    assert families.of_run(desk.run_id, desk.workspace.parent) == []
