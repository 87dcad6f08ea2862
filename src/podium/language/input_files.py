"""Files that steps read, and whether any step of the workflow writes them.

Artifacts are shared by the whole run, including calls, so this is checked when all files have been read. A
name with a reference in it is only known at run time: as a file to read it is not checked, as a file to write
it matches every name it could become.
"""

import re

import msgspec

from podium.expressions.types import Template, Text
from podium.language.codes import Code
from podium.language.diagnostics import did_you_mean
from podium.language.files import Files
from podium.language.problems import Problems
from podium.language.tree import Node
from podium.text import quoted


class _Wanted(msgspec.Struct, frozen=True):
    path: str
    node: Node
    problems: Problems


class FileUses:
    def __init__(self) -> None:
        self._wanted: list[_Wanted] = []
        self._written: list[Text] = []

    def reads(self, path: Text, node: Node, problems: Problems) -> None:
        if isinstance(path, str):
            self._wanted.append(_Wanted(path, node, problems))

    def writes(self, path: Text) -> None:
        self._written.append(path)

    def warn(self, files: Files) -> None:
        """Warn about each file that is read, that no step writes, and that is not in the workspace."""
        names = tuple(_plain(path) for path in self._written if isinstance(path, str))
        patterns = [_pattern(path) for path in self._written if not isinstance(path, str)]
        for wanted in self._wanted:
            path = _plain(wanted.path)
            # A folder exists if something in it does.
            is_written = any(name == path or name.startswith(f"{path}/") for name in names)
            if is_written or any(one.match(path) for one in patterns) or files.is_in_workspace(wanted.path):
                continue
            if not wanted.problems.is_enough():
                wanted.problems.warning(
                    Code.INPUT_NOT_WRITTEN,
                    wanted.node,
                    f"no step writes {quoted(wanted.path)}, and it is not in the workspace.",
                    _hint(path, names),
                )


def _hint(path: str, names: tuple[str, ...]) -> str:
    near = did_you_mean(path, names)
    return (
        near or "Write it with `output_file` of an earlier step, or put it into the workspace before the run."
    )


def _plain(path: str) -> str:
    return path.removeprefix("./").rstrip("/") or path


def _pattern(path: Template) -> re.Pattern[str]:
    parts = (re.escape(part) if isinstance(part, str) else ".*" for part in path.parts)
    return re.compile("".join(parts) + r"(?:\Z|/)", re.DOTALL)
