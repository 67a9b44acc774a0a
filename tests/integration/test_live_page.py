"""The page on the management address, in a real browser, against a real mesh."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.integration.browser.axe import violations
from tests.integration.browser.chromium import Browser, chromium
from tests.integration.conftest import OPERATOR, OPERATOR_TOKEN
from tests.integration.emm_peer import Device
from tests.integration.mesh import TestMesh, wait_until

USUAL_WIDTH = 1360
HANDSHAKE = bytes.fromhex("00 0001 04 6a736f6e")
MARKUP = "live.<img/src='x'onerror=alert(1)>"
"""A subject without spaces that is an image to a browser which takes it for markup."""
LINES_OF_A_NODE = """
  fetch("live/now").then(answer => answer.json()).then(said => {
    const session = {
      session: "edge-0.1a1f4ecc8a5.7", protocol: "wolpertinger", peer: "192.168.100.100:40123", node: "link:hsp-netty",
      received_frames: 1234, delivered_frames: 1234, pending_deliveries: 0,
    };
    showTables({ ...said, shown_sessions: [session] });
    const text = document.createRange();
    text.selectNodeContents(document.querySelector("#sessions td:nth-child(4)"));
    return text.getClientRects().length;
  })
"""
AWAY = """
  fetch("live/now").then(answer => answer.json()).then(said => {
    showParts({ ...said, away: [{ what: "link plant", why: "Connection refused" }] });
    return document.getElementById("away").innerText;
  })
"""
WATCHED = """
  window.refused = [];
  document.addEventListener("securitypolicyviolation", one => refused.push(one.blockedURI));
"""
INJECTED = """
  const one = document.createElement("script");
  one.textContent = "window.ran = 1";
  document.body.append(one);
  document.body.append(Object.assign(new Image(), {src: "http://127.0.0.1:1/x.png"}));
