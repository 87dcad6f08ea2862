"""Questions at a terminal, without a run behind them."""

import asyncio
import errno
import os
import pty
from collections.abc import Iterator
from typing import Any, TextIO

import pytest

from podium.cli.asking import Questions
from podium.log.notes import RunNotes
from tests.unit.machine.hosting import IDENTITY, plan_of

PLAN = plan_of("steps: [{name: Ask, approval: Really?}]")


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

    def lost(_lines: int) -> None:
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
