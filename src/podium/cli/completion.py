"""`podium completion`: completion of commands, runs, steps, templates and files in the shell."""

import os
from pathlib import Path
from typing import Final

import click

from podium.cli.app import COMPLETE_VARIABLE, cli

_SHELLS: Final = ("bash", "zsh", "fish")
# The files that a shell reads when it starts.
_STARTUP: Final = {"bash": ".bashrc", "zsh": ".zshrc"}
_FISH: Final = Path("fish/completions/podium.fish")


@click.command()
@click.argument("shell", metavar="SHELL|install", type=click.Choice([*_SHELLS, "install"]))
@click.option(
    "--shell", "chosen", type=click.Choice(_SHELLS), help="With install: for this shell. [default: yours]"
)
def completion(shell: str, chosen: str | None) -> int:
    """Complete podium's commands, options, runs, steps, templates and files: in bash, zsh or fish.

    `podium completion install` adds one line to ~/.bashrc or ~/.zshrc, or writes the file that fish reads. Called
    again, it changes nothing. `podium completion bash` only prints the script.
    """
    if shell == "install":
        return _install(chosen or _own_shell())
    if chosen is not None:
        raise click.UsageError("--shell is for `podium completion install`.")
    click.echo(_script(shell))
    return 0


def _script(shell: str) -> str:
    from click.shell_completion import get_completion_class

    class_ = get_completion_class(shell)
    assert class_ is not None
    return class_(cli, {}, "podium", COMPLETE_VARIABLE).source()


def _own_shell() -> str:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in _SHELLS:
        raise click.UsageError("your shell is not known from SHELL: name it with --shell bash, zsh or fish.")
    return name


def _install(shell: str) -> int:
    if shell == "fish":
        file = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / _FISH
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_script(shell))
    else:
        file = Path.home() / _STARTUP[shell]
        line = f'eval "$(podium completion {shell})"'
        before = file.read_text(errors="surrogateescape") if file.exists() else ""
        if line in before.splitlines():
            click.echo(f"{file} completes podium already")
            return 0
        separator = "" if not before or before.endswith("\n") else "\n"
        with file.open("a") as opened:
            opened.write(f"{separator}{line}\n")
    click.echo(f"{file}: written; open a new shell to use it")
    return 0
