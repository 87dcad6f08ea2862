"""A task's output: all of it is written to its log, masked; its start is recorded in the event; and it may be
written to a file as it is.

Pipes and not files: a program that reopens /dev/stderr would truncate a file. A log is created when there is
something to write, so that a hundred thousand silent steps leave no files. The output ends with the main
process: what is in the pipe then still belongs to it, and other processes that hold the pipe open are not
waited for.
"""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import Final

from podium.log.redaction import Redactor
from podium.plan.plan import Limits
from podium.runtime.own_files import open_new
from podium.runtime.rundir import NewFile
from podium.runtime.tasks.caps import Exceeding, cap_of
from podium.runtime.tasks.cutting import cut_bytes, tail_of_bytes

STDERR_TAIL: Final = 2000
_CHUNK: Final = 1 << 16
_MAX_LINE: Final = 1 << 20
_F_SETPIPE_SZ: Final = 1031
_F_GETPIPE_SZ: Final = 1032
# If a program takes longer, its output is read while it runs.
_A_MOMENT: Final = 0.005


class Output:
    """One stream of a task. No secret gets into `kept`, `tail` or the log."""

    def __init__(
        self,
        log: str | Path,
        *,
        keep: int,
        redactor: Redactor | None,
        whole: NewFile | None = None,
        on_line: Callable[[bytes], None] | None = None,
        room: int | None = None,
        limits: Limits | None = None,
        exceeding: Exceeding | None = None,
    ) -> None:
        self._max_log = cap_of("log", limits)
        self._max_whole = cap_of("artifact", limits)
        self.exceeding = exceeding if exceeding is not None else Exceeding()
        self._log = log
        # The capacity of the pipe, if that matters.
        self.room = room
        self._file: FileIO | None = None
        self._masking = redactor.stream() if redactor is not None else None
        self._keep = keep
        self._whole = whole
        self._lines = Lines(on_line) if on_line is not None else None
        self._came = 0
        self._is_over = False
        self.kept = bytearray()
        self.tail = b""
        # The size in the log.
        self.size = 0
        self.problem: OSError | None = None

    def write(self, chunk: bytes) -> None:
        if self.exceeding.error is not None:
            return  # reading continues, so that the program does not block until it is stopped
        if self._came + len(chunk) > self._max_log:
            chunk = chunk[: self._max_log - self._came]
            self.exceeding.pass_cap("log", self._max_log)
        if self._whole is not None and self._came + len(chunk) > self._max_whole:
            self.exceeding.pass_cap("artifact", self._max_whole)
        if self._whole is not None and not self._is_over and self.exceeding.error is None:
            try:
                self._whole.write(chunk)
            except OSError as error:
                self._fail(error)
        self._came += len(chunk)
        self._put(self._masking.feed(chunk) if self._masking is not None else chunk)

    def _put(self, chunk: bytes) -> None:
        if not chunk:
            return
        try:
            if self._file is None:
                self._file = open_new(self._log)
            self._file.write(chunk)
        except OSError as error:
            self._fail(error)
        if self._is_over:
            return
        self.size += len(chunk)
        if len(self.kept) < self._keep:
            self.kept += chunk[: self._keep - len(self.kept)]
        self.tail = (self.tail + chunk)[-STDERR_TAIL:]
        if self._lines is not None:
            self._lines.feed(chunk)

    def _fail(self, error: OSError) -> None:
        """A full disk must not block the program: reading continues, and the step fails."""
        self.problem = self.problem or error

    def end(self) -> None:
        """The task's own output is complete; anything later is only written to the log."""
        if not self._is_over:
            self._flush()
            self._is_over = True

    def close(self) -> None:
        self.end()
        self._flush()
        if self._file is not None:
            self._file.close()

    def _flush(self) -> None:
        if self._masking is not None:
            self._put(self._masking.finish())

    @property
    def held_a_secret(self) -> bool:
        # A mask is shorter than anything that is masked.
        return self._masking is not None and self.size != self._came

    def text(self, most: int) -> str:
        """The start, decoded: longer output is cut after a complete line."""
        if self.size > most:
            return cut_bytes(bytes(self.kept[: most + 1]), most)
        return self.kept.decode("utf-8", "replace")

    def tail_text(self) -> str:
        if self.size > len(self.tail):
            return tail_of_bytes(self.tail)
        return self.tail.decode("utf-8", "replace")


