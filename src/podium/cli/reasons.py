"""Why a run waits, as lines: what for, until when, and the commands that a person can call."""

from typing import TYPE_CHECKING

import click

from podium.cli.places import carried
from podium.text import visible

if TYPE_CHECKING:
    from podium.operations.explaining import Reason


def print_reason(reason: "Reason", *, err: bool = False) -> None:
    for line in lines_of(reason):
        click.echo(line, err=err)


def lines_of(reason: "Reason") -> list[str]:
    until = f", until {reason.deadline}" if reason.deadline is not None else ""
    commands = [(visible(carried(one.text)), one.meaning) for one in reason.commands]
    width = max((len(text) for text, _ in commands), default=0)
    return [
        f"  {visible(reason.text)}{until}",
        *(f"      {text.ljust(width)}  {meaning}".rstrip() for text, meaning in commands),
    ]


def reason_json(reason: "Reason") -> dict[str, object]:
    return {
        "kind": reason.kind,
        "subject": reason.subject,
        "text": reason.text,
        "deadline": reason.deadline,
        "next": reason.next_step,
        "commands": [{"command": carried(one.text), "meaning": one.meaning} for one in reason.commands],
    }
