"""The live view at a terminal: ended steps scroll by, and below them a tree shows what runs or waits."""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from typing import Any, Final

from rich.console import Console, ConsoleDimensions, Group, RenderableType
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType
from rich.text import Text

from podium.cli.above_live import AboveLive
from podium.cli.durations import spell_elapsed
from podium.cli.hints import lines_of
from podium.cli.live_tree import Leaf, Window, lines_of_tree, tree_of
from podium.cli.progress import Lines, line_of, people_read, print_reuse, retried_steps
from podium.log.events import EventRecord, EventType
from podium.log.ids import RunId
from podium.log.payloads import StepEnd, payload_of
from podium.log.transitions import RUN_ENDS
from podium.log.usage import charged_steps, describe_usage
from podium.machine.obligations import FOR_A_PERSON, Obligation
from podium.machine.progress import Progress
from podium.operations.explaining import Reason
from podium.operations.short_reasons import short_reason
from podium.ports.engine import Notice
from podium.runtime.rundir import RunDirectory
from podium.runtime.tasks.capturing import tail_of
from podium.text import visible

_WAITING: Final = Progress(())
# The terminal shows what is typed behind it.
_ENTRY: Final = "> "
_UP_ONE_LINE: Final = Control((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2))


class _QuietLive(Live):
    """Does not draw over what is being typed, as long as nothing else would be drawn."""

    def __init__(self, is_quiet: Callable[[], bool], **options: Any) -> None:
        self._is_quiet = is_quiet
        super().__init__(**options)

    def refresh(self) -> None:
        if not (self.is_started and self._is_quiet()):
            super().refresh()


