"""`meshgate docs`: the documentation, to be read without a network."""

from __future__ import annotations

import os
import sys
import webbrowser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import click

from gateway.cli.console import CommandError, Output, show_line
from gateway.cli.numbers import Whole
from gateway.cli.options import logging_options, unread_config_option

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css",
    "js": "text/javascript; charset=utf-8",
    "png": "image/png",
}
MOST_PORT = 65_535


@click.command("docs")
@click.option(
    "--output",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write the site into DIR instead: open its index.html, or serve the folder from anywhere.",
)
@click.option(
    "--port",
    type=Whole(min=0, max=MOST_PORT),
    default=0,
    help="Serve at this port of 127.0.0.1.  [default: a free one]",
)
@click.option("--no-open", is_flag=True, help="Do not open a browser.")
@click.option("--json", "is_json", is_flag=True, help="Print as JSON where the documentation is.")
@unread_config_option
@logging_options
def command(folder: Path | None, port: int, no_open: bool, is_json: bool) -> None:
    """Read the documentation in a browser. It is served on this machine alone, and asks for nothing elsewhere."""
    from gateway.docs.site import HOME, build_site

    site, output = build_site(), Output.JSON if is_json else Output.TEXT
    if folder is not None:
        _write(site, folder)
        home = str(folder / HOME)
        show_line({"folder": str(folder), "files": len(site)}, output, f"wrote {len(site)} files: open {home}")
        return
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), _handler(site))
    except OSError as error:
        raise CommandError(f"port {port} of 127.0.0.1: {error.strerror}: choose another with --port") from None
    with server:
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        show_line({"url": url}, output, f"the documentation is at {url}; Ctrl-C ends it")
        sys.stdout.flush()
        # Without a desktop it would be a browser of the terminal, which takes that over.
        has_desktop = sys.platform == "darwin" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
        if not no_open and has_desktop:
            webbrowser.open(url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return


def _write(site: dict[str, bytes], folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in site.items():
            (folder / name).write_bytes(content)
    except OSError as error:
        raise CommandError(f"{error.filename}: {error.strerror}") from None


def _handler(site: dict[str, bytes]) -> type[BaseHTTPRequestHandler]:
    from gateway.docs.site import HOME, POLICY

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.partition("?")[0].removeprefix("/") or HOME
            content = site.get(name)
            self.send_response(404 if content is None else 200)
            headers = {"Content-Type": TYPES[name.rpartition(".")[2] if content else "html"]}
            headers |= {
                "Content-Security-Policy": f"{POLICY}; frame-ancestors 'none'",
                "X-Content-Type-Options": "nosniff",
            }
            body = b"no such page" if content is None else content
            for header, value in (headers | {"Content-Length": str(len(body))}).items():
                self.send_header(header, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815 - the name that http.server looks for

        def log_message(self, format: str, *args: Any) -> None:
            """Nobody wants a line for each page that is read."""

    return Handler
