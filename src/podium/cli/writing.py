"""Writes the files named on the command line."""

import errno
from pathlib import Path
from typing import Final

import click

from podium.text import visible

# Not errors of the command line: the root command reports these.
_OUTPUT_FAILED: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})


def write_file(file: str, content: bytes, *, replace: bool = True) -> None:
    """Write a file; without `replace`, raises FileExistsError if it exists."""
    try:
        with Path(file).open("wb" if replace else "xb") as opened:
            opened.write(content)
    except FileExistsError:
        raise
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in _OUTPUT_FAILED:
            raise
        reason = getattr(error, "strerror", None) or error
        raise click.UsageError(f"cannot write '{visible(file)}': {reason}.") from error
