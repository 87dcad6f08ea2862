"""Concurrent writes: files with fixed names, and the edits of agents.

Two steps that can run concurrently must not write the same file; agents that concurrently edit one workspace
cause a warning.
"""

from posixpath import normpath

import msgspec

from podium.language.codes import Code
from podium.language.problems import Problems
from podium.language.scopes import Declared, Scope, waits_for
from podium.language.tree import Scalar
from podium.language.values import (
    value_at,
)
from podium.plan.graph import order
from podium.plan.plan import (
    Body,
)
from podium.text import quoted


class Written(msgspec.Struct):
    """What a step and those inside it write to the workspace: files with fixed names, and edits of agents."""

    files: dict[str, Scalar] = msgspec.field(default_factory=dict)
    editors: list[Scalar] = msgspec.field(default_factory=list)


def written_by(step: Declared, body: Body) -> Written:
    output = value_at(step.node, "output_file")
    written = Written()
    if isinstance(output, Scalar) and isinstance(output.value, str) and "${" not in output.value:
        # ./report.txt is report.txt.
        written.files[normpath(output.value)] = output
    if (
        step.action == "agent"
        and getattr(body, "access", "") != "read"
        and getattr(body, "workspace", "") == "shared"
    ):
        written.editors.append(step.name)
    return written


def together(parts: list[Written]) -> Written:
    whole = Written()
    for part in parts:
        whole.files.update(part.files)
        whole.editors += part.editors
    return whole


def check_write_conflicts(scope: Scope, written: list[Written], problems: Problems) -> None:
    if scope.kind == "items" and scope.concurrently:
        for part in written:
            for path, scalar in part.files.items():
                _report_same_file(
                    path, scalar, "every item writes it, and items are taken at the same time", problems
                )
            # Reported once, not again for each loop around.
            part.files.clear()
            for editor in part.editors:
                problems.warning(
                    Code.SHARED_WORKSPACE,
                    editor,
                    "this agent may edit the same files for several items at the same time.",
                    "Give it `workspace: worktree`, or `access: read`.",
                )
            part.editors.clear()
        return
    if scope.kind != "branches" and scope.needs is None:
        return
    # Dependencies come first: a step that waits for the last writer then waits for all writers before it.
    waves = order(scope.needs).waves if scope.needs is not None else [list(range(len(written)))]
    last_writer: dict[str, int] = {}
    last_editor: int | None = None
    for number in (number for wave in waves for number in wave):
        part = written[number]
        for path, scalar in part.files.items():
            other = last_writer.get(path)
            if other is not None and _concurrently(scope, other, number):
                name = scope.listed[other].step_id
                _report_same_file(
                    path, scalar, f"{quoted(name)} writes it and may run at the same time", problems
                )
            last_writer[path] = number
        if part.editors:
            if last_editor is not None and _concurrently(scope, last_editor, number):
                other_editor = quoted(scope.listed[last_editor].step_id)
                problems.warning(
                    Code.SHARED_WORKSPACE,
                    part.editors[0],
                    f"this agent may edit the same files at the same time as {other_editor}.",
                    "Give each `workspace: worktree`, or `access: read`.",
                )
            last_editor = number


def _report_same_file(path: str, scalar: Scalar, why: str, problems: Problems) -> None:
    problems.error(
        Code.SAME_OUTPUT_FILE,
        scalar,
        f"the file {quoted(path)} is written twice: {why}.",
        f"Give each its own name{', like a-${loop.index}.txt' if 'item' in why else ''}.",
    )


def _concurrently(scope: Scope, earlier: int, later: int) -> bool:
    return scope.needs is None or not waits_for(scope.needs, later, earlier)
