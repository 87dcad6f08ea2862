"""The live view at a terminal: what runs, how far agents are, loops as one line, failures with their last output."""

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.control import Control
from rich.live import Live
from rich.text import Text

from podium.cli.above_live import AboveLive
from podium.cli.hints import lines_of
from podium.cli.progress import Lines, line_of, print_reuse
from podium.log.events import EventRecord, EventType
from podium.log.ids import RunId
from podium.log.payloads import StepEnd, payload_of
from podium.log.transitions import STEP_ENDS
from podium.log.usage import describe_usage
from podium.operations.explaining import Reason
from podium.ports.engine import Notice
from podium.runtime.rundir import RunDirectory
from podium.runtime.tasks.capturing import tail_of
from podium.text import visible

_MAX_SHOWN = 12


class LiveView(Lines):
    """Ended steps scroll by; what runs now stays below, each with how long it has been running."""

    def __init__(self, runs: Path, name: str) -> None:
        super().__init__(runs, stream=False)
        self._name = name
        self._running: dict[tuple[str, int], float] = {}
        self._items: dict[str, list[int]] = {}
        self._notices: dict[str, str] = {}
        # What a person has to do stays visible until it is done.
        self._waits: Sequence[Reason] = ()
        self._console = Console()
        self._redirected = ExitStack()
        self._live = Live(
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
        self._redirected.enter_context(redirect_stdout(AboveLive(self._console, sys.stdout)))
        # What goes to a file stays there.
        if sys.stderr.isatty():
            self._redirected.enter_context(redirect_stderr(AboveLive(self._console, sys.stderr)))

    def observe(self, records: Sequence[EventRecord]) -> None:
        self.take_notes(records)
        for record in records:
            self._count(record)
            line = line_of(record)
            # Items of loops are counted in one line; only their failures are shown.
            inside_loop = record.step_id is not None and "[" in record.step_id
            failed = record.event_type == EventType.STEP_FAILED
            if (
                line is not None
                and record.event_type != EventType.STEP_STARTED
                and (failed or not inside_loop)
            ):
                self._console.print(Text(line, style="red" if failed else ""))
            if failed:
                self._show_end(record)
        print_reuse(records)

    def waits(self, reasons: Sequence[Reason]) -> None:
        self._waits = reasons

    def notice(self, notice: Notice) -> None:
        """It stays until it is over."""
        if notice.is_over:
            self._notices.pop(notice.subject, None)
            self._console.print(Text(visible(notice.text), style="green"))
        else:
            self._notices[notice.subject] = notice.text
            if not self._live.is_started:
                self._console.print(Text(visible(notice.text), style="bold red"))

    def _count(self, record: EventRecord) -> None:
        if record.step_id is None:
            return
        key = (record.step_id, record.logical_attempt_id)
        if record.event_type == EventType.STEP_STARTED:
            self._running[key] = time.monotonic()
        elif record.event_type in STEP_ENDS:
            self._running.pop(key, None)
            if "[" in record.step_id:
                counted = self._items.setdefault(_outermost_loop(record.step_id), [0, 0])
                counted[record.event_type == EventType.STEP_FAILED] += 1
            else:
                self._items.pop(record.step_id, None)

    def _now(self) -> RenderableType:
        now = time.monotonic()
        lines = [Text(visible(text), style="bold red") for text in self._notices.values()]
        for loop, (done, failed) in self._items.items():
            line = f"   {visible(loop)}: {done} steps done" + (f", {failed} failed" if failed else "")
            lines.append(Text(line, style="cyan"))
        running = list(self._running.items())
        for (path, attempt), since in running[:_MAX_SHOWN]:
            again = f" (attempt {attempt})" if attempt > 1 else ""
            line = f"-> {visible(path)}{again}  {now - since:.0f} s{self._how_far(path, attempt)}"
            lines.append(Text(line, style="yellow", no_wrap=True, overflow="ellipsis"))
        if len(running) > _MAX_SHOWN:
            lines.append(Text(f"   and {len(running) - _MAX_SHOWN} more"))
        for reason in self._waits:
            lines += [Text(line, style="bold magenta") for line in lines_of(reason)]
        used = f"  {describe_usage(self.usage)}" if any(self.usage.values()) else ""
        lines.append(Text(f"{now - self.began:.0f} s{used}", style="dim"))
        return Group(*lines)

    def _how_far(self, path: str, attempt: int) -> str:
        """Of an agent: its turn, its last tool, its tokens."""
        file = RunDirectory(self.runs, self.run_id).step_file(path, attempt, "progress")
        lines = tail_of(file).splitlines()
        return f"  {visible(lines[-1])}" if lines else ""

    def typed(self, lines: int) -> None:
        """The terminal moved the cursor below the view; drawing starts from its last line again."""
        if self._live.is_started:
            self._console.control(Control.move(0, -lines))

    def close(self) -> None:
        self._redirected.close()
        self._live.stop()

    def _show_end(self, record: EventRecord) -> None:
        end = payload_of(record, StepEnd)
        text = f"{end.output}{end.stderr_tail}"
        for line in text.rstrip("\n").splitlines()[-10:]:
            self._console.print(Text(f"     | {visible(line)}", style="dim"))


def _outermost_loop(path: str) -> str:
    """The path under which it is told that the loop has ended: without which visit of it this is."""
    loop = path.partition("[")[0]
    name, _, visit = loop.rpartition("#")
    return name if visit.isdigit() else loop