class Lines:
    """Passes on a stream line by line, as soon as each is complete; lines that are too long are skipped."""

    def __init__(self, on_line: Callable[[bytes], None]) -> None:
        self._on_line = on_line
        self._line = bytearray()
        self._is_too_long = False

    def feed(self, chunk: bytes) -> None:
        first, *others = chunk.split(b"\n")
        self._add(first)
        for part in others:
            if self._line:
                self._on_line(bytes(self._line))
            self._line.clear()
            self._is_too_long = False
            self._add(part)

    def _add(self, part: bytes) -> None:
        if len(self._line) + len(part) > _MAX_LINE:
            self._is_too_long = True
            self._line.clear()
        if not self._is_too_long:
            self._line += part


class Pipe:
    """Transfers a program's output to an `Output`.

    It is read once, at the program's end, unless a listener reads it earlier.
    """

    def __init__(self, output: Output) -> None:
        self.output = output
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        if output.room is not None:
            # A larger capacity is not allowed: then it has the default one.
            with contextlib.suppress(OSError):
                fcntl.fcntl(self._reader, _F_SETPIPE_SZ, output.room)
        self._is_open = True
        self._is_listened_to = False
        self.listening: Listening | None = None

    def listen(self) -> None:
        if self._is_open and not self._is_listened_to:
            self._is_listened_to = True
            asyncio.get_running_loop().add_reader(self._reader, self._on_readable)

    def close_writer(self) -> None:
        """Close our copy: the program has its own by now."""
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def _on_readable(self) -> None:
        try:
            chunk = os.read(self._reader, _CHUNK)
        except BlockingIOError:
            return
        if chunk:
            self.output.write(chunk)
        else:
            self._let_go()

    def end(self) -> None:
        """The program has ended: what it had written is in the pipe, and no more than that is read."""
        left: int | None = None
        while self._is_open and (left is None or left > 0):
            try:
                chunk = os.read(self._reader, min(_CHUNK, left) if left is not None else _CHUNK)
            except BlockingIOError:
                break
            if not chunk:
                self._let_go()
                break
            self.output.write(chunk)
            # Queried only now: most programs have written nothing.
            left = (left or fcntl.fcntl(self._reader, _F_GETPIPE_SZ)) - len(chunk)
        self.output.end()

    def close(self) -> None:
        self.close_writer()
        if self._is_open:
            self._let_go()
        self.output.close()

    @property
    def is_open(self) -> bool:
        """Whether another process still holds its other end."""
        return self._is_open

    def _let_go(self) -> None:
        self._is_open = False
        if self.listening is not None:
            self.listening.is_over_for_one()
            self.listening = None
        if self._is_listened_to:
            asyncio.get_running_loop().remove_reader(self._reader)
        os.close(self._reader)


def open_pipes(out: Output, err: Output) -> tuple[Pipe, Pipe]:
    """The pipes for both streams of a program.

    Most programs end soon and write little. Listening starts only for those that take longer; until then the
    pipes buffer the output.
    """
    first = Pipe(out)
    try:
        pipes = first, Pipe(err)
    except OSError:
        first.close()
        raise
    Listening(pipes)
    return pipes


class Listening:
    """One timer for all pipes of a program. It is cancelled with the last of them, so that it does not wake
    us for nothing.
    """

    __slots__ = ("_left", "_timer")

    def __init__(self, pipes: tuple[Pipe, ...]) -> None:
        self._left = len(pipes)
        for pipe in pipes:
            pipe.listening = self
        self._timer = asyncio.get_running_loop().call_later(_A_MOMENT, self._begin, pipes)

    def _begin(self, pipes: tuple[Pipe, ...]) -> None:
        for pipe in pipes:
            pipe.listen()

    def is_over_for_one(self) -> None:
        self._left -= 1
        if not self._left:
            self._timer.cancel()
