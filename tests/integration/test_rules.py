"""Rules: what is refused and why, the shipped examples over recorded events, and rules put into a running mesh."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from gateway.config import load
from gateway.config.settings import RuleSettings
from streaming_jobs.rules.batch_run import try_rules
from streaming_jobs.rules.check import Checked, check_rules
from streaming_jobs.rules.recorded import read_recorded
from tests.integration.emm_peer import Device
from tests.integration.mesh import TestMesh, wait_until
from tests.integration.spark_session import spark
from tests.integration.topic import every_record, following, header

__all__ = ["spark"]


def rule(sql: str, name: str = "tried") -> RuleSettings:
    return RuleSettings(name=name, sql=sql)


def checked(spark: SparkSession, *queries: str) -> Checked:
    return check_rules(spark, [rule(sql, f"rule-{place}") for place, sql in enumerate(queries)])


REFUSED = {
    "SELEC 1": "Syntax error at or near 'SELEC'. (line 1, column 1 of the SQL)",
    "SELECT foo AS subject FROM events": "with name `foo` cannot be resolved",
    "SELECT 'a' AS subject FROM event": "the one table is events",
    "SELECT 'a' AS subject": "reads nothing from the table events",
    "DROP TABLE events": "Syntax error",
    "SELECT body FROM events": "gives no subject",
    "SELECT 'a' AS subject, 1 AS celsius FROM events": "gives celsius",
    "SELECT 'a' AS subject, text AS body, body FROM events": "gives body twice",
    "SELECT 1 AS subject FROM events": "subject is int",
    "SELECT 'mesh.x' AS subject FROM events WHERE subject = 'b'": "may not publish under `mesh.`",
    "SELECT 'a' AS subject, count(*) AS body FROM events WHERE subject = 'b' GROUP BY node": "add window(received_at",
    "SELECT 'a' AS subject, rank() OVER (PARTITION BY node ORDER BY id) AS body FROM events": "not supported",
    "SELECT 'a' AS subject FROM events": "would feed itself without end",
    "SELECT subject, body FROM events": "would feed itself without end",
    "SELECT 'a.b' AS subject FROM events WHERE subject LIKE 'a.%'": "would feed itself without end",
    "SELECT concat('a.', node) AS subject FROM events WHERE subject LIKE 'a.%'": "would feed itself without end",
    "SELECT upper(subject) AS subject FROM events WHERE kind = 'event'": "would feed itself without end",
    "SELECT 'b' AS subject FROM events WHERE subject = 'a' UNION ALL SELECT 'a' FROM events WHERE subject = 'c'": (
        "would feed itself without end"
    ),
}


@pytest.mark.parametrize(("sql", "why"), REFUSED.items(), ids=list(REFUSED))
def test_a_rule_that_cannot_run_is_refused_and_says_why(spark: SparkSession, sql: str, why: str) -> None:
    assert why in checked(spark, sql).faults[0]


GOOD = [
    "SELECT 'alarm' AS subject, body, content_type, id AS origin FROM events WHERE subject LIKE 'temp.%'",
    "SELECT 'a' AS subject FROM events WHERE headers['rule'] IS NULL",
    "SELECT 'a' AS subject FROM events WHERE protocol <> 'mesh'",
    "SELECT upper(subject) AS subject FROM events WHERE session <> ''",
    "SELECT 'a' AS subject, count(*) AS body FROM events WHERE kind = 'error' GROUP BY window(received_at, '1 minute')",
    "SELECT 'b' AS subject FROM events WHERE subject = 'a' UNION ALL SELECT 'c' FROM events WHERE subject = 'd'",
]


@pytest.mark.parametrize("sql", GOOD)
def test_a_rule_that_can_run_and_does_not_see_what_it_finds_is_good(spark: SparkSession, sql: str) -> None:
    result = checked(spark, sql)
    assert (result.faults, result.depths) == ({}, {"rule-0": 1})


def test_rules_may_build_on_each_other_but_not_in_a_ring(spark: SparkSession) -> None:
    first = "SELECT 'b' AS subject FROM events WHERE subject = 'a'"
    second = "SELECT 'c' AS subject FROM events WHERE subject = 'b'"
    assert checked(spark, first, second).depths == {"rule-0": 1, "rule-1": 2}
    back = "SELECT 'a' AS subject FROM events WHERE subject = 'c'"
    faults = checked(spark, first, second, back).faults
    assert sorted(faults) == [0, 1, 2]
    assert "rule-0 → rule-1 → rule-2 → rule-0" in faults[0]


ROW_BY_ROW = {
    GOOD[0]: True,
    "SELECT 'a' AS subject, get_json_object(text, '$.x') AS body FROM (SELECT * FROM events) WHERE session <> ''": True,
    "WITH hot AS (SELECT * FROM events WHERE subject = 'b') SELECT 'a' AS subject FROM hot": True,
    GOOD[4]: False,
    GOOD[5]: False,
    "SELECT 'a' AS subject FROM events WHERE session <> '' AND received_at > now() - INTERVAL 5 SECONDS": False,
    "SELECT 'a' AS subject, rand() AS body FROM events WHERE session <> ''": False,
    "SELECT 'a' AS subject FROM events AS b JOIN events AS c ON b.id = c.correlation WHERE b.session <> ''"
    " AND c.session <> '' AND c.received_at BETWEEN b.received_at AND b.received_at + INTERVAL 1 MINUTE": False,
}


@pytest.mark.parametrize(("sql", "is_row_by_row"), ROW_BY_ROW.items())
def test_what_looks_at_each_event_by_itself_may_run_in_real_time(
    spark: SparkSession, sql: str, is_row_by_row: bool
) -> None:
    assert checked(spark, sql).row_by_row == ({"rule-0"} if is_row_by_row else set())


# -- the examples ------------------------------------------------------------------------------------------------

EXAMPLES = {
    one["name"]: rule(one["sql"], one["name"])
    for one in yaml.safe_load(resources.files("streaming_jobs.rules").joinpath("examples.yaml").read_text())
}


def found(spark: SparkSession, name: str, *events: dict[str, Any]) -> list[tuple[str, Any, str]]:
    """(subject, body, origin) of each."""
    recorded = read_recorded(json.dumps({"protocol": "yamp", **event}) for event in events)
    return [(one.subject, json.loads(one.body), one.origin) for one in try_rules(spark, [EXAMPLES[name]], recorded)]


def at(seconds: float, subject: str = "x", **more: Any) -> dict[str, Any]:
    minutes, rest = divmod(seconds, 60)
    return {"subject": subject, "received_at": f"2026-01-01T00:{int(minutes):02}:{rest:06.3f}Z", **more}


def answers(node: str, good: int, bad: int, second: float = 0.0) -> list[dict[str, Any]]:
    kinds = ["response"] * good + ["error"] * bad
    return [at(second + place * 0.1, node=node, kind=kind) for place, kind in enumerate(kinds)]


def test_the_examples_are_good_together(spark: SparkSession) -> None:
    assert check_rules(spark, list(EXAMPLES.values())).faults == {}


def test_a_node_that_answers_with_errors_is_told_of_once_a_minute(spark: SparkSession) -> None:
    events = [*answers("bad", 5, 5), *answers("bad", 0, 9, 60), *answers("few", 0, 4), *answers("good", 6, 5)]
    told = found(spark, "error-rate", *events)
    assert sorted((subject, body["errors"], body["answers"]) for subject, body, _ in told) == [
        ("alarm.errors.bad", 5, 10),
        ("alarm.errors.bad", 9, 9),
    ]


def test_latency_joins_a_request_with_its_answer_and_no_other(spark: SparkSession) -> None:
    def answer(second: float, kind: str, session: str, request: str) -> dict[str, Any]:
        headers = {"request-session": session, "request-id": request}
        return at(second, "sum", kind=kind, node="server", headers=headers)

    told = found(
        spark, "latency",
        at(1, "sum", id="0-1-0", kind="request", session="s1", message_id="m", node="asker"),
        at(2, "sum", id="0-2-0", kind="request", session="s2", message_id="m", node="other"),
        answer(1.1, "progress", "s1", "m"),
        answer(1.25, "response", "s1", "m"),
        answer(64, "response", "s2", "m"),
    )  # fmt: skip
    assert told == [("latency.sum", {"node": "asker", "outcome": "response", "milliseconds": 250.0}, "0-1-0")]


def test_a_node_is_silent_when_it_was_heard_and_then_not_for_a_minute(spark: SparkSession) -> None:
    events = [at(second, node="steady") for second in range(0, 300, 50)]
    events += [at(second, node="gone") for second in (0, 59, 118, 200)]
    events += [at(250, node="", protocol="emm"), at(260, node="mesh", headers={"rule": "silent"})]
    told = found(spark, "silent", *events)
    silences = sorted((subject.rpartition(".")[2], body["last_heard"][14:19]) for subject, body, _ in told)
    assert silences == [("gone", "01:58"), ("gone", "03:20"), ("steady", "04:10")]


# -- commands ----------------------------------------------------------------------------------------------------


def test_validate_names_the_place_of_a_rule_that_does_not_compile(mesh: TestMesh, tmp_path: Path) -> None:
    config = yaml.safe_load(mesh.config_file.read_text())
    config["rules"] = [{"name": "good", "sql": GOOD[0]}, {"name": "bad", "sql": "SELECT foo AS subject FROM events"}]
    faulty = TestMesh(tmp_path)
    faulty.keys_file.write_bytes(mesh.keys_file.read_bytes())
    faulty.config_file.write_text(yaml.safe_dump(config, sort_keys=False))
    run = faulty.command("validate", "--output", "json", seconds=120)
    assert run.returncode == 78
    (fault,) = json.loads(run.stdout)["faults"]
    assert (fault["path"], fault["file"]) == ("rules[1].sql", str(faulty.config_file))
    lines = faulty.config_file.read_text().splitlines()
    assert "foo" in lines[fault["line"] - 1]


# -- in a running mesh -------------------------------------------------------------------------------------------

HOT = """
SELECT 'alarm.hot' AS subject, struct(text AS celsius) AS body, id AS origin
FROM events WHERE subject LIKE 'heat.%' AND CAST(text AS DOUBLE) > 80
"""
QUIET = """
SELECT concat('alarm.quiet.', node) AS subject, node AS body FROM events
WHERE subject LIKE 'heat.%' GROUP BY node, session_window(received_at, '3 seconds')
"""

EACH = "SELECT 'found.each' AS subject, text AS body FROM events WHERE subject LIKE 'heat.%'"


def test_rules_put_into_a_running_mesh_find_and_their_findings_are_events(mesh: TestMesh) -> None:
    before = mesh.config_file.read_text()
    router = mesh.pid_of("router")
    device = Device(mesh.ports["devices"]).trusted_by(mesh)
    device.subscribe("alarm.>")
    rules = [{"name": "hot", "sql": HOT}, {"name": "quiet", "sql": QUIET}, {"name": "each", "sql": EACH}]
    mesh.config_file.write_text(yaml.safe_dump({**yaml.safe_load(before), "rules": rules}, sort_keys=False))
    try:
        ready = mesh.folder / "state" / "rules.ready"
        wait_until(ready.exists, "the rules' part", 90)
        with following(mesh, "events") as find:
            for celsius in ("79", "no number", "81"):
                device.send(device.packet("heat.kitchen", celsius))
            cause = find(lambda one: header(one, "ce_subject") == "heat.kitchen" and one.value == b"81")
            alarm = find(lambda one: header(one, "ce_subject") == "alarm.hot", 60)
            quiet = find(lambda one: header(one, "ce_subject") == f"alarm.quiet.{device.node}", 90)
        assert json.loads(alarm.value) == {"celsius": "81"}
        said = json.loads(header(alarm, "ce_meshheaders"))
        assert said == {"rule": "hot", "origin": header(cause, "ce_id"), "hops": "1"}
        assert header(alarm, "content-type") == "application/json"
        assert quiet.value == device.node.encode()
        assert b"alarm.hot" in (device.receive() or b"")
        assert mesh.pid_of("router") == router
        os.kill(mesh.pid_of("rules"), signal.SIGKILL)  # what its open batches had found is found again
        device.send(device.packet("heat.kitchen", "81"))
        wait_until(
            lambda: findings(mesh) >= Counter({"alarm.hot": 2, "found.each": 4}), "what is found after a crash", 60
        )
        assert findings(mesh) == {"alarm.hot": 2, "found.each": 4}
    finally:
        mesh.config_file.write_text(before)
        device.close()


def findings(mesh: TestMesh) -> Counter[str]:
    """Returns how often the rules in real time have found something, by subject."""
    subjects = (header(record, "ce_subject") for record in every_record(load(mesh.config_file), "events"))
    return Counter(subject for subject in subjects if subject in ("alarm.hot", "found.each"))
