"""Reads the files named on the command line."""

import sys
from pathlib import Path

import click

from podium.language.reader import MAX_BYTES
from podium.text import visible


def read_file(file: str, max_bytes: int = MAX_BYTES) -> tuple[str, bytes]:
    """The file's name in messages, and its bytes; '-' is standard input. One byte more than allowed shows
    that it is too large.
    """
    try:
        if file == "-":
            if sys.stdin is None:
                raise click.UsageError("cannot read standard input: it is closed.")
            return "<stdin>", sys.stdin.buffer.read(max_bytes + 1)
        with Path(file).open("rb") as opened:
            return file, opened.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise click.UsageError(f"cannot read '{visible(file)}': {reason}.") from error
