"""Files with mistakes and, beside each, all that a command prints about it.

`NAME.txt` belongs to `NAME.yaml`. What is no readable text, or large, is not kept as a file but made.
"""

import re
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Final, NamedTuple

from podium.cli.app import run

_FIRST_LINE: Final = re.compile(r"^\S+:\d+:\d+: (?:warning )?(E\d+) ", re.MULTILINE)


class Printed(NamedTuple):
    """How a command ended: its exit code and what a terminal shows of both its outputs."""

    exit_code: int
    text: str


@dataclass(frozen=True)
class Corpus:
    """The files of one folder, and the command that is asked about them. Folders inside it are not part of it."""

    folder: Path
    command: Sequence[str]
    # Contents by name.
    generated: Mapping[str, bytes] = field(default_factory=dict)

    def names(self) -> list[str]:
        return sorted({*self.generated, *(file.stem for file in self.folder.glob("*.yaml"))})

    def expected(self, name: str) -> str:
        """What stands in the text beside the file."""
        return (self.folder / f"{name}.txt").read_bytes().decode()

    def printed(self, name: str, *options: str) -> Printed:
        """Run the command on NAME.yaml, in the folder of the file."""
        if name not in self.generated:
            return self._printed_in(self.folder, name, *options)
        with tempfile.TemporaryDirectory() as made:
            (Path(made) / f"{name}.yaml").write_bytes(self.generated[name])
            return self._printed_in(Path(made), name, *options)

    def codes(self) -> set[str]:
        """The codes that occur in the texts."""
        return {code for name in self.names() for code in _FIRST_LINE.findall(self.expected(name))}

    def write_texts(self) -> None:
        """Take what is printed now for what is expected."""
        for name in self.names():
            (self.folder / f"{name}.txt").write_bytes(self.printed(name).text.encode())

    def _printed_in(self, folder: Path, name: str, *options: str) -> Printed:
        screen = StringIO()
        with chdir(folder), redirect_stdout(screen), redirect_stderr(screen):
            exit_code = run([*self.command, *options, f"{name}.yaml"])
        return Printed(exit_code, screen.getvalue())
