"""The live view shows what runs now, however long the run has been."""

import sys
from io import StringIO
from pathlib import Path

import click
import pytest
from rich.console import Console

from podium.cli.above_live import AboveLive
from podium.cli.live import LiveView
from podium.cli.live_tree import Leaf, Window, bar_of, lines_of_tree, tree_of
from podium.cli.progress import Quiet, line_of, retried_steps
from podium.cli.summary import table_of
from podium.cli.truncate import cut_middle
from podium.log.events import EventType
from podium.log.ids import RunId
from podium.log.times import moment
from podium.machine.obligations import Obligation
from podium.machine.progress import LoopProgress, Progress
from podium.operations.printed import table_lines
from podium.operations.report_rows import ReportRow
from podium.operations.short_reasons import short_reason
from podium.ports.engine import RunEnded
from podium.text import width_of
from tests.unit.machine.hosting import START, record_of

DUE = "2026-01-01T00:00:04.000Z"


def _tree(progress: Progress, width: int = 80, height: int = 20, tail: tuple[str, ...] = ()) -> list[str]:
    root = tree_of(progress, lambda one: Leaf(one, "1 s", "yellow"))
    return [line.plain for line in lines_of_tree(root, Window(width, height), lambda _: tail)]


def _tasks(*paths: str) -> list[Obligation]:
    return [Obligation("task", path) for path in paths]


def test_a_loop_is_a_bar_with_the_items_that_run_below_it() -> None:
    progress = Progress(_tasks("L#2[47]/A", "L#2[48]/B/C"), (LoopProgress("L", 60, 47, 2),))
    assert _tree(progress) == [
        "└ L  ━━━━━━━━━━━━━━━━━━━━────── 47/60, 2 failed",
        "  ├ [47]/A  1 s",
        "  └ [48]/B/C  1 s",
    ]


def test_one_failure_among_many_items_is_seen_in_the_bar() -> None:
    assert bar_of(LoopProgress("L", 10_000, 9_000, 1), 20) == (17, 1)
    assert bar_of(LoopProgress("L", 10, 10, 10), 20) == (0, 20)


def test_a_loop_of_unknown_length_is_counted() -> None:
    assert _tree(Progress((), (LoopProgress("L", 0, 3, 0),))) == ["└ L  3 done"]


def test_last_lines_are_shown_as_far_as_there_is_room() -> None:
    progress = Progress(_tasks("A", "B"))
    assert len(_tree(progress, height=20, tail=("1", "2", "3", "4"))) == 8
    assert _tree(progress, height=4, tail=("1", "2")) == ["├ A  1 s", "│   2", "└ B  1 s", "    2"]
    assert _tree(progress, height=2, tail=("1", "2")) == ["├ A  1 s", "└ B  1 s"]


@pytest.mark.parametrize("height", [1, 2, 5, 10, 30])
@pytest.mark.parametrize("width", [20, 80, 200])
def test_a_tree_fits_its_window_whatever_runs(width: int, height: int) -> None:
    paths = [f"{'long name ' * 20}{loop}[{item}]/步骤{'很' * 30}" for loop in range(5) for item in range(40)]
    loops = tuple(LoopProgress(f"{'long name ' * 20}{loop}", 99, 40, 9) for loop in range(5))
    lines = _tree(Progress(_tasks(*paths), loops), width, height, tail=("x" * 300,))
    assert 0 < len(lines) <= height
    assert max(map(width_of, lines)) <= width


def test_a_name_is_cut_in_the_middle_and_keeps_its_index() -> None:
    assert cut_middle("Build everything that there is[17]", 20) == "Build ev…here is[17]"
    assert cut_middle("Build", 20) == "Build"
    assert cut_middle("a very long name", 3) == "a…e"
    assert cut_middle("Ship [31mit, or not? [y/n/details]", 20) == "Shi…t? [y/n/details]"


def test_the_columns_of_a_table_are_straight_whatever_letters_names_have() -> None:
    files = ("logs/steps/______-d632f1aa41.1.out",)
    rows = [
        ReportRow(name, "ok", 1, 0, 3, {}, "", files)
        for name in ("Build", "名前の長いステップ" * 4, "e\u0301te", "ship 🚀")
    ]
    heading, *lines = [line.plain for line in table_of(rows, 80)]
    start = width_of(heading.partition("time")[0])
    assert [width_of(line.partition("3.0 s")[0]) for line in lines] == [start] * 4
    assert max(map(width_of, lines)) <= 80
    printed = table_lines(("step", "status"), [(row.step_id, row.word) for row in rows])
    assert {width_of(line.removesuffix("status").removesuffix("ok")) for line in printed} == {2 * 36 + 2}


