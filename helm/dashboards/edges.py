"""Edges: who is connected, what comes in and goes out, and what each process costs."""

from __future__ import annotations

from helm.dashboards.dashboard import Dashboard
from helm.dashboards.flow import NOTHING_REFUSED
from helm.dashboards.panels import Query, lines, row, stat, table
from helm.dashboards.queries import greatest, of, quantile, rate, total

EDGE = 'edge!=""'
THIS_EDGE = f"on (job, instance) group_left (edge) {of('build_info', EDGE)}"

NOW = row(
    "Now",
    stat(
        "Edges",
        "The edges that answer. One alone is a single point of failure.",
        "short",
        Query(f"count({of('build_info', EDGE)})", "edges"),
        width=6,
        runbook="meshgateedgedown",
    ),
    stat(
        "Open connections",
        "The sessions that stand.",
        "short",
        Query(total(of("connections", 'state="open"')), "connections"),
        width=6,
        runbook="peers-that-do-not-get-in",
    ),
    stat(
        "Oldest delivery",
        (
            "How long the oldest delivery without an outcome has waited: an edge has not written it, or a peer "
            "has not confirmed it. Deliveries that are owed to peers that are away are not counted."
        ),
        "s",
        Query(greatest("egress_age_seconds"), "age"),
        width=6,
        steps=((10, "orange"), (60, "red")),
    ),
    table(
        "Builds",
        "The version that each edge runs.",
        "none",
        Query(of("build_info", EDGE), "{{edge}}"),
        width=6,
        runbook="different-versions",
    ),
)

PEERS = row(
    "Peers",
    lines(
        "Connections",
        "Connections by their state. Many in handshake are peers that connect and say nothing.",
        "short",
        Query(total(of("connections"), by="state"), "{{state}}"),
        stacked=True,
        runbook="peers-that-do-not-get-in",
    ),
    lines(
        "Opened",
        "Connections that were accepted or dialled, by listener or link.",
        "cps",
        Query(rate("connections_opened_total", by="listener"), "{{listener}}"),
        runbook="peers-that-do-not-get-in",
    ),
    lines(
        "Closed",
        "The reasons why connections ended.",
        "cps",
        Query(rate("connections_closed_total", by="reason"), "{{reason}}", "nobody has disconnected yet"),
        runbook="peers-that-do-not-get-in",
    ),
    lines(
        "Open requests",
        (
            "Requests of peers that wait for an answer; and both ways, with those that peers are asked. "
            "`limits.open_requests` bounds both together."
        ),
        "short",
        Query(total(of("requests_in_flight"), by="listener"), "{{listener}}"),
        Query(total(of("open_requests"), by="edge"), "{{edge}}: both ways"),
        width=12,
        runbook="unanswered-requests",
    ),
    lines(
        "Requests ended",
        (
            "How requests of peers ended. `timeout`: nobody answered in time. `late`: an answer came after its "
            "requester had stopped waiting."
        ),
        "cps",
        Query(rate("requests_total", by="outcome"), "{{outcome}}"),
        width=12,
        runbook="unanswered-requests",
    ),
)

