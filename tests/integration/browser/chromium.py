"""A real browser without a screen, driven over the Chrome DevTools Protocol."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import urllib.request
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from tests.integration.debian import debian_program
from tests.integration.mesh import wait_until

START_SECONDS = 60.0
ANSWER_SECONDS = 60.0
EVENTS_KEPT = 1_000
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1000,700",
    "--remote-debugging-port=0",
)  # fmt: skip


class Browser:
    """One tab."""

    def __init__(self, debugger: ClientConnection) -> None:
        self._debugger = debugger
        self._calls = 0
        self._events: deque[dict[str, Any]] = deque(maxlen=EVENTS_KEPT)
        self.call("Page.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._calls += 1
        self._debugger.send(json.dumps({"id": self._calls, "method": method, "params": parameters}))
        while True:
            answer = self._hear()
            if answer.get("id") == self._calls:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result

    def _hear(self) -> dict[str, Any]:
        heard: dict[str, Any] = json.loads(self._debugger.recv(timeout=ANSWER_SECONDS))
        if "method" in heard:
            self._events.append(heard)
        return heard

    def open(self, url: str) -> None:
        """Until this very document is loaded: the one before it may still be there, and complete, for a moment."""
        began = self.call("Page.navigate", url=url)
        assert "errorText" not in began, f"{url}: {began['errorText']}"
        loaded = {"loaderId": began["loaderId"], "name": "load"}
        while not any(loaded.items() <= one["params"].items() for one in self._events):
            self._hear()

    def evaluate(self, expression: str) -> Any:
        """The value of a piece of JavaScript in the page."""
        said = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in said, said["exceptionDetails"]
        return said["result"].get("value")

    def fill(self, **fields: str) -> None:
        """Inputs by their ids, as a user would leave them."""
        for field, value in fields.items():
            self.evaluate(f"document.getElementById({json.dumps(field)}).value = {json.dumps(value)}")

    def press(self, form: str) -> None:
        self.evaluate(f"document.querySelector('#{form} button').click()")

    def text(self, selector: str) -> str:
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def screenshot(self, path: Path) -> bytes:
        image = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        path.write_bytes(image)
        return image


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """`folder`: for its profile, fresh."""
    program = debian_program("/usr/lib/chromium/chromium", "chromium", "fonts-dejavu-core")
    profile, said = folder / "profile", folder / "chromium.log"
    with said.open("wb") as log:
        running = subprocess.Popen(
            [program.path, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            env=os.environ | program.environment, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        with connect(_debugger_of(profile, running, said), max_size=None) as debugger:
            yield Browser(debugger)
    finally:
        running.terminate()
        running.wait(timeout=20)


def _debugger_of(profile: Path, running: subprocess.Popen[bytes], said: Path) -> str:
    """The browser writes down which port it has chosen."""
    chosen = profile / "DevToolsActivePort"

    def is_up() -> bool:
        assert running.poll() is None, said.read_text(errors="replace")[-2000:]
        return chosen.is_file() and bool(chosen.read_text().strip())

    wait_until(is_up, "chromium is up", START_SECONDS)
    port = int(chosen.read_text().split()[0])
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=10) as listed:
        tabs = json.load(listed)
    return str(next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page"))