def test_a_name_cannot_draw_on_the_terminal() -> None:
    assert _tree(Progress(_tasks("\x1b[2J\nA"))) == ["└ \\x1b/[2J\\nA  1 s"]


def test_a_failure_that_is_tried_again_is_told_from_one_that_is_not() -> None:
    failed = record_of(1, EventType.STEP_FAILED, "A", 1, {"error": {"message": "exit code 1"}}, START)
    retry = record_of(2, EventType.STEP_RETRY_SCHEDULED, "A", 1, {"due": START, "nextAttempt": 2}, START)
    assert line_of(failed, retried_steps([failed, retry])) == "~  A: exit code 1"
    assert line_of(failed, retried_steps([failed])) == "x  A: exit code 1"


def test_a_run_took_no_longer_because_something_was_delivered_after_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 10.0
    monkeypatch.setattr("podium.cli.progress.time.monotonic", lambda: now)
    view = Quiet(tmp_path)
    now += 2
    view.observe([record_of(1, EventType.RUN_COMPLETED, None, 0, {}, START)])
    now += 5
    view.end(RunEnded(RunId("nightly-3f2a"), EventType.RUN_COMPLETED, 0, "", ""))
    assert capsys.readouterr().out.startswith("completed after 2.0 s\n")


@pytest.mark.parametrize(
    ("obligation", "text"),
    [
        (Obligation("slot", "A"), "waiting for a free slot"),
        (
            Obligation("timer", "A", 2, DUE, detail="the next try", next_try=2, max_tries=3),
            "retry 2 of 3 in 4 s",
        ),
        (Obligation("timer", "A", 2, DUE, detail="the next pass"), "next pass in 4 s"),
        (Obligation("approval", "A"), "waiting for approval: Ship it?"),
        (Obligation("task", "A", detail="stopping"), "is being stopped"),
        (Obligation("task", "A"), ""),
    ],
)
def test_what_a_step_waits_for_is_said_in_few_words(obligation: Obligation, text: str) -> None:
    assert short_reason(obligation, moment("2026-01-01T00:00:00.000Z"), "Ship it?") == text


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
    view.typed("y\n")
    assert written.getvalue() == ""
    view._live.start()
    written.truncate(0)
    view.typed("y\n")
    view._live.stop()
    assert "\x1b[1A" in written.getvalue().partition("\x1b[2K")[0]


def test_what_is_typed_is_not_drawn_over_while_nothing_else_changes(tmp_path: Path) -> None:
    view = LiveView(tmp_path, "w")
    written = StringIO()
    view._live.console = view._console = Console(file=written, force_terminal=True, width=80, height=20)
    view.progress(Progress([Obligation("approval", "Ask")]))
    view.ask("Ask", "waiting for your approval: Ship it? [y/n/details]")
    view._live.start(refresh=True)
    drawn = written.getvalue()
    view._live.refresh()
    assert written.getvalue() == drawn
    view.ask("Ask", "version (string, required):")
    view._live.refresh()
    assert "version (string, required):" in written.getvalue()
    view._live.stop()


def test_nothing_runs_in_the_view_of_a_run_that_has_ended(tmp_path: Path) -> None:
    """The process may still deliver notifications while the view is open."""
    view = LiveView(tmp_path, "w")
    view._console = Console(file=StringIO(), force_terminal=True, width=80, height=20)
    view.progress(Progress(_tasks("Build"), (LoopProgress("L", 2, 1, 0),)))
    assert len(view._lines(view._console.size)) > 1
    view.observe([record_of(1, EventType.RUN_COMPLETED, None, 0, {}, START)])
    (line,) = view._lines(view._console.size)
    assert line.plain.endswith(" s")


def test_a_long_question_keeps_the_answers_that_it_takes() -> None:
    question = f"waiting for your approval: {'Ship it? ' * 20}[y/n/details]"
    progress = Progress([Obligation("approval", "Ask")])
    root = tree_of(progress, lambda one: Leaf(one, question, "", is_question=True))
    (line,) = lines_of_tree(root, Window(60, 20), lambda _: ())
    assert line.plain.endswith("[y/n/details]")
    assert line.cell_len == 60
