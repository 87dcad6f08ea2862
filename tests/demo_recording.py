"""The recording of `make demo`: `docs/demo.cast` (asciinema, version 2), and `docs/demo.svg`, which is made from it.

python -m tests.demo_recording          record again, on a terminal of 80 columns, and draw it
python -m tests.demo_recording --draw   only draw it
"""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parent.parent
CAST: Final = ROOT / "docs" / "demo.cast"
SVG: Final = ROOT / "docs" / "demo.svg"
WIDTH, HEIGHT = 80, 24
_MAX_SECONDS: Final = 120
# Frames closer than this are one: nobody sees them apart.
_FRAME_SECONDS: Final = 0.2
_LAST_SECONDS: Final = 5.0
_CELL, _LINE, _MARGIN = 8.4, 18, 14
_CODES: Final = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")
_COLOURS: Final = {
    "31": "#f87171", "32": "#4cc38a", "33": "#e0a526", "34": "#60a5fa", "35": "#b794f4", "36": "#5cc8d7",
    "2": "#8b98a5",
}  # fmt: skip
_PLAIN: Final = "#e4e7eb"


class Event(NamedTuple):
    at: float
    text: str


def record(*command: str, folder: Path = ROOT) -> list[Event]:
    """What a user sees who types `make demo`, or another command."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PODIUM_", "GITHUB_"))
    }
    for name in ("COLUMNS", "LINES", "NO_COLOR", "MAKEFLAGS"):
        environment.pop(name, None)
    environment |= {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    started = time.monotonic()
    demo = subprocess.Popen(
        command or ["make", "--no-print-directory", "demo"],
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
    )
    os.close(theirs)
    events = [] if command else [Event(0.0, "$ make demo\r\n")]
    while time.monotonic() - started < _MAX_SECONDS:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                text = os.read(ours, 65536).decode(errors="replace")
            except OSError:  # the other end is closed
                break
            events.append(Event(round(time.monotonic() - started, 3), text))
    os.close(ours)
    assert demo.wait(10) == 0
    return events


def cast_of(events: list[Event]) -> str:
    header = {"version": 2, "width": WIDTH, "height": HEIGHT, "title": "make demo"}
    lines = [json.dumps(header), *(json.dumps([one.at, "o", one.text]) for one in events)]
    return "\n".join(lines) + "\n"


def events_of(cast: str) -> list[Event]:
    _, *lines = cast.splitlines()
    return [Event(at, text) for at, _, text in map(json.loads, lines)]


class Screen:
    """As much of a terminal as the demo needs: lines, colours, and drawing over lines again."""

    def __init__(self) -> None:
        self.rows: list[dict[int, tuple[str, str]]] = [{}]
        self._row = self._column = 0
        self._style = _PLAIN

    def write(self, text: str) -> None:
        for code, final, control, plain in _CODES.findall(text):
            if final:
                self._obey(code, final)
            elif control == "\r":
                self._column = 0
            elif control == "\n":
                self._down()
            else:
                self._put(plain)

    def text(self) -> list[str]:
        """All lines, also those that have scrolled out of the window."""
        lines = ([row.get(column, (" ", ""))[0] for column in range(WIDTH)] for row in self.rows)
        return ["".join(line).rstrip() for line in lines]

    def visible(self) -> list[dict[int, tuple[str, str]]]:
        return self.rows[-HEIGHT:]

    def _obey(self, code: str, final: str) -> None:
        if final == "A":
            self._row = max(0, self._row - int(code or 1))
        elif final == "K":
            self.rows[self._row] = {}
        elif final == "m":
            for one in (code or "0").split(";"):
                self._style = _COLOURS.get(one, _PLAIN if one in ("0", "39") else self._style)

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self.rows):
            self.rows.append({})

    def _put(self, text: str) -> None:
        for character in text:
            if self._column == WIDTH:
                self._column = 0
                self._down()
            self.rows[self._row][self._column] = (character, self._style)
            self._column += 1


def frames_of(events: list[Event]) -> Iterator[tuple[float, str]]:
    """What is on the screen, and from when on."""
    screen, shown, last = Screen(), "", 0.0
    for number, event in enumerate(events):
        screen.write(event.text)
        is_last = number == len(events) - 1
        if not is_last and events[number + 1].at - last < _FRAME_SECONDS:
            continue
        drawn = "".join(_lines(screen.visible()))
        if drawn != shown:
            yield event.at, drawn
            shown, last = drawn, event.at


def _lines(rows: list[dict[int, tuple[str, str]]]) -> Iterator[str]:
    for number, row in enumerate(rows):
        y = _MARGIN + (number + 1) * _LINE
        for start, text, colour in _spans(row):
            x = _MARGIN + start * _CELL
            yield f'<text x="{x:.1f}" y="{y}" fill="{colour}" xml:space="preserve">{escape(text)}</text>'


def _spans(row: dict[int, tuple[str, str]]) -> Iterator[tuple[int, str, str]]:
    """Neighbours of one colour; spaces at the end are not drawn."""
    start, text, colour, end = 0, "", "", -1
    for column in sorted(row):
        character, style = row[column]
        if style != colour or column != end:
            if text.strip():
                yield start, text.rstrip(), colour
            start, text, colour = column, "", style
        text += character
        end = column + 1
    if text.strip():
        yield start, text.rstrip(), colour


def svg_of(events: list[Event]) -> str:
    """All frames, one after the other, for ever. There is no script in it."""
    frames = list(frames_of(events))
    total = frames[-1][0] + _LAST_SECONDS
    width, height = WIDTH * _CELL + 2 * _MARGIN, HEIGHT * _LINE + 2 * _MARGIN
    box = f"0 0 {width:.0f} {height}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" role="img" aria-label="make demo">',
        "<style>text{font:14px ui-monospace,Menlo,Consolas,monospace;white-space:pre}</style>",
        f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#14191f"/>',
    ]
    for number, (at, drawn) in enumerate(frames):
        end = frames[number + 1][0] if number + 1 < len(frames) else total
        times = f"0;{at / total:.4f};{end / total:.4f};1"
        parts.append(
            f'<g visibility="hidden"><animate attributeName="visibility" calcMode="discrete" dur="{total:.2f}s" '
            f'repeatCount="indefinite" keyTimes="{times}" values="hidden;visible;hidden;hidden"/>{drawn}</g>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    if "--draw" not in sys.argv[1:]:
        CAST.write_text(cast_of(record()))
    SVG.write_text(svg_of(events_of(CAST.read_text())))


if __name__ == "__main__":
    main()
