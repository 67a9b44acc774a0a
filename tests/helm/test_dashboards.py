"""Dashboards: the files are what the code says, by the rules of Grafana's own linter, and ask for nothing unknown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from gateway.docs.site import find_pages
from helm.dashboards import files
from helm.dashboards.runbooks import PAGE, READ_AT
from tests.helm.chart import CHART
from tests.helm.promql import selectors
from tests.unit.observability.metrics.told import told

Json = dict[str, Any]
UNITS = {"none", "short", "percentunit", "s", "bytes", "Bps", "cps"}
"""Those of Grafana's that our metrics have: seconds, bytes, and counts."""
LINK = re.compile(r"\[([\w-]+)\]\(\$\{runbooks\}#\1\)")
COUNTER_ENDINGS = ("_total", "_sum", "_count", "_bucket")
RATES = {"rate", "irate", "increase"}
WRITTEN: dict[Path, Json] = {path: json.loads(text) for path, text in files.files().items()}
BY_NAME = [pytest.param(dashboard, id=path.stem) for path, dashboard in WRITTEN.items()]


class Target(NamedTuple):
    """`place`: what a failing test says."""

    place: str
    expression: str


def panels(dashboard: Json) -> list[Json]:
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def targets() -> Iterator[Target]:
    for dashboard in WRITTEN.values():
        for panel in panels(dashboard):
            for target in panel["targets"]:
                yield Target(f"{dashboard['title']}: {panel['title']} {target['refId']}", target["expr"])


TARGETS = list(targets())


def test_the_files_are_what_the_code_says() -> None:
    assert files.stale() == [], "run python -m helm.dashboards"


def test_a_file_that_differs_or_that_nobody_made_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "FOLDER", tmp_path)
    assert files.main([]) == 0
    assert files.main(["--check"]) == 0
    (tmp_path / "flow.json").write_text("{}")
    (tmp_path / "exported-by-hand.json").write_text("{}")
    assert [path.name for path in files.stale()] == ["flow.json", "exported-by-hand.json"]
    assert files.main(["--check"]) == 1


def test_there_is_a_dashboard_for_each_side_of_the_mesh() -> None:
    assert {path.stem for path in WRITTEN} == {"flow", "edges", "router", "security"}
    assert len({dashboard["uid"] for dashboard in WRITTEN.values()}) == len(WRITTEN)


