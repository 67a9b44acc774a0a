"""`meshgate completion`: what a shell needs to complete verbs and options."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

from gateway.cli.console import Output, show
from gateway.cli.options import logging_options, output_option, unread_config_option

SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@output_option
@unread_config_option
@logging_options
@click.pass_context
def command(context: click.Context, shell: str, output: Output) -> None:
    """Print a completion script.

    For bash: `source <(meshgate completion bash)` in ~/.bashrc; likewise for zsh, and for fish
    `meshgate completion fish > ~/.config/fish/completions/meshgate.fish`.
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"there is no completion for {shell}", context)
    completer = kind(context.find_root().command, {}, "meshgate", "_MESHGATE_COMPLETE")
    # The base class's, for bash's own asks the bash of this machine for its version first.
    script = ShellComplete.source(completer)
    show({"shell": shell, "script": script}, output, script)
