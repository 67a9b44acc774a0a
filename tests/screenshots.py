"""Makes the pictures that the README shows: a mesh with sample traffic, and its page in a real browser.

python -m tests.screenshots
"""

from __future__ import annotations

import base64
import json
import tempfile
from pathlib import Path

from tests.integration.browser.chromium import Browser, chromium
from tests.integration.mesh import TestMesh, running_mesh, wait_until

DOCS = Path(__file__).parents[1] / "gateway" / "docs"
LARGEST_BYTES = 200_000
LISTENERS: list[dict[str, object]] = [
    {"name": "devices", "protocol": "emm", "scheme": "udp"},
    {"name": "plc", "protocol": "hsp", "types": {17: "demo.plc"}},
    {"name": "apps", "protocol": "yamp"},
    {"name": "web", "protocol": "yamp", "scheme": "ws"},
    {"name": "office", "protocol": "wolpertinger"},
    {"name": "plant", "protocol": "emp"},
]
OPERATOR_TOKEN = "only-for-a-picture"
TRAFFIC_SECONDS = 300
HEIGHT, AROUND = 1330, 16
POINTS = 11
"""So many points of the plots, ten seconds apart."""


def look(browser: Browser, url: str, width: int, scheme: str) -> None:
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.call("Emulation.setScrollbarsHidden", hidden=True)
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=HEIGHT, deviceScaleFactor=1, mobile=False)
    browser.open(url)
    for part in ("parts", "sessions", "interests", "tap", "latencies", "drawing svg", "subjects"):
        wait_until(lambda part=part: browser.evaluate(f"document.querySelector('#{part}')?.textContent"), part, 60)
    wait_until(lambda: browser.evaluate("history.received.length >= 30"), "the small plots are filled", 120)


def picture(browser: Browser, name: str, last: str, first: str = "") -> None:
    """Takes a picture of the page as wide as its window, down to the end of the section that shows `last`.

    `first` is what the first section shows; without it the picture begins at the top of the page.
    """
    section = "document.querySelector({}).closest('section').getBoundingClientRect()"
    top = browser.evaluate(f"{section.format(json.dumps(first))}.top - {AROUND}") if first else 0
    bottom = browser.evaluate(f"{section.format(json.dumps(last))}.bottom + {AROUND}")
    clip = {"x": 0, "y": top, "width": browser.evaluate("innerWidth"), "height": bottom - top, "scale": 1}
    shown = browser.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
    image = base64.b64decode(shown["data"])
    (DOCS / name).write_bytes(image)
    print(f"{name}: {len(image)} bytes")
    assert len(image) < LARGEST_BYTES, name


def make(mesh: TestMesh, browser: Browser) -> None:
    url = f"http://127.0.0.1:{mesh.ports['edge']}/"
    demo = mesh.begin("demo", "--seconds", str(TRAFFIC_SECONDS), "--output", "json")
    browser.open(url)
    enough = f"fetch('live/hour').then(answer => answer.json()).then(said => said.at.length >= {POINTS})"
    wait_until(lambda: browser.evaluate(enough), "the last hour has begun", TRAFFIC_SECONDS)
    look(browser, url, 1240, "light")
    picture(browser, "page.png", "#listeners")
    picture(browser, "graph.png", "#drawing", "#drawing")
    look(browser, url, 390, "dark")
    picture(browser, "page-narrow.png", "#rates")
    demo.terminate()
    demo.wait()


def main() -> None:
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        with (
            running_mesh(folder / "mesh", LISTENERS, {"edge": {"operators": {"alice": OPERATOR_TOKEN}}}) as mesh,
            chromium(folder) as browser,
        ):
            make(mesh, browser)


if __name__ == "__main__":
    main()
