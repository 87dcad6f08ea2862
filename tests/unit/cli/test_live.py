"""The live view shows what runs now, however long the run has been."""

import sys
from io import StringIO
from itertools import count
from pathlib import Path

import click
import pytest
from rich.console import Console

from podium.cli.above_live import AboveLive
from podium.cli.live import LiveView
from podium.log.events import EventType
from tests.unit.machine.hosting import START, record_of


def _shown(view: LiveView) -> list[str]:
    file = StringIO()
    Console(file=file, width=200).print(view._now())
    return file.getvalue().splitlines()


def test_a_loop_is_one_line_while_it_runs_and_none_when_it_has_ended(tmp_path: Path) -> None:
    view = LiveView(tmp_path, "w")
    seq = count(1)

    def happens(event_type: str, path: str, attempt: int = 1) -> None:
        view.observe([record_of(next(seq), event_type, path, attempt, {}, START)])

    for visit in range(1, 50):
        loop = "L" if visit == 1 else f"L#{visit}"
        for index in range(30):
            happens(EventType.STEP_STARTED, f"{loop}[{index}]/A")
            happens(EventType.STEP_COMPLETED, f"{loop}[{index}]/A")
        assert [line.strip() for line in _shown(view)[:-1]] == ["L: 30 steps done"]
        happens(EventType.STEP_COMPLETED, "L", visit)
        assert len(_shown(view)) == 1


def test_what_is_printed_beside_a_live_view_goes_through_its_console(monkeypatch: pytest.MonkeyPatch) -> None:
    written = StringIO()
    console = Console(file=written, width=20)
    monkeypatch.setattr(sys, "stdout", AboveLive(console, sys.stdout))
    click.echo("`podium approve a-long-run-id Ask`")
    click.echo("first ", nl=False)
    click.echo("second")
    assert written.getvalue() == "`podium approve a-long-run-id Ask`\nfirst second\n"


def test_after_a_typed_line_the_view_is_drawn_in_its_own_place(tmp_path: Path) -> None:
    view = LiveView(tmp_path, "w")
    written = StringIO()
    view._console = Console(file=written, force_terminal=True, width=80)
    view._live.console = view._console
    view.typed(1)
    assert written.getvalue() == ""
    view._live.start()
    written.truncate(0)
    view.typed(1)
    view._live.stop()
    assert "\x1b[1A" in written.getvalue().partition("\x1b[2K")[0]
