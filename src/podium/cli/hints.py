"""What the user can call next: printed commands, and what a run waits for with the commands that help.

A hint that works only without `--runs` and `--store` is a wrong hint. So what was given is remembered, and every
command that is printed carries it, if that command has the option.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from podium.patterns import lazy_pattern
from podium.text import visible, without_credentials

if TYPE_CHECKING:
    from podium.operations.explaining import Reason

_MAX_CAUSES: Final = 5
_COMMAND: Final = lazy_pattern(r"`(podium [^`\n]+)`")
# What was given on the command line, by option.
_given: dict[str, str] = {}


def forget_places() -> None:
    """Another command line begins."""
    _given.clear()


def remember_place(option: str, value: object) -> None:
    if value is not None:
        _given[option] = str(value)


def given_runs() -> Path | None:
    return Path(_given["--runs"]) if "--runs" in _given else None


def carried(command: str) -> str:
    """The command with the places that this command line was given. A password is never printed."""
    # Loaded with the first hint: a run that goes well prints none.
    import shlex

    try:
        words = shlex.split(command)
    except ValueError:
        return command
    options = _options_of(words)
    places = [
        f"{option} {shlex.quote(without_credentials(value))}"
        for option, value in _given.items()
        if option in options and option not in words
    ]
    return " ".join([command, *places])


def with_places(text: str) -> str:
    """The text with every command in it (in backticks) as it has to be typed here."""
    return _COMMAND.sub(lambda found: f"`{carried(found[1])}`", text) if _given else text


def say(text: str, *, err: bool = False) -> None:
    click.echo(with_places(text), err=err)


def print_notice(text: str) -> None:
    """Beside the output of a command: on standard error."""
    say(text, err=True)


def _options_of(words: list[str]) -> set[str]:
    from podium.cli.app import cli

    command: click.Command = cli
    context = click.Context(cli)
    for word in words[1:]:
        found = command.get_command(context, word) if isinstance(command, click.Group) else None
        if found is None:
            break
        command = found
    return {option for parameter in command.params for option in parameter.opts}


def print_reason(reason: "Reason", *, err: bool = False) -> None:
    for line in lines_of(reason):
        click.echo(line, err=err)


def print_causes(reasons: "Sequence[Reason]", run_id: str, *, err: bool = False) -> None:
    """The steps that ended a run. A loop can have thousands: then some of them, and how many more there are."""
    for reason in reasons[:_MAX_CAUSES]:
        print_reason(reason, err=err)
    if (more := len(reasons) - _MAX_CAUSES) > 0:
        say(f"  {more} more; `podium runs show {visible(run_id)}` lists all steps", err=err)


def lines_of(reason: "Reason") -> list[str]:
    until = f", until {reason.deadline}" if reason.deadline is not None else ""
    commands = [(visible(carried(one.text)), one.meaning) for one in reason.commands]
    width = max((len(text) for text, _ in commands), default=0)
    return [
        f"  {visible(reason.text)}{until}",
        *(f"      {text.ljust(width)}  {meaning}".rstrip() for text, meaning in commands),
    ]
