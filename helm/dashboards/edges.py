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
        "That answer. One is a single point of failure.",
        "short",
        Query(f"count({of('build_info', EDGE)})", "edges"),
        width=6,
    ),
    stat(
        "Open connections",
        "Sessions that stand.",
        "short",
        Query(total(of("connections", 'state="open"')), "connections"),
        width=6,
    ),
    stat(
        "Oldest delivery",
        (
            "That has no outcome yet: what an edge has not written, or a peer has not confirmed. What is owed to "
            "peers that are away is not counted."
        ),
        "s",
        Query(greatest("egress_age_seconds"), "age"),
        width=6,
        steps=((10, "orange"), (60, "red")),
    ),
    table(
        "Builds",
        "What runs where.",
        "none",
        Query(of("build_info", EDGE), "{{edge}}"),
        width=6,
    ),
)

PEERS = row(
    "Peers",
    lines(
        "Connections",
        "By the state they are in. Many in handshake: somebody connects and says nothing.",
        "short",
        Query(total(of("connections"), by="state"), "{{state}}"),
        stacked=True,
    ),
    lines(
        "Opened",
        "Connections accepted or dialled, by listener or link.",
        "cps",
        Query(rate("connections_opened_total", by="listener"), "{{listener}}"),
    ),
    lines(
        "Closed",
        "Why connections ended.",
        "cps",
        Query(rate("connections_closed_total", by="reason"), "{{reason}}", "nobody has disconnected yet"),
    ),
    lines(
        "Open requests",
        "Of peers that wait for an answer; and those with what peers are asked, which `limits.open_requests` bounds.",
        "short",
        Query(total(of("requests_in_flight"), by="listener"), "{{listener}}"),
        Query(total(of("open_requests"), by="edge"), "{{edge}}: both ways"),
        width=12,
    ),
    lines(
        "Requests ended",
        "`timeout`: nobody answered in time. `late`: an answer that nobody waited for any more.",
        "cps",
        Query(rate("requests_total", by="outcome"), "{{outcome}}"),
        width=12,
    ),
)

IN = row(
    "In",
    lines(
        "Frames",
        "What the sockets gave, by listener.",
        "cps",
        Query(rate("received_frames_total", by="listener"), "{{listener}}"),
        stacked=True,
    ),
    lines(
        "Bytes",
        "What the sockets gave, by listener.",
        "Bps",
        Query(rate("received_bytes_total", by="listener"), "{{listener}}"),
        stacked=True,
    ),
    lines(
        "Refused",
        (
            "`overload`: Kafka did not keep up and a datagram was dropped. `rate_limited`: a peer sent faster "
            "than it may. All else: the peer broke its protocol."
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
        "From receipt until it is on all in-sync replicas: what a peer waits for.",
        "s",
        Query(quantile(0.5, "ack_duration_seconds"), "median"),
        Query(quantile(0.99, "ack_duration_seconds"), "99 %"),
        Query(quantile(0.99, "produce_duration_seconds"), "99 %, Kafka alone"),
    ),
    lines(
        "In flight",
        (
            "Received and not yet acknowledged by Kafka. At `limits.in_flight_bytes` TCP peers wait and datagrams"
            " are dropped."
        ),
        "bytes",
        Query(total(of("in_flight_bytes"), by="edge"), "{{edge}}"),
    ),
    lines(
        "Held for sessions",
        "Not read, not confirmed, or not sent to the end. At `limits.held_bytes` those that hold most are ended.",
        "bytes",
        Query(total(of("held_bytes"), by="edge"), "{{edge}}"),
    ),
    lines(
        "Read later",
        "Share of the time that streams were not read, for they send more than they may. 1: one always waits.",
        "short",
        Query(rate("throttled_seconds_total", by="listener"), "{{listener}}"),
    ),
    lines(
        "Waiting for their turn",
        "Streams with more to be read than the edge's thread or Kafka takes. Peers that send little never wait.",
        "short",
        Query(total(of("waiting_streams"), by="edge"), "{{edge}}"),
    ),
    lines(
        "Dropped by the kernel",
        (
            "Datagrams that came faster than the edge took them. They are lost: no peer that speaks in datagrams "
            "is told."
        ),
        "cps",
        Query(rate("udp_kernel_dropped_total", by="edge,listener"), "{{edge}} {{listener}}"),
    ),
)

OUT = row(
    "Out",
    lines(
        "Deliveries by their end",
        ("`undeliverable`: no such session, or a peer that reads too slowly. `expired`: nobody wanted it any more."),
        "cps",
        Query(rate("egress_delivered_total", by="outcome"), "{{outcome}}"),
        stacked=True,
    ),
    lines(
        "Waiting",
        "Deliveries that are not yet written or confirmed, and records that are not yet handled.",
        "short",
        Query(total(of("egress_queue_frames"), by="edge"), "{{edge}} deliveries"),
        Query(total(of("egress_lag_records"), by="edge"), "{{edge}} records"),
    ),
    lines(
        "Oldest delivery",
        "How long the oldest of them has waited.",
        "s",
        Query(greatest("egress_age_seconds", by="edge"), "{{edge}}"),
    ),
)

PROCESS = row(
    "Processes",
    lines(
        "CPU",
        "Of one core. An edge is one busy thread, and more threads for Kafka: near 1 it is full.",
        "percentunit",
        Query(
            f"rate({of('process_cpu_seconds_total')}[$__rate_interval]) * {THIS_EDGE}",
            "{{edge}}",
        ),
    ),
    lines(
        "Memory",
        "That the process has in RAM.",
        "bytes",
        Query(f"{of('process_resident_memory_bytes')} * {THIS_EDGE}", "{{edge}}"),
    ),
    lines(
        "Open files",
        "Connections, mostly. At the limit nobody new is let in.",
        "short",
        Query(f"{of('process_open_fds')} * {THIS_EDGE}", "{{edge}}"),
        Query(f"min({of('process_max_fds')} * {THIS_EDGE})", "limit"),
    ),
)

EDGES = Dashboard(
    "edges",
    "Edges",
    "The processes that hold the sockets: who is connected, what comes in and goes out, what waits, what it costs.",
    EDGE,
    (NOW, PEERS, IN, OUT, PROCESS),
)
