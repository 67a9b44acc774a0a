"""The command line: one module for each verb, imported when its verb is called.

So `meshgate keys` starts as fast as it would without Spark installed, and a part that a slim image leaves out is
simply no verb there. A verb is `gateway/cli/<verb>.py` with a click command named `command`; it may return its exit
code. Whatever goes wrong ends in one line on standard error and an exit code that says what kind of thing it was.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from gateway import __version__
from gateway.cli.console import LOG_FORMAT, Exit, report

VERBS = {
    "up": "the whole mesh on this machine",
    "status": "whether the mesh of `up` is ready, and how its parts are",
    "logs": "what the parts of the mesh of `up` have logged",
    "down": "end the mesh of `up`, in order",
    "init": "write a commented configuration and the gateway's keys",
    "validate": "check a configuration: every fault, with its place",
    "config": "show the configuration that holds, defaults included",
    "explain": "one setting: type, unit, default, whether it reloads, and why",
    "schema": "print the configuration's JSON Schema, for editors",
    "docs": "the documentation in a browser, without a network",
    "check": "look for what is wrong, from Java to certificates, and say what to do",
    "keys": "the trust store: new, list, rotate, revoke",
    "kafka": "the embedded broker alone",
    "topics": "the mesh's topics: create, grow, describe",
    "edge": "one edge alone",
    "router": "the router alone",
    "context": "meshes by name: address, protocol, credentials",
    "pub": "publish an event",
    "sub": "receive events",
    "req": "ask and wait for the answer",
    "serve": "answer requests with a command",
    "tap": "live frames as they pass",
    "top": "rates and latencies, refreshed",
    "peers": "who is connected",
    "interests": "who wants what",
    "rejected": "frames that were refused: why, their bytes, and sending them through again",
    "replay": "decode the raw log again with today's code, rules and keys",
    "trace": "one frame's whole way",
    "audit": "account for every frame: the loss equation over the topics",
    "demo": "sample traffic from peers of every protocol",
    "bench": "open-loop load with latencies",
    "graph": "the running topology as DOT or Mermaid",
    "sql": "Spark SQL over the events",
    "rules": "try streaming rules on recorded events",
    "completion": "a completion script for bash, zsh or fish",
}


def _exists(verb: str) -> bool:
    return importlib.util.find_spec(f"{__name__}.{verb}") is not None


class Verbs(click.Group):
    """Lists and completes from the table above, and imports only the verb that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return [verb for verb in VERBS if _exists(verb)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in VERBS or not _exists(cmd_name):
            return None
        command: click.Command = importlib.import_module(f"{__name__}.{cmd_name}").command
        command.short_help = VERBS[cmd_name]
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        verb = args[0]
        if self.get_command(ctx, verb) is None and not verb.startswith("-"):
            close = difflib.get_close_matches(verb.lower(), self.list_commands(ctx), n=1)
            ctx.fail(f"there is no verb {verb}: did you mean {close[0]}?" if close else f"there is no verb {verb}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, VERBS[verb]) for verb in self.list_commands(ctx)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        verbs = [verb for verb in self.list_commands(ctx) if verb.startswith(incomplete)]
        return [CompletionItem(verb, help=VERBS[verb]) for verb in verbs] + click.Command.shell_complete(
            self, ctx, incomplete
        )

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: ARG002 - always: no caller wants the exceptions
        **extra: Any,
    ) -> NoReturn:
        """Runs the verbs as a program. click's own test runner calls it too, and expects SystemExit like a shell."""
        LOG_FORMAT.set("text")  # until an option says otherwise
        extra.setdefault("color", False if os.environ.get("NO_COLOR") else None)
        try:
            result: object = super().main(args, prog_name or self.name, complete_var, standalone_mode=False, **extra)
        except Exception as failed:
            sys.exit(report(failed))
        # click gives back what the verb returned, and the code of a verb that ended by `ctx.exit(code)`.
        sys.exit(result if isinstance(result, int) and not isinstance(result, bool) else Exit.OK)


@click.group("meshgate", cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="meshgate", message="%(prog)s %(version)s")
def main() -> None:
    """One event mesh for five small messaging protocols, routed by Spark Structured Streaming.

    Every verb takes -c FILE; without it the configuration is $MESHGATE_CONFIG, else ./meshgate.yaml,
    else ./mesh/meshgate.yaml. pub, sub, req and serve speak to the mesh of a context: --context, $MESHGATE_CONTEXT, or
    the one that is selected.

    Exit codes: 0 ok, 1 failed, 2 usage, 69 not reachable, 78 configuration, 130 interrupted.
    """
