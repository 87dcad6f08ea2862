"""Questions at a terminal, without a run behind them."""

import asyncio
import errno
import os
import pty
from collections.abc import Iterator
from typing import Any, TextIO

import pytest

from podium.cli.asking import FormFilling, Questions
from podium.log.notes import RunNotes
from podium.plan.loading import walk
from podium.plan.plan import Approval
from tests.unit.machine.hosting import IDENTITY, plan_of

PLAN = plan_of("steps: [{name: Ask, approval: Really?}]")


def test_each_answer_to_a_form_is_checked_before_the_next_question() -> None:
    plan = plan_of(
        "steps: [{name: Ask, approval: {message: Really?, form: {"
        "level: {enum: [low, high]}, number: {type: int, required: true}, sure: {type: bool}}}}]"
    )
    ((_path, step),) = walk(plan.workflow)
    assert isinstance(step.body, Approval)
    filling = FormFilling(step.body.form)
    typed = ["medium", "low", "", "three", "3", "yes", "true"]
    assert [(filling.prompt, filling.take(line)) for line in typed] == [
        ("level (low or high):", "the field 'level' is 'medium'; allowed: low, high"),
        ("level (low or high):", ""),
        ("number (int, required):", "this field is required"),
        ("number (int, required):", "the field 'number' is 'three', but its type is int"),
        ("number (int, required):", ""),
        ("sure (true or false):", "the field 'sure' is 'yes', but its type is bool"),
        ("sure (true or false):", ""),
    ]
    assert filling.prompt is None
    assert filling.values == {"level": "low", "number": "3", "sure": "true"}


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, TextIO]]:
    """Our end of a terminal, and the standard input at the other one."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        yield ours, stdin


@pytest.mark.rule("D29")
def test_a_terminal_that_is_gone_is_not_read_again_and_again(terminal: tuple[int, TextIO]) -> None:
    ours, stdin = terminal
    errors: list[dict[str, Any]] = []

    async def answered(*_signal: Any, **_payload: Any) -> None:
        raise AssertionError

    def lost(_text: str) -> None:
        raise OSError(errno.EIO, "the view has lost its terminal, too")

    async def scenario() -> bool:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: errors.append(context))
        questions = Questions(answered, PLAN, lost)
        questions.recall(IDENTITY, RunNotes(questions={"Ask": "Really?"}))
        os.close(ours)
        # The loop looks at the terminal once in each of its rounds.
        for _ in range(10):
            await asyncio.sleep(0)
        return loop.remove_reader(stdin.fileno())

    is_still_read = asyncio.run(scenario())
    assert errors == []
    assert not is_still_read


def test_a_message_of_several_lines_is_one_line_in_the_tree_and_whole_in_the_details(
    terminal: tuple[int, TextIO], capsys: pytest.CaptureFixture[str]
) -> None:
    ours, _stdin = terminal
    asked: list[str] = []

    async def answered(*_signal: Any, **_payload: Any) -> None:
        raise AssertionError

    async def scenario() -> None:
        questions = Questions(answered, PLAN, lambda _text: None, lambda _step, prompt: asked.append(prompt))
        questions.recall(IDENTITY, RunNotes(questions={"Ask": "Ship it?\n\n- 3 files\n"}))
        os.write(ours, b"details\n")
        while "reject" not in "".join(shown := [*capsys.readouterr()]):
            await asyncio.sleep(0.01)
        assert shown[0].startswith("Ask: Ship it?\n\n  - 3 files\n  context ")

    asyncio.run(asyncio.wait_for(scenario(), 30))
    assert asked == ["waiting for your approval: Ship it?  - 3 files [y/n/details]"]