IN = row(
    "In",
    lines(
        "Frames",
        "Frames that the sockets gave, by listener.",
        "cps",
        Query(rate("received_frames_total", by="listener"), "{{listener}}"),
        stacked=True,
        runbook="less-traffic-than-expected",
    ),
    lines(
        "Bytes",
        "Bytes that the sockets gave, by listener.",
        "Bps",
        Query(rate("received_bytes_total", by="listener"), "{{listener}}"),
        stacked=True,
        runbook="less-traffic-than-expected",
    ),
    lines(
        "Refused",
        (
            "Frames that the edges refused. `overload`: Kafka did not keep up and a datagram was dropped. "
            "`rate_limited`: a peer sent faster than it may. All others: the peer broke its protocol."
        ),
        "cps",
        Query(rate("rejected_frames_total"), "all"),
        Query(
            f"{rate('rejected_frames_total', by='listener,reason')} > 0",
            "{{listener}}: {{reason}}",
            NOTHING_REFUSED,
        ),
    ),
    lines(
        "Acknowledged after",
        (
            "The time from a frame's receipt until it is on all in-sync replicas. A peer waits so long for its "
            "acknowledgement."
        ),
        "s",
        Query(quantile(0.5, "ack_duration_seconds"), "median"),
        Query(quantile(0.99, "ack_duration_seconds"), "99 %"),
        Query(quantile(0.99, "produce_duration_seconds"), "99 %, Kafka alone"),
        runbook="meshgateoverload",
    ),
    lines(
        "Records that Kafka acknowledged",
        (
            "Records of the raw log a second. An edge at rest sends an empty one every five seconds, so at zero Kafka "
            "acknowledges nothing: streams wait, and datagrams are lost."
        ),
        "cps",
        Query(rate("produce_duration_seconds_count"), "all"),
        runbook="meshgatekafkasilent",
    ),
    lines(
        "In flight",
        (
            "Bytes that were received and that Kafka has not acknowledged yet. At `limits.in_flight_bytes` TCP "
            "peers wait and datagrams are dropped."
        ),
        "bytes",
        Query(total(of("in_flight_bytes"), by="edge"), "{{edge}}"),
        runbook="meshgateoverload",
    ),
    lines(
        "Held for sessions",
        (
            "Bytes that peers have not read or not confirmed, and frames that have not come to their end. At "
            "`limits.held_bytes` the sessions that hold most are ended."
        ),
        "bytes",
        Query(total(of("held_bytes"), by="edge"), "{{edge}}"),
        runbook="meshgatesessionscut",
    ),
    lines(
        "Read later",
        (
            "Share of the time in which streams were not read, because they send more than they may. 1: one "
            "stream always waits."
        ),
        "short",
        Query(rate("throttled_seconds_total", by="listener"), "{{listener}}"),
        runbook="meshgateratelimited",
    ),
    lines(
        "Waiting for their turn",
        ("Streams with more to be read than the edge's thread, or Kafka, takes. Peers that send little never wait."),
        "short",
        Query(total(of("waiting_streams"), by="edge"), "{{edge}}"),
        runbook="meshgatestreamswaiting",
    ),
    lines(
        "Dropped by the kernel",
        "Datagrams that came faster than the edge took them. They are lost, and no peer is told.",
        "cps",
        Query(rate("udp_kernel_dropped_total", by="edge,listener"), "{{edge}} {{listener}}"),
    ),
)

OUT = row(
    "Out",
    lines(
        "Deliveries by their end",
        (
            "The outcomes of deliveries. `undeliverable`: there is no such session, or the peer reads too slowly. "
            "`expired`: nobody wanted it any more."
        ),
        "cps",
        Query(rate("egress_delivered_total", by="outcome"), "{{outcome}}"),
        stacked=True,
    ),
    lines(
        "Waiting",
        "Deliveries that are not written or confirmed yet, and records that are not handled yet.",
        "short",
        Query(total(of("egress_queue_frames"), by="edge"), "{{edge}} deliveries"),
        Query(total(of("egress_lag_records"), by="edge"), "{{edge}} records"),
        runbook="meshgateegressold",
    ),
    lines(
        "Oldest delivery",
        "How long the oldest delivery of each edge has waited.",
        "s",
        Query(greatest("egress_age_seconds", by="edge"), "{{edge}}"),
    ),
)

PROCESS = row(
    "Processes",
    lines(
        "CPU",
        (
            "Processor time of each edge; 1 is a whole core. An edge is one busy thread, and more threads for "
            "Kafka: near 1 it is full."
        ),
        "percentunit",
        Query(
            f"rate({of('process_cpu_seconds_total')}[$__rate_interval]) * {THIS_EDGE}",
            "{{edge}}",
        ),
        runbook="full-processes-of-edges",
    ),
    lines(
        "Memory",
        "Memory that each process has in RAM.",
        "bytes",
        Query(f"{of('process_resident_memory_bytes')} * {THIS_EDGE}", "{{edge}}"),
        runbook="full-processes-of-edges",
    ),
    lines(
        "Open files",
        "Open files of each process; most are connections. At the limit nobody new is let in.",
        "short",
        Query(f"{of('process_open_fds')} * {THIS_EDGE}", "{{edge}}"),
        Query(f"min({of('process_max_fds')} * {THIS_EDGE})", "limit"),
        runbook="full-processes-of-edges",
    ),
)

EDGES = Dashboard(
    "edges",
    "Edges",
    "The processes that hold the sockets: who is connected, what comes in and goes out, what waits, what it costs.",
    EDGE,
    (NOW, PEERS, IN, OUT, PROCESS),
)
