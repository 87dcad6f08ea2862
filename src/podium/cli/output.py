"""How commands print: tables and colours for people at a terminal, plain lines for pipes, JSON for programs."""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence

import click

from podium.language.diagnostics import Diagnostic, Severity
from podium.text import visible


def print_json(value: object) -> None:
    """In ASCII: whatever a file contains, nothing in the output can write to a terminal or fail to be encoded."""
    click.echo(json.dumps(value, indent=2))


def spelled_json(text: str) -> str:
    """The same JSON, with every character that cannot be seen spelled out: JSON itself leaves some to the terminal."""
    if text.isprintable():
        return text
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


def describe_usage(usage: Mapping[str, float]) -> str:
    """`0.1234 dollars, 5,678 tokens`; empty if nothing is known."""
    parts = [f"{usage['costUsd']:.4f} dollars"] if "costUsd" in usage else []
    if usage.get("tokens"):
        parts.append(f"{usage['tokens']:,.0f} tokens")
    return ", ".join(parts)


def usage_cells(usage: Mapping[str, float]) -> tuple[str, str]:
    """Tokens and dollars, as cells of a table."""
    tokens, cost = usage.get("tokens"), usage.get("costUsd")
    return "" if tokens is None else f"{tokens:,.0f}", "" if cost is None else f"{cost:.4f}"


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
