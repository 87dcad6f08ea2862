"""The prompt of an agent step: the text of the workflow, then the inputs in their order, each under its name.

The content of a file is never parsed as a template, and each has a limit that is visible where it cuts.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

from podium.expressions.templates import render
from podium.files import read_regular
from podium.plan.plan import Agent
from podium.runtime.own_files import open_to_append
from podium.runtime.rundir import first_inside, inside
from podium.runtime.tasks.capturing import NotAsExpected
from podium.runtime.tasks.host import TaskHost
from podium.runtime.tasks.order import TaskOrder

_MAX_INPUT: Final = 256 * 1024
# More than any model can read.
_MAX_PROMPT: Final = 64 << 20
_NEXT_TURN: Final = "\n\n--- then ---\n\n"


def prompt_of(order: TaskOrder, body: Agent, host: TaskHost) -> str:
    lookup = order.lookup
    if body.prompt.text is not None:
        parts = [render(body.prompt.text, lookup)]
    else:
        assert body.prompt.file is not None
        name = render(body.prompt.file, lookup)
        parts = [read_prompt(inside(host.workspace, name, what="prompt_file"))]
    for text in body.work.input_files:
        name = render(text, lookup)
        parts.append(f"## {name}\n{_input(name, body.work.inject, host)}")
    return "\n\n".join(parts)


def read_prompt(path: Path) -> str:
    text = read_regular(path, max_bytes=_MAX_PROMPT, what="a prompt").decode()
    return text.replace("\r\n", "\n").replace("\r", "\n")


def keep_prompt(host: TaskHost, order: TaskOrder, prompt: str) -> None:
    """Store the exact prompt of every turn, for people; masked like everything else."""
    shown = host.redactor.redact(prompt) if host.redactor is not None else prompt
    file = host.directory.step_file(order.path, order.attempt, "prompt")
    # A full disk does not prevent calling an agent.
    with contextlib.suppress(OSError), open_to_append(file) as opened:
        before = _NEXT_TURN if opened.seek(0, os.SEEK_END) else ""
        opened.write(f"{before}{shown}".encode())


def _input(name: str, inject: str, host: TaskHost) -> str:
    path = first_inside((host.directory.artifacts, host.workspace), name, what="input_file")
    if path is None:
        raise NotAsExpected(
            f"input file {name!r} not found, neither among the artifacts nor in the workspace"
        )
    return _listing(path, contents=inject == "content") if path.is_dir() else _content(path)


def _content(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(_MAX_INPUT + 1)
    cut = "\n[... cut here]" if len(content) > _MAX_INPUT else ""
    return content[:_MAX_INPUT].decode("utf-8", "replace") + cut


def _listing(folder: Path, *, contents: bool) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    if not contents:
        return "\n".join(str(path.relative_to(folder)) for path in files)
    return "\n\n".join(f"### {path.relative_to(folder)}\n{_content(path)}" for path in files)