class LiveView(Lines):
    """Draws the driver's latest report (`progress`); events show since when a step has been running."""

    def __init__(self, runs: Path, name: str) -> None:
        super().__init__(runs, stream=False)
        self._name = name
        self._progress = _WAITING
        self._since: dict[tuple[str, int], float] = {}
        self._notices: dict[str, str] = {}
        # What a person has to do remains visible until it is done.
        self._waits: Sequence[Reason] = ()
        # The step of the current question at this terminal, and the question.
        self._asked: tuple[str | None, str] = (None, "")
        self._console = Console()
        self._drawn: list[Text] = []
        self._drawn_size = ConsoleDimensions(0, 0)
        self._redirected = ExitStack()
        self._live = _QuietLive(
            lambda: self._asked[0] is not None and self._is_as_drawn(),
            console=self._console,
            refresh_per_second=8,
            get_renderable=self._now,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def begin(self, run_id: RunId) -> None:
        self.run_id = run_id
        self._console.print(Text(f"{visible(self._name)}  run {run_id}", style="bold"))
        self._live.start()
        self._show_cursor()
        self._redirected.enter_context(redirect_stdout(AboveLive(self._console, sys.stdout)))
        # Output to a file is not affected.
        if sys.stderr.isatty():
            self._redirected.enter_context(redirect_stderr(AboveLive(self._console, sys.stderr)))

    def observe(self, records: Sequence[EventRecord]) -> None:
        self.take_notes(records)
        retried = retried_steps(records)
        used = charged_steps(records)
        for record in records:
            if record.event_type == EventType.STEP_STARTED and record.step_id is not None:
                self._since[record.step_id, record.logical_attempt_id] = time.monotonic()
            else:
                self._since.pop((record.step_id or "", record.logical_attempt_id), None)
                self._show(record, retried, describe_usage(used.get(record.step_id or "", {})))
        if records and records[-1].event_type in RUN_ENDS:
            # The driver reports no progress of a run that has ended, and the view may be open a few seconds more.
            self._progress = _WAITING
        print_reuse(records)

    def progress(self, progress: Progress) -> None:
        self._progress = progress

    def ask(self, step: str | None, prompt: str) -> None:
        self._asked = (step, prompt)
        self._show_cursor()

    def waits(self, reasons: Sequence[Reason]) -> None:
        self._waits = reasons

    def notice(self, notice: Notice) -> None:
        """Shown until it is over."""
        if notice.is_over:
            self._notices.pop(notice.subject, None)
            self._console.print(Text(visible(notice.text), style="green"))
        else:
            self._notices[notice.subject] = notice.text
            if not self._live.is_started:
                self._console.print(Text(visible(notice.text), style="bold red"))

    def typed(self, text: str) -> None:
        """The terminal moved the cursor below the view; drawing starts from its last line again."""
        if self._live.is_started:
            rows = sum(self._rows(Text(_ENTRY + visible(line))) for line in text.split("\n")[:-1])
            self._console.control(*[_UP_ONE_LINE] * rows)
            self._drawn = []

    def _show_cursor(self) -> None:
        if self._live.is_started:
            self._console.show_cursor(self._asked[0] is not None)

    def close(self) -> None:
        self._redirected.close()
        self._live.stop()

    # --- past events ------------------------------------------------------------------------------

    def _show(self, record: EventRecord, retried: frozenset[tuple[str, int]], used: str) -> None:
        """Items of loops are counted in one line; only their failures are shown."""
        line = line_of(record, retried)
        step = record.step_id or ""
        failed = (
            record.event_type == EventType.STEP_FAILED and (step, record.logical_attempt_id) not in retried
        )
        if line is None or ("[" in step and not failed):
            return
        style = "red" if failed else "yellow" if line.startswith("~") else ""
        self._console.print(Text(f"{line}  {used}".rstrip(), style=style))
        if failed:
            self._show_end(record)

    def _show_end(self, record: EventRecord) -> None:
        end = payload_of(record, StepEnd)
        text = f"{end.output}{end.stderr_tail}"
        for line in text.rstrip("\n").splitlines()[-10:]:
            self._console.print(Text(f"     | {visible(line)}", style="dim"))

    # --- current state ----------------------------------------------------------------------------

    def _now(self) -> RenderableType:
        size = self._console.size
        lines = self._lines(size)
        self._forget_wrapped_lines(size.width)
        self._drawn, self._drawn_size = lines, size
        return Group(*(Text.assemble(line, no_wrap=True, overflow="ellipsis") for line in lines))

    def _is_as_drawn(self) -> bool:
        return self._console.size == self._drawn_size and self._lines(self._drawn_size) == self._drawn

    def _lines(self, size: ConsoleDimensions) -> list[Text]:
        width, height = size
        above = [Text(visible(text), style="bold red") for text in self._notices.values()]
        below = [Text(line, style="bold magenta") for line in self._waiting_lines()]
        used = f"  {describe_usage(self.usage)}" if any(self.usage.values()) else ""
        if self._asked[0] is not None:
            below.append(Text(_ENTRY))
        else:
            below.append(Text(f"{spell_elapsed(time.monotonic() - self.began)}{used}", style="dim"))
        # One line less than the height: the cursor remains in the window.
        window = Window(width, max(1, height - len(above) - len(below) - 1))
        tree = lines_of_tree(tree_of(self._progress, self._leaf_of), window, self._last_lines)
        return [*above, *tree, *below]

    def _forget_wrapped_lines(self, width: int) -> None:
        """A terminal that became narrower has wrapped the drawing: more lines have to be overwritten."""
        if self._drawn and width < self._drawn_size.width:
            self._live._live_render._shape = (width, sum(map(self._rows, self._drawn)))

    def _rows(self, line: Text) -> int:
        return max(1, ceil(line.cell_len / self._console.width))

    def _leaf_of(self, one: Obligation) -> Leaf:
        step, prompt = self._asked
        if step is not None and one.subject == step:
            return Leaf(one, prompt, "bold magenta", is_question=True)
        waits = short_reason(one, datetime.now(UTC), visible(self._notes.questions.get(one.subject, "")))
        if one.kind != "task":
            style = "bold magenta" if one.kind in FOR_A_PERSON else "yellow"
            return Leaf(one, waits, style)
        since = self._since.setdefault((one.subject, one.attempt), time.monotonic())
        again = f"attempt {one.attempt}, " if one.attempt > 1 else ""
        text = f"{again}{spell_elapsed(time.monotonic() - since)}{self._agent_progress(one)}"
        return Leaf(one, f"{text}  {waits}".rstrip(), "yellow")

    def _waiting_lines(self) -> list[str]:
        """Commands for what this terminal does not ask."""
        return [
            line for reason in self._waits if reason.subject != self._asked[0] for line in lines_of(reason)
        ]

    def _agent_progress(self, one: Obligation) -> str:
        """The agent's turn, its last tool, its tokens."""
        lines = tail_of(self._file(one, "progress")).splitlines()
        return f"  {visible(lines[-1])}" if lines else ""

    def _last_lines(self, one: Obligation) -> Sequence[str]:
        """The last lines of the step's output."""
        files = [file for kind in ("out", "err") if people_read(file := self._file(one, kind))]
        return [line for file in files for line in tail_of(file).splitlines() if line.strip()]

    def _file(self, one: Obligation, kind: str) -> Path:
        return RunDirectory(self.runs, self.run_id).step_file(one.subject, one.attempt, kind)
