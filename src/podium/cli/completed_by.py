"""Refers to completion functions without importing them: only the shell requests completions."""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import click

Completed: TypeAlias = Literal[
    "complete_run", "complete_step", "complete_file", "complete_file_or_run", "complete_template"
]


def completed_by(name: Completed) -> Callable[[click.Context, click.Parameter, str], list[Any]]:
    """A function of `cli/completing.py`."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
        from podium.cli import completing

        found: list[Any] = getattr(completing, name)(context, parameter, incomplete)
        return found

    return complete
