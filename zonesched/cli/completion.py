"""`zonesched completion`: completion of commands and options in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from zonesched.cli.group import CommandGroup

PROGRAM, VARIABLE = "zonesched", "_ZONESCHED_COMPLETE"


@click.group(cls=CommandGroup)
def completion() -> None:
    """Print the completion script of a shell."""


def _print_script(shell: str) -> None:
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(click.Command(PROGRAM), {}, PROGRAM, VARIABLE).source())


@completion.command()
def bash() -> None:
    """Print the script for bash 4.4 or later.

    In ~/.bashrc: eval "$(zonesched completion bash)"
    """
    _print_script("bash")


@completion.command()
def zsh() -> None:
    """Print the script for zsh.

    In ~/.zshrc, after compinit: eval "$(zonesched completion zsh)"
    """
    _print_script("zsh")


@completion.command()
def fish() -> None:
    """Print the script for fish.

    In a shell: zonesched completion fish > ~/.config/fish/completions/zonesched.fish
    """
    _print_script("fish")
