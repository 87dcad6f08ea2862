"""Files with mistakes and, beside each, everything a command prints about it.

`E204/workflows/NAME.yaml` is a workflow whose first problem has the code E204; `NAME.txt` is what the command prints.
Contents that are not readable text, or large, are generated instead of stored. What the files refer to is in `files/`.

After you have changed a message on purpose, `python -m tests.messages` rewrites the texts: review the difference as a
user would read it.
"""

import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Final, NamedTuple

from podium.cli.app import run

ROOT: Final = Path(__file__).parent
_PROBLEM: Final = re.compile(r"^\S+:\d+:\d+: (warning )?(E\d+) ", re.MULTILINE)


class Printed(NamedTuple):
    """The exit code of a command, and what a terminal shows of both its outputs."""

    exit_code: int
    text: str


@dataclass(frozen=True)
class Corpus:
    """All files of one kind, and the command that checks them."""

    kind: str
    command: Sequence[str]
    # Contents by name.
    generated: Mapping[str, bytes] = field(default_factory=dict)

    @cached_property
    def texts(self) -> dict[str, Path]:
        """The expected outputs, by the name of the file they are about."""
        return {file.stem: file for file in sorted(ROOT.glob(f"*/{self.kind}/*.txt"))}

    def names(self) -> list[str]:
        return sorted({*self.generated, *(file.stem for file in ROOT.glob(f"*/{self.kind}/*.yaml"))})

    def broken(self) -> list[str]:
        """The names of the files that the command refuses."""
        return [name for name in self.names() if not self.is_warned(name)]

    def warned(self) -> list[str]:
        """The names of the files that the command accepts with warnings."""
        return [name for name in self.names() if self.is_warned(name)]

    def is_warned(self, name: str) -> bool:
        return all(warning for warning, _ in _PROBLEM.findall(self.expected(name)))

    def expected(self, name: str) -> str:
        return self.texts[name].read_bytes().decode()

    def content(self, name: str) -> bytes:
        if name in self.generated:
            return self.generated[name]
        return self.texts[name].with_suffix(".yaml").read_bytes()

    def codes(self, name: str) -> list[str]:
        """The codes of the problems in the expected output, in order."""
        return [code for _, code in _PROBLEM.findall(self.expected(name))]

    def all_codes(self) -> set[str]:
        return {code for name in self.names() for code in self.codes(name)}

    def printed(self, name: str, *options: str) -> Printed:
        """Run the command on NAME.yaml, beside a copy of `files`."""
        with tempfile.TemporaryDirectory() as made:
            (Path(made) / "outside.md").write_text("Review it.")
            folder = Path(made) / "files"
            shutil.copytree(ROOT / "files", folder)
            (folder / f"{name}.yaml").write_bytes(self.content(name))
            return self._printed_in(folder, name, *options)

    def write_texts(self) -> None:
        """Replace the expected outputs by what is printed now."""
        for name in self.names():
            self.texts[name].write_bytes(self.printed(name).text.encode())

    def _printed_in(self, folder: Path, name: str, *options: str) -> Printed:
        screen = StringIO()
        with chdir(folder), redirect_stdout(screen), redirect_stderr(screen):
            exit_code = run([*self.command, *options, f"{name}.yaml"])
        return Printed(exit_code, screen.getvalue())
