"""Tests that README and pages can be taken as they stand: configurations hold, the device signs, no link is dead."""

from __future__ import annotations

import json
import re
import socket
import sys
import time
import tomllib
from pathlib import Path
from subprocess import run as run_program
from typing import Any

import pytest
import yaml

import streaming_jobs.rules
from gateway.auth.trust_file import load
from gateway.cli import VERBS
from gateway.config import parse
from gateway.config.topics import TOPICS
from gateway.core.event import Auth
from gateway.core.reasons import Reason
from gateway.protocols import protocols
from gateway.protocols.emm.codec import decode
from gateway.protocols.emm.options import EmmOptions
from gateway.protocols.emm.packet_checks import authenticate
from gateway.protocols.spec import ProtocolSpec
from gateway.records import cloud_event
from tests.unit.cli.running import run

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "gateway" / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
ARCHITECTURE, CONTRIBUTING, GLOSSARY = (DOCS / f"{name}.md" for name in ("architecture", "contributing", "glossary"))
OF_THE_DESIGN = pytest.mark.parametrize("page", [ARCHITECTURE, CONTRIBUTING, GLOSSARY], ids=lambda page: page.stem)
FOLDERS = "gateway|streaming_jobs|tests|helm|k8s|[.]ci"
PLACEHOLDER = "NAME"
"""Stands in a list of files for a name of the reader's own."""
SAME_FOLDER = {"edges.py", "router.py", "security.py"}
"""Named beside another module of their folder."""


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```$", page.read_text())


def spans(page: Path) -> set[str]:
    """Returns what stands in the text's marks, or is a line of a block."""
    *parts, last = re.split(r"(?m)^```\w*\n", page.read_text())
    lines = [line for block in parts[1::2] for line in block.splitlines()]
    return {*lines, *(span for text in [*parts[::2], last] for span in re.findall(r"`([^`]+)`", text))}


def rows(page: Path, heading: str = "") -> list[list[str]]:
    """The cells of all tables of a page, or of those below a heading, without the heads of the tables."""
    text = page.read_text()
    if heading:
        text = re.split(r"(?m)^##+ ", text.partition(f"# {heading}\n")[2])[0]
    lines = re.findall(r"(?m)^\|(.+)\|$", text)
    heads = {number for at, line in enumerate(lines) if re.fullmatch(r"[-|]+", line) for number in (at - 1, at)}
    return [[cell.strip() for cell in line.split("|")] for at, line in enumerate(lines) if at not in heads]


def anchors(page: Path) -> set[str]:
    """Makes anchors as forges make them of headings."""
    titles = re.findall(r"(?m)^#+ (.+)$", page.read_text())
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(((?!http)[^)\s]+)\)", page.read_text()):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@OF_THE_DESIGN
def test_every_file_that_is_named_is_there(page: Path) -> None:
    named = {path for span in spans(page) for path in re.findall(rf"(?<![\w/.])(?:{FOLDERS})/[\w./*-]+", span)}
    assert page == GLOSSARY or len(named) > 50
    assert [path for path in sorted(named) if not any(ROOT.glob(path.replace(PLACEHOLDER, "*")))] == []


@OF_THE_DESIGN
def test_a_module_is_named_by_its_whole_path(page: Path) -> None:
    short = [span for span in spans(page) if re.fullmatch(r"[\w/]+[.]py", span) and not re.match(FOLDERS, span)]
    assert [span for span in short if span not in SAME_FOLDER] == []


@OF_THE_DESIGN
def test_every_class_that_is_named_is_there(page: Path) -> None:
    named = {span for span in spans(page) if re.fullmatch(r"(?:[A-Z][a-z]+){2,}", span)}
    code = "".join(
        path.read_text() for folder in ("gateway", "streaming_jobs") for path in (ROOT / folder).rglob("*.py")
    )
    assert [name for name in sorted(named) if not re.search(rf"(?m)^class {name}\b", code)] == []


@pytest.mark.parametrize("page", [ROOT / "README.md", ARCHITECTURE, CONTRIBUTING], ids=lambda page: page.stem)
def test_every_verb_and_program_that_is_named_is_there(page: Path) -> None:
    verbs = {verb for span in spans(page) for verb in re.findall(r"(?:^|[ /])meshgate ([a-z]+)\b", span)}
    assert verbs
    assert verbs <= VERBS.keys()
    modules = {name for span in spans(page) for name in re.findall(r"python -m ((?:gateway|helm|tests)[\w.]+)", span)}
    places = {name: ROOT.joinpath(*name.split(".")) for name in modules}
    assert [
        name for name, at in places.items() if not (at.with_suffix(".py").exists() or (at / "__main__.py").exists())
    ] == []


def test_every_topic_is_told_of_with_who_writes_and_who_reads_it() -> None:
    table = {name.strip("`"): columns for name, *columns in rows(ARCHITECTURE, "The topics")}
    assert table.keys() == TOPICS.keys()
    for name, topic in TOPICS.items():
        holds, key, writers, readers = table[name]
        assert key == topic.key
        assert {part for part in ("edge", "router", "rules") if part in writers} == topic.writers
        assert all(part in readers for part in topic.readers)
        assert ("compacted" in holds) is topic.is_compacted


