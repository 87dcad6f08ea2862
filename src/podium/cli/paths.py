"""Paths on the command line.

An address in place of a path is a mistake. As a path it would be accepted silently, and `Path` would turn
`postgresql://user:password@host` into folders whose names contain the password.
"""

import os
from pathlib import Path
from typing import Any

import click

from podium.text import without_credentials


class GivenPath(click.Path):
    """A `click.Path` that refuses addresses."""

    name = "path"

    def __init__(self, **options: Any) -> None:
        super().__init__(path_type=Path, **options)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = os.fspath(value)
        if isinstance(text, str) and "://" in text:
            self.fail(f"'{without_credentials(text)}' is an address; give a path.", param, ctx)
        return super().convert(value, param, ctx)
