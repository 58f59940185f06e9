"""`dray completion`: the lines that make a shell complete commands, options and names of queues."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_DRAY_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print a script by which SHELL completes commands, options and queues.

    \b
    bash: eval "$(dray completion bash)" in ~/.bashrc
    zsh:  eval "$(dray completion zsh)" in ~/.zshrc
    fish: dray completion fish > ~/.config/fish/completions/dray.fish
    """  # noqa: D301 - click reads a backspace
    made = get_completion_class(shell)
    assert made is not None, "click knows each of them"
    click.echo(made(context.find_root().command, {}, "dray", _VARIABLE).source())
