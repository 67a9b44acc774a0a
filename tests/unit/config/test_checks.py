"""Tests the checks that concern several settings."""

from __future__ import annotations

import pytest

from gateway.config.kafka import RECORD_OVERHEAD_BYTES
from tests.unit.config.reading import expect_fault, faults, read


def listeners(*addresses: str) -> str:
    lines = [f"  - {{name: l{at}, protocol: {spoken(at)}, listen: '{at}'}}" for at in addresses]
    for at, line in enumerate(lines):
        lines[at] = line.replace(f"name: l{addresses[at]}", f"name: l{at}")
    return "mesh: demo\nlisteners:\n" + "\n".join(lines)


def spoken(address: str) -> str:
    return "emm" if address.startswith(("udp", "quic")) else "yamp"


class TestNames:
    def test_a_listener_and_a_link_may_not_share_a_name(self) -> None:
        text = "peers: [{name: a, protocol: hsp, connect: 'tcp://h:1'}]\n" + listeners("udp://h:1").replace("l0", "a")
        expect_fault(text, "peers[0].name", "listeners[0] has this name already", line=1)

    def test_two_rules_may_not_share_a_name(self) -> None:
        expect_fault(
            "mesh: demo\nrules: [{name: a, sql: x}, {name: a, sql: y}]",
            "rules[1].name",
            "rules[0] has this name already",
        )

    def test_a_rule_may_have_the_name_of_a_listener(self) -> None:
        read(listeners("udp://h:1") + "\nrules: [{name: l0, sql: x}]")


class TestAddresses:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("tcp://127.0.0.1:5000", "tcp://127.0.0.1:5000"),
            ("tcp://127.0.0.1:5000", "ws://127.0.0.1:5000"),
            ("tcp://0.0.0.0:5000", "tcp://127.0.0.1:5000"),
            ("tcp://[::1]:5000", "tcp://[::]:5000"),
            ("udp://127.0.0.1:5000", "udp://127.0.0.1:5000"),
        ],
    )
    def test_two_listeners_on_one_address_are_a_fault_of_the_second(self, one: str, other: str) -> None:
        expect_fault(listeners(one, other), "listeners[1].listen", "listeners[0].listen has this address", line=4)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("tcp://127.0.0.1:5000", "udp://127.0.0.1:5000"),
            ("tcp://127.0.0.1:5000", "tcp://127.0.0.2:5000"),
            ("tcp://127.0.0.1:5000", "tcp://127.0.0.1:5001"),
            ("tcp://127.0.0.1:0", "tcp://127.0.0.1:0"),
        ],
    )
    def test_different_transports_hosts_ports_and_ports_to_be_chosen_do_not_clash(self, one: str, other: str) -> None:
        assert len(read(listeners(one, other)).listeners) == 2

    def test_components_of_one_server_bind_nothing_and_do_not_clash(self) -> None:
        one, other = (
            f"{{name: {name}, protocol: wolpertinger, listen: 'xmpp://127.0.0.1:5347', "
            f"xmpp: {{domain: {name}.example.org, secret: x}}}}"
            for name in ("first", "second")
        )
        assert len(read(f"mesh: demo\nlisteners: [{one}, {other}]").listeners) == 2

    @pytest.mark.parametrize(
        ("address", "owner"),
        [
            ("127.0.0.1:9640", "edge.management"),
            ("127.0.0.1:9641", "router.management"),
            ("0.0.0.0:9092", "kafka.listen"),
        ],
    )
    def test_a_listener_may_not_sit_on_our_own_services(self, address: str, owner: str) -> None:
        expect_fault(listeners(f"tcp://{address}"), "listeners[0].listen", f"{owner} has this address already")

    def test_the_address_of_an_embedded_broker_is_free_where_there_is_none(self) -> None:
        assert read(listeners("tcp://127.0.0.1:9092") + "\nkafka: {bootstrap: 'a:1'}").listeners


class TestNumbersThatBelongTogether:
    @pytest.mark.parametrize("kafka", ["{partitions: 2}", "{partitions: 8, topics: {egress: {partitions: 2}}}"])
    def test_an_edge_needs_an_egress_partition(self, kafka: str) -> None:
        text = f"mesh: demo\nedge: {{id: edge-2}}\nkafka: {kafka}"
        expect_fault(text, "edge.id", "needs egress partition 2, and there are 2", line=2)

    @pytest.mark.parametrize("kafka", ["{partitions: 3}", "{partitions: 1, topics: {egress: {partitions: 3}}}"])
    def test_the_last_partition_is_for_the_last_edge(self, kafka: str) -> None:
        assert read(f"mesh: demo\nedge: {{id: edge-2}}\nkafka: {kafka}").edge_ordinal == 2

    def test_the_largest_frame_must_fit_a_record(self) -> None:
        largest = 1_000_000 - RECORD_OVERHEAD_BYTES
        text = "mesh: demo\nlimits: {{frame_bytes: {}}}\nkafka: {{message_bytes: 1000000}}"
        assert read(text.format(largest)).limits.frame_bytes == largest
        expect_fault(text.format(largest + 1), "limits.frame_bytes", "kafka.message_bytes must be", line=2)

    def test_the_default_frame_must_fit_a_smaller_record_too(self) -> None:
        expect_fault("mesh: demo\nkafka: {message_bytes: 1000000}", "limits.frame_bytes", "kafka.message_bytes")

    def test_a_listeners_largest_frame_must_fit_too(self) -> None:
        text = "mesh: demo\nlisteners: [{name: a, protocol: emm, listen: 'udp://h:1', frame_bytes: 4194304}]"
        expect_fault(text, "listeners[0].frame_bytes", "kafka.message_bytes must be")

    def test_the_raw_topics_partitions_are_said_in_one_place(self) -> None:
        text = "mesh: demo\nkafka: {topics: {raw: {partitions: 8}}}"
        expect_fault(text, "kafka.topics.raw.partitions", "say it in kafka.partitions", line=2)

    @pytest.mark.parametrize("key", ["retention_hours", "retention_bytes"])
    def test_a_compacted_topic_has_no_retention(self, key: str) -> None:
        text = f"mesh: demo\nkafka: {{topics: {{interests: {{{key}: 1}}}}}}"
        expect_fault(text, f"kafka.topics.interests.{key}", "this topic is compacted")


@pytest.mark.parametrize(
    "text",
    [
        "listeners: 1\nrules: x\npeers: {a: b}\nkafka: 7\nedge: []\nrouter: no\nlimits: 3",
        "listeners: [1, null, {listen: 7, name: {}}, {}]\nkafka: {topics: [], partitions: x, message_bytes: []}",
        "kafka: {topics: {egress: 1, raw: 2, interests: 3}, listen: 9, bootstrap: {}}\nedge: {id: [], management: 1}",
        "limits: {frame_bytes: x}\nlisteners: [{frame_bytes: [], listen: 'tcp://x'}]",
    ],
)
def test_what_is_malformed_is_passed_over_here_for_its_model_tells_it(text: str) -> None:
    assert faults(f"mesh: demo\n{text}")
