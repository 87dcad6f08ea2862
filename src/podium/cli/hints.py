"""Suggested commands: printed commands, and what a run waits for with the commands that help.

A hint that works only without `--runs` and `--store` is wrong. So the given values are remembered, and every
printed command includes them, if that command has the option. The same holds for the files with the variables
of a run, which every command that continues it needs again.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from podium.patterns import lazy_pattern
from podium.text import without_credentials

if TYPE_CHECKING:
    from podium.operations.explaining import Reason

_COMMAND: Final = lazy_pattern(r"`(podium [^`\n]+)`")
# Values given on the command line, by option.
_given: dict[str, tuple[str, ...]] = {}
# Where notices go instead of standard error, if a process has a log; at most one.
_notices_to: list[Callable[[str], None]] = []


def forget_places() -> None:
    """Called at the start of another command line."""
    _given.clear()
    _notices_to.clear()


def remember_place(option: str, value: object) -> None:
    remember_places(option, () if value is None else (value,))


def remember_places(option: str, values: Iterable[object]) -> None:
    """The values of an option that may be repeated."""
    if given := tuple(map(str, values)):
        _given[option] = given


def given_place(option: str) -> str | None:
    return _given[option][0] if option in _given else None


def given_runs() -> Path | None:
    return Path(_given["--runs"][0]) if "--runs" in _given else None


def carried(command: str) -> str:
    """The command with the options that this command line was given. A password is never printed."""
    # Imported with the first hint: a successful run prints none.
    import shlex

    try:
        words = shlex.split(command)
    except ValueError:
        return command
    options = _options_of(words)
    places = [
        f"{option} {shlex.quote(without_credentials(value))}"
        for option, values in _given.items()
        if option in options and option not in words
        for value in values
    ]
    return " ".join([command, *places])


def with_places(text: str) -> str:
    """The text with the options added to every command in it (in backticks)."""
    return _COMMAND.sub(lambda found: f"`{carried(found[1])}`", text) if _given else text


def say(text: str, *, err: bool = False) -> None:
    click.echo(with_places(text), err=err)


def print_notice(text: str) -> None:
    """Printed on standard error, apart from the output of a command."""
    if _notices_to:
        _notices_to[0](with_places(text))
    else:
        say(text, err=True)


def redirect_notices(to: Callable[[str], None]) -> None:
    _notices_to[:] = [to]


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
    from podium.operations.printed import cause_lines

    for line in cause_lines(reasons, run_id, carried, with_places):
        click.echo(line, err=err)


def lines_of(reason: "Reason") -> list[str]:
    from podium.operations.printed import reason_lines

    return reason_lines(reason, carried)
