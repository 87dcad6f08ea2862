"""Where a command line looks for runs, and printed commands that look there too.

A hint that works only without `--runs` and `--store` is a wrong hint. So what was given is remembered, and every
command that is printed carries it, if that command has the option.
"""

import re
from pathlib import Path
from typing import Final

import click

from podium.text import without_credentials

_COMMAND: Final = re.compile(r"`(podium [^`\n]+)`")
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
