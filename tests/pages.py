"""Pages of the documentation whose examples are tried: each section has files, commands and the output they lead to.

- A block of code whose first line is a comment with a file name (`# hello.yaml`) is that file.
- A block `sh` holds commands, which run in a folder with the files of their section. They have to succeed;
  `# exit code 5` at the end of a line says otherwise.
- A block `text` holds lines that have to appear in the output, in this order.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
_SECTION = re.compile(r"^##+ (.*)$", re.MULTILINE)
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w./-]+\.\w+)\n")
_EXIT_CODE = re.compile(r"^(.*?) +# exit code (\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Section:
    """One part of a page: what a reader would paste, and what they should see."""

    title: str
    files: dict[str, str]
    script: str
    expected: list[str]

    def write(self, folder: Path) -> None:
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
            if content.startswith("#!"):
                path.chmod(0o755)

    def run(self, folder: Path) -> "Shown":
        """Run the commands in the folder, as pasted into a shell."""
        self.write(folder)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        script = _EXIT_CODE.sub(r"set +e; \1; test $? = \2 || exit 99; set -e", self.script)
        done = subprocess.run(
            ["sh", "-eu", "-c", script],
            cwd=folder,
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Shown(done.returncode, done.stdout)


@dataclass(frozen=True)
class Shown:
    exit_code: int
    text: str

    def missing(self, expected: list[str]) -> list[str]:
        """The expected lines that do not appear, in this order, in the output."""
        lines = iter(line.rstrip() for line in self.text.splitlines())
        return [wanted for wanted in expected if not any(wanted in line for line in lines)]


def sections(page: Path) -> list[Section]:
    """The sections of a page that have blocks of code."""
    parts = _SECTION.split(page.read_text())
    found = [_section(title, text) for title, text in zip(parts[1::2], parts[2::2], strict=True)]
    return [section for section in found if section.files or section.script]


def _section(title: str, text: str) -> Section:
    blocks = [(language, content) for language, content in _BLOCK.findall(text)]
    files = {}
    for language, content in blocks:
        if language not in ("sh", "text") and (name := _FILE.match(content.removeprefix("#!/bin/sh\n"))):
            files[name[1]] = content
    script = "".join(content for language, content in blocks if language == "sh")
    expected = [line for language, content in blocks if language == "text" for line in content.splitlines()]
    return Section(title, files, script, expected)
