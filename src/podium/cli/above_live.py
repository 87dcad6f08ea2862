"""Standard output while the live view is drawn: printed text appears above the view.

`rich` has such a file too, but it does not name an encoding, and click bypasses a file without one, so that
its output would end up inside the view.
"""

import io
from typing import TextIO

from rich.console import Console
from rich.text import Text


class AboveLive(io.TextIOBase):
    def __init__(self, console: Console, file: TextIO) -> None:
        self._console = console
        # The attribute in which `rich` looks for the file to write to.
        self.rich_proxied_file = file
        self._unfinished = ""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.rich_proxied_file.encoding

    def write(self, text: str) -> int:
        lines, newline, self._unfinished = (self._unfinished + text).rpartition("\n")
        if newline:
            # Not wrapped, so that a printed command can be copied.
            self._console.print(Text.from_ansi(lines), soft_wrap=True)
        return len(text)

    def fileno(self) -> int:
        return self.rich_proxied_file.fileno()

    def isatty(self) -> bool:
        return self.rich_proxied_file.isatty()
