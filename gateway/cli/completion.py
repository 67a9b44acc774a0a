"""`meshgate completion`: what a shell needs to complete verbs and options."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print a completion script.

    For bash: `source <(meshgate completion bash)` in ~/.bashrc; likewise for zsh, and for fish
    `meshgate completion fish > ~/.config/fish/completions/meshgate.fish`.
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"there is no completion for {shell}", context)
    completer = kind(context.find_root().command, {}, "meshgate", "_MESHGATE_COMPLETE")
    # The base class's, for bash's own asks the bash of this machine for its version first.
    click.echo(ShellComplete.source(completer))
