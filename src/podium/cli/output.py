"""Output of commands: tables and colours for people at a terminal, plain lines for pipes, JSON for programs."""

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
    click.echo(json_text(value))


def json_text(value: object) -> str:
    """In ASCII: whatever a file contains, nothing in the output can control a terminal or fail to be encoded."""
    import json

    return json.dumps(value, indent=2)


def spelled_json(text: str) -> str:
    """The same JSON, with every invisible character escaped: JSON itself leaves some to the terminal."""
    if text.isprintable():
        return text
    import json

    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def print_diagnostics(diagnostics: Iterable[Diagnostic], omitted: int) -> None:
    """Problems are printed on standard error, so that the result of a command can still be piped."""
    coloured = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    for found in diagnostics:
        first, *rest = str(found).split("\n")
        if coloured:
            first = click.style(first, fg="red" if found.severity is Severity.ERROR else "yellow", bold=True)
        click.echo("\n".join([first, *rest]), err=True)
    if omitted:
        click.echo(f"... and {omitted} more {'problem' if omitted == 1 else 'problems'}.", err=True)


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table; at a terminal it is drawn by rich, which is only imported then."""
    if sys.stdout.isatty():
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(*headings, box=SIMPLE_HEAD)
        for row in rows:
            table.add_row(*(Text(visible(cell)) for cell in row))
        Console().print(table)
        return
    from podium.operations.printed import table_lines

    for line in table_lines(headings, rows):
        click.echo(line)


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
    """Discards the buffer, too: it would fail again with everything that is printed."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if error.errno != errno.EPIPE:
        with contextlib.suppress(OSError):
            click.echo(
                f"warning: standard output cannot be written ({reason_of(error)}); the run continues without it",
                err=True,
            )