@pytest.mark.parametrize("dashboard", BY_NAME)
class TestRules:
    """Named as grafana/dashboard-linter names them."""

    def test_template_datasource_rule(self, dashboard: Json) -> None:
        (one,) = [each for each in dashboard["templating"]["list"] if each["type"] == "datasource"]
        assert (one["name"], one["label"], one["query"]) == ("datasource", "Data source", "prometheus")

    @pytest.mark.parametrize(("name", "label"), [("mesh", "Mesh"), ("job", "Job"), ("instance", "Instance")])
    def test_template_job_rule_and_template_instance_rule(self, dashboard: Json, name: str, label: str) -> None:
        (one,) = [each for each in dashboard["templating"]["list"] if each["name"] == name]
        assert (one["label"], one["type"], one["multi"], one["allValue"]) == (label, "query", True, ".+")
        assert one["datasource"]["uid"] == "${datasource}"

    def test_template_on_time_change_reload_rule(self, dashboard: Json) -> None:
        queried = [each for each in dashboard["templating"]["list"] if each["type"] == "query"]
        assert [each["refresh"] for each in queried] == [2] * len(queried)

    def test_template_label_promql_rule(self, dashboard: Json) -> None:
        for each in dashboard["templating"]["list"]:
            if each["type"] == "query":
                metric, _, label = each["query"].removeprefix("label_values(").removesuffix(")").rpartition(", ")
                (selector,) = selectors(metric)
                assert {label, *selector.labels} <= told()[selector.name]

    def test_template_uneditable_rule(self, dashboard: Json) -> None:
        assert dashboard["editable"] is False

    def test_panel_datasource_rule(self, dashboard: Json) -> None:
        for panel in panels(dashboard):
            for each in (panel, *panel["targets"]):
                assert each["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, panel["title"]

    def test_panel_title_description_rule(self, dashboard: Json) -> None:
        for panel in panels(dashboard):
            assert panel["title"]
            assert panel["description"].endswith("."), panel["title"]

    def test_panel_units_rule(self, dashboard: Json) -> None:
        assert {panel["fieldConfig"]["defaults"]["unit"] for panel in panels(dashboard)} <= UNITS

    def test_panel_no_targets_rule(self, dashboard: Json) -> None:
        assert all(panel["targets"] for panel in panels(dashboard))

    def test_panels_stand_side_by_side_and_never_on_each_other(self, dashboard: Json) -> None:
        taken: set[tuple[int, int]] = set()
        for panel in dashboard["panels"]:
            at = panel["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            assert taken.isdisjoint(cells), panel["title"]
            assert max(x for x, _ in cells) < 24
            taken |= cells


@pytest.mark.parametrize("target", TARGETS, ids=[target.place for target in TARGETS])
class TestQueries:
    def test_target_promql_rule(self, target: Target) -> None:
        assert selectors(target.expression)

    def test_target_job_rule_and_target_instance_rule(self, target: Target) -> None:
        for selector in selectors(target.expression):
            assert {("job", "$job"), ("instance", "$instance")} <= selector.matchers

    def test_it_keeps_to_the_meshes_that_are_chosen(self, target: Target) -> None:
        """What has no label for its mesh is joined to what has one."""
        asked = selectors(target.expression)
        ours = [one for one in asked if one.name.startswith("meshgate_")]
        assert all(("mesh", "$mesh") in one.matchers for one in ours)
        assert ours == asked or "meshgate_build_info" in {one.name for one in ours}

    def test_target_rate_interval_rule(self, target: Target) -> None:
        ranged = [one for one in selectors(target.expression) if one.seconds is not None]
        assert target.expression.count("[$__rate_interval]") == len(ranged)

    def test_target_counter_agg_rule(self, target: Target) -> None:
        for selector in selectors(target.expression):
            is_counter = selector.name.endswith(COUNTER_ENDINGS)
            assert is_counter == (selector.seconds is not None), selector.name
            assert not is_counter or selector.within[-2] in RATES

    def test_it_asks_for_what_the_product_tells(self, target: Target) -> None:
        for selector in selectors(target.expression):
            assert selector.name in told()
            assert selector.labels <= told()[selector.name], selector.name


def named_runbooks(panel: Json) -> list[str]:
    """Returns the places of the runbooks that the links of a panel's description lead to."""
    _, _, named = panel["description"].partition("\n\nRunbooks: ")
    links = [LINK.fullmatch(link) for link in named.removesuffix(".").split(", ") if link]
    assert all(links), named
    return [f"{PAGE}#{link[1]}" for link in links if link]


def test_the_links_to_the_runbooks_lead_to_the_site_that_serves_them() -> None:
    """`meshgate docs` and the compose file serve it at that port."""
    page = next(page for page in find_pages() if page.path == PAGE)
    for dashboard in WRITTEN.values():
        (variable,) = (each for each in dashboard["templating"]["list"] if each["name"] == "runbooks")
        assert (variable["type"], variable["query"], variable["hide"]) == ("constant", READ_AT, 2)
        assert variable["current"]["value"] == variable["options"][0]["value"] == READ_AT
    assert READ_AT.rpartition("/")[2] == page.name


def test_a_panel_that_may_be_empty_says_why() -> None:
    for path, dashboard in WRITTEN.items():
        (made,) = (each for each in files.DASHBOARDS if each.uid == path.stem)
        for panel, written in zip(made.panels, panels(dashboard), strict=True):
            reason = written["fieldConfig"]["defaults"].get("noValue")
            if all(query.quiet for query in panel.queries):
                assert panel.queries[0].quiet in reason
            else:
                assert reason is None


def test_every_panel_leads_to_a_section_of_the_runbooks() -> None:
    (page,) = (page for page in find_pages() if page.path == PAGE)
    sections = {f"{PAGE}#{anchor}" for _, anchor, _ in page.headings}
    for dashboard in WRITTEN.values():
        for panel in panels(dashboard):
            assert named_runbooks(panel), panel["title"]
            assert set(named_runbooks(panel)) <= sections, panel["title"]


def test_every_section_about_panels_is_named_by_one() -> None:
    (page,) = (page for page in find_pages() if page.path == PAGE)
    named = {url for dashboard in WRITTEN.values() for panel in panels(dashboard) for url in named_runbooks(panel)}
    about_panels = {f"{PAGE}#{anchor}" for tag, anchor, _ in page.headings if tag == "h3"}
    assert len(about_panels) > 5
    assert about_panels <= named


def test_every_alert_that_watches_a_number_is_explained_beside_a_panel_that_shows_it() -> None:
    shown: dict[str, set[str]] = {}
    for dashboard in WRITTEN.values():
        for panel in panels(dashboard):
            asked = {selector.name for target in panel["targets"] for selector in selectors(target["expr"])}
            for url in named_runbooks(panel):
                shown.setdefault(url, set()).update(asked)
    alerts = {rule["annotations"]["runbook_url"]: rule["expr"] for rule in alert_rules()}
    assert {url.partition("#")[2] for url in alerts.keys() - shown.keys()} == {
        "meshgatenoedge", "meshgaterouterdown",  # they watch whether a part answers
    }  # fmt: skip
    for url in alerts.keys() & shown.keys():
        assert shown[url] & {selector.name for selector in selectors(alerts[url])}, url


def alert_rules() -> list[Json]:
    files_of_alerts = [yaml.safe_load(path.read_text()) for path in (CHART / "alerts").glob("*.yaml")]
    return [rule for one in files_of_alerts for group in one["groups"] for rule in group["rules"]]


def test_every_metric_of_the_mesh_is_on_some_dashboard() -> None:
    """What nobody can look at need not be counted."""
    shown = {family(selector.name) for target in TARGETS for selector in selectors(target.expression)}
    ours = {family(name) for name in told() if name.startswith("meshgate_") and not name.endswith("_created")}
    assert ours - shown == {"meshgate_uncounted_total"}  # stays 0 unless a set of labels was not closed


def family(sample: str) -> str:
    """A histogram is shown by any of its samples."""
    for ending in ("_bucket", "_sum", "_count"):
        sample = sample.removesuffix(ending)
    return sample
