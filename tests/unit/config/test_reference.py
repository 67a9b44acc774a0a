"""Every setting is described, and the page says what the schema says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.config import reference
from gateway.config.model import Config
from gateway.config.reference import Setting, find_settings, settings
from gateway.protocols import protocols
from tests.unit.cli.running import run, said

PAGE = Path(__file__).parents[3] / "gateway" / "docs" / "settings.md"
FRAGMENTS = ("To", "Of", "By", "With", "Whom", "What", "As", "For", "From", "Who", "How", "Where", "Without")
VERBS = frozenset(
    """is are was has have may must can holds names says needs takes take waits keeps serves shows stands knows begins
    begin ends carries asks uses gives costs lists decides picks makes moves reads listens speaks speak write wait carry
    go serve show opens open connect dials pass use come sends tunes enters sets bounds routes proves starts returns
    stand reaches believes""".split()
)
"""Finite verbs of the descriptions; a new description may bring a new one."""


@pytest.mark.parametrize("setting", settings(), ids=lambda setting: f"{setting.path} {','.join(setting.protocols)}")
def test_every_setting_has_a_description_that_is_a_full_sentence(setting: Setting) -> None:
    first = re.split(r"(?<=\.)(?:\s|$)", setting.description)[0]
    words = re.findall(r"[A-Za-z]+", first)
    assert setting.description.endswith((".", ")."))
    assert len(words) >= 5, first
    assert first[0].isupper() or first[0] == "`", first
    assert words[0] not in FRAGMENTS, first
    assert VERBS.intersection(words), f"no verb that VERBS knows in: {first}"


def test_no_setting_is_left_out() -> None:
    paths = {setting.path for setting in settings()}
    assert Config.model_fields.keys() <= paths
    for spec in protocols().values():
        assert {f"listeners.{name}" for name in spec.options.model_fields} <= paths


def test_the_page_says_what_the_schema_says() -> None:
    remedy = "write it anew: python -m gateway.config.reference > gateway/docs/settings.md"
    assert PAGE.read_text() == reference.page(), remedy


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("limits.frame_bytes", "limits.frame_bytes"),
        ("listeners.frame_bytes", "limits.frame_bytes"),
        ("listeners.limits.frame_bytes", "limits.frame_bytes"),
        ("peers[3].idle_seconds", "limits.idle_seconds"),
        ("listeners[0].tls.cert", "listeners.tls.cert"),
        ("listeners[0].types.17.kind", "listeners.types.*.kind"),
        ("kafka.topics.raw.retention_hours", "kafka.topics.*.retention_hours"),
        ("permissions[0].publish.allow", "permissions.publish.allow"),
    ],
)
def test_a_setting_is_found_by_the_ways_people_name_it(name: str, path: str) -> None:
    assert [setting.path for setting in find_settings(name)] == [path]


def test_one_name_may_be_another_setting_in_each_protocol() -> None:
    found = find_settings("listeners.uncompressed_bytes")
    assert {(setting.protocols, setting.default) for setting in found} == {(("emm",), "65536"), (("emp",), "1048576")}


@pytest.mark.parametrize(
    ("path", "reloads"),
    [
        ("limits.frame_bytes", True),
        ("edge.notice_seconds", True),
        ("peers.connect", True),
        ("listeners.tls", True),
        ("listeners.listen", False),
        ("kafka.partitions", False),
        ("mesh", False),
    ],
)
def test_what_holds_without_a_restart_is_what_the_watch_takes_over(path: str, reloads: bool) -> None:
    assert [setting.reloads for setting in find_settings(path)] == [reloads]


class TestExplain:
    def test_one_setting_is_explained(self) -> None:
        shown = run("explain", "listeners.limits.frame_bytes").stdout
        assert shown.startswith("limits.frame_bytes\n  A larger frame is refused as `too_large`")
        for fact in ("unit       bytes", "default    1048576", "reload     yes", "type       whole number, at least 1"):
            assert fact in shown

    def test_what_holds_here_is_shown_without_secrets(self, tmp_path: Path) -> None:
        kafka = "{bootstrap: 'a:1', security: {protocol: SASL_SSL, username: u, password: hunter2}}"
        (tmp_path / "meshgate.yaml").write_text(f"{{mesh: demo, kafka: {kafka}}}")
        where = ("-c", str(tmp_path / "meshgate.yaml"))
        assert "  here       a:1\n" in run("explain", "kafka.bootstrap", *where).stdout
        assert said(run("explain", "limits.idle_seconds", *where, "--json"))[0]["value"] == 300
        assert "hunter2" not in run("explain", "kafka.security.password", *where).stdout

    def test_a_section_lists_what_is_in_it(self) -> None:
        (document,) = said(run("explain", "router", "--output", "json"))
        assert document["type"] == "section"
        assert "router.lanes" in document["settings"]

    def test_a_required_one_has_no_default(self) -> None:
        (document,) = said(run("explain", "mesh", "--output", "json"))
        assert (document["required"], document["default"]) == (True, None)

    def test_a_misspelt_one_gets_a_hint(self) -> None:
        result = run("explain", "limits.frame_byte")
        assert result.exit_code == 2
        assert "there is no setting limits.frame_byte: did you mean limits.frame_bytes?" in result.stderr

    def test_names_are_completed(self) -> None:
        words = {"COMP_WORDS": "meshgate explain router.l", "COMP_CWORD": "2"}
        assert run(_MESHGATE_COMPLETE="bash_complete", **words).stdout == "plain,router.lanes\n"
