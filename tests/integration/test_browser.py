"""A browser as a peer of the mesh: the example page in a real one, against a real mesh."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.browser.chromium import Browser, chromium
from tests.integration.emm_peer import Device
from tests.integration.mesh import TestMesh, wait_until


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with chromium(tmp_path) as one:
        yield one


def page(mesh: TestMesh, **asked: str) -> str:
    query = "&".join(f"{name}={value}" for name, value in asked.items())
    return f"http://127.0.0.1:{mesh.ports['edge']}/example?{query}"


def test_a_page_subscribes_sends_and_shows_an_event_of_a_device_that_signs_its_packets(
    mesh: TestMesh, browser: Browser, device: Device, tmp_path: Path
) -> None:
    device.subscribe("browser.out")  # answered once the mesh has read its keys: before that, what it sends is refused
    browser.open(page(mesh, to=f"ws://127.0.0.1:{mesh.ports['web']}", subscribe="browser.in.>"))
    browser.press("connecting")
    wait_until(lambda: browser.text("#state").startswith("connected to ws://"), "connected")
    browser.press("subscribing")
    wait_until(lambda: browser.text("#subscribed") == "browser.in.>", "subscribed")

    device.send(device.packet("browser.in.kitchen", "21.5 °C"))
    wait_until(lambda: browser.text("#events td:nth-child(2)") == "browser.in.kitchen", "the event is shown")
    assert json.loads(browser.text("#events td:nth-child(3)")) == "21.5 °C"

    browser.fill(subject="browser.out", body=json.dumps({"celsius": 21.5}))
    browser.press("sending")
    heard = device.receive()
    assert heard is not None
    assert b'{"celsius":21.5}' in heard

    image = browser.screenshot(tmp_path / "screenshot.png")
    assert image.startswith(b"\x89PNG")
    assert browser.text("#state").startswith("connected")


def test_a_mesh_that_goes_is_told_in_the_page(mesh: TestMesh, browser: Browser) -> None:
    browser.open(page(mesh, to="ws://127.0.0.1:1"))
    browser.press("connecting")
    wait_until(lambda: browser.text("#state").startswith("ended: "), "the end is shown")
    browser.press("subscribing")
    wait_until(lambda: browser.text("#problem") == "not connected", "what cannot be done is told")
    assert browser.text("#state").startswith("ended: ")


def test_the_page_offers_the_listeners_there_are(mesh: TestMesh, browser: Browser) -> None:
    browser.open(page(mesh))
    assert browser.evaluate("document.getElementById('url').value") == f"ws://127.0.0.1:{mesh.ports['web']}"
    browser.press("connecting")
    wait_until(lambda: browser.text("#state").startswith("connected to ws://"), "connected")


def test_an_error_does_not_look_like_success(mesh: TestMesh, browser: Browser) -> None:
    browser.open(page(mesh, subscribe="a..b"))
    browser.press("connecting")
    wait_until(lambda: browser.text("#state").startswith("connected to ws://"), "connected")
    browser.press("subscribing")
    wait_until(lambda: browser.text("#problem") != "", "the refusal is told")
    colour = "getComputedStyle(document.getElementById('{}')).color"
    assert browser.evaluate(colour.format("problem")) != browser.evaluate(colour.format("state"))
    browser.fill(pattern="a.b")
    browser.press("subscribing")
    wait_until(lambda: browser.text("#subscribed") == "a.b", "subscribed")
    assert browser.text("#problem") == ""


def test_a_page_from_elsewhere_is_not_let_in(mesh: TestMesh, browser: Browser) -> None:
    """The browser itself says where a script came from: a page of another host, or of no host at all."""
    browser.open("data:text/html,<title>elsewhere</title>")
    url = f"ws://127.0.0.1:{mesh.ports['web']}"
    tried = f"new Promise(told => {{ const one = new WebSocket('{url}'); one.onopen = () => told('open');"
    assert browser.evaluate(tried + " one.onclose = closed => told(closed.code); })") == 1006
