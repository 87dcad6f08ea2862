"""How commands print: tables and colours for people at a terminal, plain lines for pipes, JSON for programs."""

import contextlib
import errno
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import click

from podium.language.diagnostics import Diagnostic, Severity
from podium.text import reason_of, visible

if TYPE_CHECKING:
    from podium.log.events import EventRecord
    from podium.ports.engine import Observer


def print_json(value: object) -> None:
    """In ASCII: whatever a file contains, nothing in the output can write to a terminal or fail to be encoded."""
    import json

    click.echo(json.dumps(value, indent=2))


def spelled_json(text: str) -> str:
    """The same JSON, with every character that cannot be seen spelled out: JSON itself leaves some to the terminal."""
    if text.isprintable():
        return text
    import json

    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def print_diagnostics(diagnostics: Iterable[Diagnostic], omitted: int) -> None:
    """Problems go to standard error, so that what a command computes can still be piped."""
    coloured = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    for found in diagnostics:
        first, *rest = str(found).split("\n")
        if coloured:
            first = click.style(first, fg="red" if found.severity is Severity.ERROR else "yellow", bold=True)
        click.echo("\n".join([first, *rest]), err=True)
    if omitted:
        click.echo(f"... and {omitted} more {'problem' if omitted == 1 else 'problems'}.", err=True)


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table; at a terminal it is drawn by rich, which is only loaded then."""
    shown = [[visible(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(*headings, box=SIMPLE_HEAD)
        for row in shown:
            table.add_row(*(Text(cell) for cell in row))
        Console().print(table)
        return
    widths = [max(map(len, column)) for column in zip(headings, *shown, strict=True)]
    for line in (headings, *shown):
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


# --- standard output that cannot be written any more: its reader went away (`| head`), or the disk is full -----------
# What a command does for its run continues; what it would still print goes nowhere.

_LOST: Final = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO})


@contextlib.contextmanager
def surviving_lost_output() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in _LOST:
            raise
        _give_up(error)


def surviving(observe: "Observer") -> "Observer":
    def observe_and_survive(records: "Sequence[EventRecord]") -> None:
        with surviving_lost_output():
            observe(records)

    return observe_and_survive


def _give_up(error: OSError) -> None:
    """Also what is left in the buffer goes nowhere: it would fail again with everything that is printed."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if error.errno != errno.EPIPE:
        with contextlib.suppress(OSError):
            click.echo(
                f"warning: standard output cannot be written ({reason_of(error)}); the run continues without it",
                err=True,
            )