def test_a_word_of_the_glossary_is_explained_in_one_sentence() -> None:
    words = [word for word, _ in rows(GLOSSARY)]
    assert len(words) > 60
    assert words == sorted(set(words))
    assert [meaning for _, meaning in rows(GLOSSARY) if not re.fullmatch(r"[^.]+(?:`[^`]+`[^.]*)*[.]", meaning)] == []


@pytest.mark.parametrize(
    ("page", "shown"),
    [(page, block) for page in PAGES for block in blocks(page, "yaml")],
    ids=lambda each: each.stem if isinstance(each, Path) else "",
)
def test_every_configuration_that_is_shown_holds(page: Path, shown: str, tmp_path: Path) -> None:
    for name in re.findall(r"\$\{file:([^}]+)\}", shown):
        (tmp_path / name).write_text("a-secret-of-32-visible-characters")
    assert parse(f"mesh: shown\n{shown}", tmp_path / f"{page.stem}.yaml", {})


@pytest.mark.parametrize("spec", protocols().values(), ids=protocols())
def test_every_option_of_a_protocol_is_listed_with_its_default(spec: ProtocolSpec[Any], tmp_path: Path) -> None:
    page = (DOCS / "protocols.md").read_text()
    defaults = dict(re.findall(rf"(?m)^\| {spec.name} \| `(\w+)` \| `(.+?)` \|", page))
    assert defaults.keys() == spec.options.model_fields.keys()
    scheme = "udp" if "udp" in spec.transports else "tcp"
    common = {"name": "one", "protocol": spec.name, "listen": f"{scheme}://127.0.0.1:0"}
    keys = "".join(f", {name}: {value}" for name, value in (common | defaults).items())
    config = parse(f"mesh: m\nlisteners: [{{{keys.removeprefix(', ')}}}]", tmp_path / "m.yaml", {})
    assert config.listeners[0].options == spec.options()


def test_every_attribute_of_an_event_in_the_topic_is_listed() -> None:
    _, _, section = (DOCS / "protocols.md").read_text().partition("## Reading the topic `events`")
    assert set(re.findall(r"`(ce_\w+|content-type)`", section.partition("\n## ")[0])) == set(cloud_event.NAMES)


def test_what_is_said_to_show_what_stops_an_attacker_is_there() -> None:
    named = re.findall(r"`(tests/[^`]+)`", (DOCS / "security.md").read_text())
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_rule_that_is_shown_is_one_of_the_examples() -> None:
    (shown,) = blocks(DOCS / "rules.md", "yaml")
    (rule,) = yaml.safe_load(shown)["rules"]
    assert rule in yaml.safe_load((Path(streaming_jobs.rules.__file__).parent / "examples.yaml").read_text())


def test_the_device_that_is_shown_is_believed(tmp_path: Path) -> None:
    run("init", "--dir", str(tmp_path))
    made = run("keys", "new", "--trust", str(tmp_path / "keys.yaml"), "--output", "json")
    (tmp_path / "device.json").write_text(made.stdout)
    (sender,) = [block for block in blocks(DOCS / "protocols.md", "python") if "hmac" in block]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as edge:
        edge.bind(("127.0.0.1", 0))
        edge.settimeout(10)
        here = sender.replace("5050", str(edge.getsockname()[1]))
        run_program([sys.executable, "-I", "-S", "-c", here], cwd=tmp_path, check=True, timeout=30)
        packet = decode(edge.recv(2048))
    now = int(time.time() * 1_000_000)
    assert authenticate(packet, now, EmmOptions(), load(tmp_path / "keys.yaml").keys).auth is Auth.HMAC


def test_the_packet_that_is_shown_byte_by_byte_is_what_the_device_sends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shown,) = blocks(DOCS / "protocols.md", "text")
    digits = [word for line in shown.splitlines() for word in line[:71].split()]
    packet = bytes.fromhex("".join(digits))
    (sender,) = [block for block in blocks(DOCS / "protocols.md", "python") if "hmac" in block]
    key = {
        "node": "00112233-4455-6677-8899-aabbccddeeff",
        "key_id": "00000001",
        "secrets": {"hmac": bytes(range(32)).hex()},
    }
    (tmp_path / "device.json").write_text(json.dumps(key))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.urandom", lambda count: bytes.fromhex("01020304")[:count])
    monkeypatch.setattr("time.time", lambda: 1_700_000_000.5)
    device: dict[str, Any] = {}
    exec(sender.partition("\n\n\nwith socket")[0], device)  # noqa: S102 - the page's own
    assert device["packet"]("temp.garden", {"celsius": 19}) == packet
    assert len(packet) == 105


def test_every_reason_for_refusing_a_frame_is_explained() -> None:
    named = [
        slug for names, *_ in rows(DOCS / "troubleshoot.md", "Why a frame was refused") for slug in spans_of(names)
    ]
    assert sorted(named) == sorted(Reason)


def spans_of(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def test_what_the_first_command_installs_says_at_once_that_a_python_is_too_old() -> None:
    """An older pip looks at an extra's own requirements first: one that no older Python has must be among them."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert "'.[local]'" in blocks(ROOT / "README.md", "sh")[0]
    assert set(extras["router"]) < set(extras["local"])
