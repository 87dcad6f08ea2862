"""`podium completion`: completion of commands, options and files in the shell."""

import click

from podium.cli.app import COMPLETE_VARIABLE, cli


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the script that completes podium's commands in SHELL.

    \b
    To have it in every new shell:
      bash   eval "$(podium completion bash)"   in ~/.bashrc
      zsh    eval "$(podium completion zsh)"    in ~/.zshrc
      fish   podium completion fish > ~/.config/fish/completions/podium.fish
    """
    from click.shell_completion import get_completion_class

    class_ = get_completion_class(shell)
    assert class_ is not None
    click.echo(class_(cli, {}, "podium", COMPLETE_VARIABLE).source())
    return 0