"""


def resize(browser: Browser, width: int) -> None:
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=2200, deviceScaleFactor=1, mobile=False)


@contextmanager
def sized(browser: Browser, width: int) -> Iterator[None]:
    resize(browser, width)
    try:
        yield
    finally:
        resize(browser, USUAL_WIDTH)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("chromium")) as one:
        resize(one, USUAL_WIDTH)
        one.call("Page.addScriptToEvaluateOnNewDocument", source=WATCHED)
        yield one


@pytest.fixture
def page(mesh: TestMesh, browser: Browser) -> Browser:
    browser.open(f"http://127.0.0.1:{mesh.ports['edge']}/")
    return browser


@pytest.fixture
def device(mesh: TestMesh) -> Iterator[Device]:
    one = Device(mesh.ports["devices"]).trusted_by(mesh)
    one.subscribe("live.page")
    yield one
    one.close()


def shows(page: Browser, id_: str, *words: str) -> None:
    wait_until(lambda: all(word in page.text(f"#{id_}") for word in words), f"{words} in {id_}", 60)


def keeps_sending(page: Browser, device: Device) -> None:
    """Until its subject is among the busiest: others may have been busier a moment ago."""

    def is_busy() -> bool:
        device.send(device.packet("live.page"))
        return "live.page" in page.text("#subjects")

    wait_until(is_busy, "the subject is among the busiest", 60)


def test_the_page_shows_what_flows_who_wants_it_and_what_was_refused(
    mesh: TestMesh, page: Browser, device: Device, tmp_path: Path
) -> None:
    shows(page, "parts", "edge-0", "router, ")
    shows(page, "stages", "received", "logged", "decoded", "events", "routed", "delivered")
    shows(page, "listeners", "devices", "wolpertinger")
    shows(page, "interests", "live.page", device.node)

    device.send(device.packet("live.page", "21.5 °C"))
    shows(page, "tap", "live.page", "21.5 °C")
    keeps_sending(page, device)
    device.send(b"\x09 no packet <b>at all</b>")
    shows(page, "rejections", "unsupported_version", "no packet <b>at all</b>")
    shows(page, "reasons", "unsupported_version")

    assert page.screenshot(tmp_path / "page.png").startswith(b"\x89PNG")
    assert page.evaluate("refused") == []
    assert page.text("#trouble") == ""
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", page.text("#at"))
    assert re.search(r"\d\d:\d\d:\d\d\.\d{3}Z", page.text("#tap"))


def test_what_is_away_is_named_with_the_reason(page: Browser) -> None:
    shows(page, "parts", "edge-0")
    assert page.evaluate(AWAY) == "link plant: Connection refused"


def test_the_page_leads_to_the_example(page: Browser) -> None:
    page.evaluate("document.querySelector('nav a').click()")
    wait_until(lambda: page.evaluate("document.title") == "Meshgate in a browser", "the example is there")


@pytest.mark.parametrize("path", ["", "example"])
@pytest.mark.parametrize("width", [390, 1100, 1600])
def test_nothing_is_wider_than_the_window(mesh: TestMesh, browser: Browser, path: str, width: int) -> None:
    with sized(browser, width):
        browser.open(f"http://127.0.0.1:{mesh.ports['edge']}/{path}")
        if not path:
            shows(browser, "listeners", "devices", "wolpertinger")
        assert browser.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [390, 1100])
def test_the_name_of_a_node_stays_on_one_line(page: Browser, width: int) -> None:
    shows(page, "listeners", "devices")
    with sized(page, width):
        assert page.evaluate(LINES_OF_A_NODE) == 1


def test_a_wide_window_shows_tables_with_ids_of_nodes_whole(page: Browser, device: Device) -> None:
    shows(page, "interests", "live.page", device.node)
    hidden = "[...document.querySelectorAll('#sessions, #interests')].map(rows => rows.closest('.scroll'))"
    with sized(page, 1600):
        assert page.evaluate(f"{hidden}.filter(part => part.scrollWidth > part.clientWidth).length") == 0


@pytest.mark.parametrize("width", [390, 1600])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["", "example"])
def test_axe_finds_nothing(mesh: TestMesh, browser: Browser, path: str, scheme: str, width: int) -> None:
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    with sized(browser, width):
        browser.open(f"http://127.0.0.1:{mesh.ports['edge']}/{path}")
        if not path:
            shows(browser, "listeners", "devices")
            shows(browser, "latencies", "end to end")
            acts_as_operator(browser)
        assert violations(browser) == []


def acts_as_operator(page: Browser, token: str = OPERATOR_TOKEN) -> None:
    wait_until(lambda: not page.evaluate("document.getElementById('operator').hidden"), "the page may act")
    page.fill(token=token)
    page.press("operator")


def clicks(page: Browser, label: str) -> None:
    """Presses the button that a screen reader calls so, by keyboard."""
    found = f"document.querySelector('[aria-label={json.dumps(label)}]')"
    wait_until(lambda: page.evaluate(f"!!{found}"), f"there is a button {label}", 60)
    page.evaluate(f"{found}.focus()")
    presses_enter(page)


def presses_enter(page: Browser) -> None:
    for kind in ("keyDown", "keyUp"):
        page.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")


def test_the_mesh_is_drawn_and_listed(page: Browser, device: Device) -> None:
    for part in ("drawing", "tree"):
        wait_until(
            lambda part=part: device.node[:20] in page.evaluate(f"document.getElementById('{part}').textContent"),
            f"the device is in the {part}", 60,
        )  # fmt: skip
    for width, shown in ((390, "tree"), (1600, "drawing")):
        with sized(page, width):
            boxes = f"document.querySelector('#{shown}').getBoundingClientRect()"
            assert page.evaluate(f"{boxes}.width > 300 && {boxes}.height > 100")


def test_a_device_is_called_by_its_label(mesh: TestMesh, page: Browser, device: Device) -> None:
    store = yaml.safe_load(mesh.keys_file.read_text())
    store["nodes"][device.node]["keys"]["00000001"]["label"] = "garden sensor"
    fresh = mesh.keys_file.with_suffix(".new")
    fresh.write_text(yaml.safe_dump(store))
    fresh.replace(mesh.keys_file)
    shows(page, "interests", "garden sensor", device.node)
    device.send(device.packet("live.page"))
    shows(page, "tap", "garden sensor")


def test_without_a_token_there_is_nothing_to_press(page: Browser, device: Device) -> None:
    device.send(device.packet("live.page"))
    shows(page, "tap", "live.page")
    pressable = "[...document.querySelectorAll('.act')].filter(one => one.checkVisibility()).length"
    assert page.evaluate(pressable) == 0
    assert page.evaluate("document.getElementById('acting').hidden")


def test_what_is_hidden_is_not_seen(page: Browser) -> None:
    shows(page, "parts", "edge-0")
    seen = "['operator', 'acting'].filter(id => { at(id).hidden = true; return at(id).checkVisibility(); })"
    assert page.evaluate(seen) == []


def test_a_wrong_token_is_refused_and_forgotten(page: Browser, device: Device) -> None:
    device.send(device.packet("live.page"))
    acts_as_operator(page, "not-the-token-of-alice")
    page.press("publishing")
    shows(page, "acted", "this is the token of no operator")
    assert page.evaluate("token") == ""
    assert page.evaluate("document.body.className") == ""


def test_an_operator_publishes_an_event_and_follows_its_trace(mesh: TestMesh, page: Browser) -> None:
    acts_as_operator(page)
    page.fill(subject="live.published", body="by alice", via="yamp")
    page.press("publishing")
    shows(page, "acted", "published live.published: 8 bytes")
    event = {"subject": "live.published", "body": "by alice"}
    row = "[...document.querySelectorAll('#tap tr')].find(one => one.textContent.includes('live.published'))"
    wait_until(lambda: page.evaluate(f"!!{row}"), f"{event} passes", 60)
    page.evaluate("document.getElementById('held').checked = true")
    clicks(page, str(page.evaluate(f"{row}.querySelector('button.act').getAttribute('aria-label')")))
    shows(page, "steps", "received", "logged", "accepted", "event live.published")
    assert violations(page) == []
    assert page.evaluate("document.getElementById('trace').open")
    page.call("Input.dispatchKeyEvent", type="keyDown", key="Escape", code="Escape", windowsVirtualKeyCode=27)
    wait_until(lambda: not page.evaluate("document.getElementById('trace').open"), "Escape closes it")
    assert f"operator {OPERATOR} at 127.0.0.1: publish" in mesh.logs()


def test_an_operator_redrives_what_was_refused(page: Browser, device: Device) -> None:
    device.send(b"\x09 no packet, and never one")
    shows(page, "rejections", "no packet, and never one")
    row = "[...document.querySelectorAll('#rejections tr')].find(one => one.textContent.includes('never one'))"
    acts_as_operator(page)
    clicks(page, str(page.evaluate(f"{row}.querySelector('td.act button').getAttribute('aria-label')")))
    shows(page, "acted", "is left alone: ")


def test_an_operator_kicks_a_session(mesh: TestMesh, page: Browser) -> None:
    with socket.create_connection(("127.0.0.1", mesh.ports["yamp"])) as peer:
        peer.sendall(HANDSHAKE)
        peer.recv(len(HANDSHAKE))
        mine = "{}:{}".format(*peer.getsockname())
        shows(page, "sessions", mine)
        row = f"[...document.querySelectorAll('#sessions tr')].find(one => one.textContent.includes('{mine}'))"
        acts_as_operator(page)
        clicks(page, str(page.evaluate(f"{row}.querySelector('td.act button').getAttribute('aria-label')")))
        shows(page, "acted", "kicked edge-0.")
        peer.settimeout(30)
        assert b"kicked" in peer.recv(1000)


def test_the_focus_stays_where_it_was_when_a_table_changes(page: Browser) -> None:
    shows(page, "parts", "edge-0")
    focused = page.evaluate("""
      var session = {
        session: "edge-0.1.7", protocol: "yamp", peer: "10.0.0.1:1", node: "anon:x",
        received_frames: 1, delivered_frames: 1, pending_deliveries: 0,
      };
      become("a token");
      var standing = { shown: [], count: 0, is_whole: true };
      var others = { listeners: [], subjects: [], rejected: [], sessions: 1, standing };
      showTables({ ...others, shown_sessions: [session] });
      document.querySelector("#sessions button").focus();
      showTables({ ...others, shown_sessions: [{ ...session, received_frames: 2 }] });
      document.activeElement.getAttribute("aria-label");
    """)
    assert focused == "kick edge-0.1.7"


def test_a_record_is_unfolded_by_keyboard(page: Browser, device: Device) -> None:
    device.send(device.packet("live.page", "by keyboard"))
    shows(page, "tap", "by keyboard")
    page.evaluate("document.getElementById('held').checked = true")
    page.evaluate("document.querySelector('#tap button').focus()")
    presses_enter(page)
    shows(page, "tap", '"content_type"')


def test_markup_of_a_peer_is_shown_as_what_it_is(page: Browser, device: Device) -> None:
    device.send(device.packet(MARKUP, "<script>alert(2)</script>"))
    shows(page, "tap", MARKUP, "<script>alert(2)</script>")
    assert page.evaluate("document.querySelectorAll('img, td script').length") == 0
    page.evaluate("document.querySelector('#tap tr').click()")
    shows(page, "tap", '"content_type"')
    assert page.evaluate("document.querySelectorAll('img, td script').length") == 0


def test_a_script_that_got_into_the_page_would_not_run(page: Browser) -> None:
    page.evaluate(INJECTED)
    wait_until(lambda: set(page.evaluate("refused")) == {"inline", "http://127.0.0.1:1/x.png"}, "both are refused")
    assert page.evaluate("window.ran") is None


def test_the_tap_looks_where_it_is_told_and_shows_what_is_asked_for(page: Browser, device: Device) -> None:
    page.evaluate("document.getElementById('place').value = 'raw'")
    page.evaluate("document.getElementById('place').dispatchEvent(new Event('change'))")
    wanted = f"looked for by {device.node}"
    page.fill(words=wanted)
    wait_until(lambda: page.evaluate("read.tap") > 0, "the raw log is tapped", 60)
    device.send(device.packet("live.raw", "not this"))
    device.send(device.packet("live.raw", wanted))
    shows(page, "tap", wanted)
    assert page.evaluate("document.querySelectorAll('#tap tr').length") == 1


def test_an_edge_that_goes_is_told_and_the_page_goes_on_when_it_is_back(page: Browser) -> None:
    shows(page, "stages", "received")
    page.call("Network.enable")
    offline = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    page.call("Network.emulateNetworkConditions", offline=True, **offline)
    wait_until(lambda: "the edge does not answer" in page.text("#trouble"), "the page says that the edge is away")
    assert page.evaluate("document.querySelector('main').className") == "stale"
    page.call("Network.emulateNetworkConditions", offline=False, **offline)
    wait_until(lambda: page.evaluate("document.querySelector('main').className") == "", "the page goes on")
    assert json.loads(page.evaluate("JSON.stringify(refused)")) == []
