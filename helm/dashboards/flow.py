"""Flow: what passes each stage of the way, what is refused there, how long it takes, and whether it adds up."""

from __future__ import annotations

from helm.dashboards.dashboard import Dashboard
from helm.dashboards.panels import Query, lines, row, stat
from helm.dashboards.queries import of, quantile, rate, total

NOTHING_REFUSED = "nothing is refused for any reason"
ACCOUNTED = 'stage="decode",outcome=~"accepted|rejected"'
REFUSED_AT_EDGES = rate("rejected_frames_total")
REFUSED_BY_STAGE = rate("frames_total", 'outcome="rejected"', by="stage,reason")
REFUSED_IN_ROUTER = rate("frames_total", 'outcome="rejected"')

NOW = row(
    "Now",
    stat(
        "Received",
        "Frames that the edges' sockets gave, a second.",
        "cps",
        Query(rate("received_frames_total"), "frames"),
        width=4,
        runbook="less-traffic-than-expected",
    ),
    stat(
        "Recorded",
        "Events that the router recorded, a second. Repeats are still among them.",
        "cps",
        Query(rate("frames_total", 'stage="match",outcome="event"'), "events"),
        width=4,
    ),
    stat(
        "Delivered",
        "Deliveries that were written to a peer, or confirmed by it, a second.",
        "cps",
        Query(rate("egress_delivered_total", 'outcome=~"written|confirmed"'), "deliveries"),
        width=4,
    ),
    stat(
        "Refused",
        ("Frames that were refused at the edges and in the router, a second. The router keeps each, with its reason."),
        "cps",
        Query(f"{REFUSED_AT_EDGES} + {REFUSED_IN_ROUTER}", "frames"),
        width=4,
        steps=((1, "orange"), (100, "red")),
    ),
    stat(
        "End to end",
        "The time that half of the deliveries took at most, from receipt at an edge to delivery by an edge.",
        "s",
        Query(quantile(0.5, "end_to_end_duration_seconds"), "median"),
        width=4,
        steps=((0.5, "orange"), (5, "red")),
        runbook="late-events",
    ),
    stat(
        "Unread",
        "Records of the raw log that the router has not taken yet.",
        "short",
        Query(total(of("source_lag_records")), "records"),
        width=4,
        steps=((200, "orange"), (2000, "red")),
    ),
)

STAGES = row(
    "Stage by stage",
    lines(
        "1 Receive",
        "Frames that the edges' sockets gave.",
        "cps",
        Query(rate("received_frames_total", by="protocol"), "{{protocol}}"),
        stacked=True,
        runbook="less-traffic-than-expected",
    ),
    lines(
        "2 Log",
        "Frames that are on all in-sync replicas of the raw topic. Only now is a peer acknowledged.",
        "cps",
        Query(rate("accepted_frames_total", by="protocol"), "{{protocol}}"),
        stacked=True,
    ),
    lines(
        "3 Decode",
        "How the router judged the frames' bytes: believed, refused, or the mesh's own.",
        "cps",
        Query(rate("frames_total", 'stage="decode"', by="outcome"), "{{outcome}}"),
        stacked=True,
    ),
    lines(
        "4 Match",
        "What believed frames turned out to be: events, requests to the mesh itself, or refused.",
        "cps",
        Query(rate("frames_total", 'stage="match"', by="outcome"), "{{outcome}}"),
        stacked=True,
    ),
    lines(
        "5 Fan out",
        (
            "Destinations that were found, by the protocol that the event came in. Those of repeats are still "
            "among them."
        ),
        "cps",
        Query(rate("frames_total", 'stage="deliver",outcome="routed"', by="protocol"), "{{protocol}}"),
        stacked=True,
    ),
    lines(
        "6 Deliver",
        "The outcome of each delivery at its edge.",
        "cps",
        Query(rate("egress_delivered_total", by="outcome"), "{{outcome}}"),
        stacked=True,
    ),
)

REFUSED = row(
    "Refused, by reason",
    lines(
        "At the edges",
        "Frames that never reached the raw log: the peer broke its protocol, or a limit.",
        "cps",
        Query(REFUSED_AT_EDGES, "all"),
        Query(f"{rate('rejected_frames_total', by='reason')} > 0", "{{reason}}", NOTHING_REFUSED),
        width=12,
    ),
    lines(
        "In the router",
        "Frames that are kept in the topic `rejected`, by the stage and the reason.",
        "cps",
        Query(REFUSED_IN_ROUTER, "all"),
        Query(f"{REFUSED_BY_STAGE} > 0", "{{stage}}: {{reason}}", NOTHING_REFUSED),
        width=12,
    ),
)

LATENCY = row(
    "How long it takes",
    lines(
        "End to end",
        "The time from receipt at an edge to delivery by an edge: from socket to socket.",
        "s",
        Query(quantile(0.5, "end_to_end_duration_seconds"), "median"),
        Query(quantile(0.9, "end_to_end_duration_seconds"), "90 %"),
        Query(quantile(0.99, "end_to_end_duration_seconds"), "99 %"),
        runbook="late-events",
    ),
    lines(
        "End to end, 99 %, by protocols",
        "The same by the protocols of sender and receiver. It shows from whom to whom it is slow.",
        "s",
        Query(quantile(0.99, "end_to_end_duration_seconds", by="from,to"), "{{from}} → {{to}}"),
        runbook="late-events",
    ),
    lines(
        "Its parts, 99 %",
        (
            "The edge's log (a peer's acknowledgement), and the router (a probe through raw log and sink). The "
            "rest of the whole is delivery."
        ),
        "s",
        Query(quantile(0.99, "ack_duration_seconds"), "acknowledgement"),
        Query(quantile(0.99, "produce_duration_seconds"), "Kafka alone"),
        Query(quantile(0.99, "probe_duration_seconds"), "router"),
        runbook="late-events",
    ),
)

EQUATION = row(
    "The loss equation: what goes in on the left comes out on the right",
    lines(
        "Edges",
        (
            "Received = logged + refused, except what Kafka has not acknowledged yet. What the kernel dropped was "
            "never received. If the line stays above the area, there are frames that nobody has accounted for."
        ),
        "cps",
        Query(rate("accepted_frames_total"), "logged"),
        Query(REFUSED_AT_EDGES, "refused"),
        Query(rate("received_frames_total"), "received"),
        Query(rate("udp_kernel_dropped_total"), "dropped by the kernel"),
    ),
    lines(
        "Edges to router",
        (
            "Logged = decoded, except what the router has not read yet. Frames of rules, and frames that were put "
            "in again, are decoded too, though no peer sent them."
        ),
        "cps",
        Query(rate("accepted_frames_total"), "logged"),
        Query(rate("frames_total", ACCOUNTED), "decoded"),
    ),
    lines(
        "Router",
        ("Decoded = refused + control + events + put in again. Repeats among the events are dropped afterwards."),
        "cps",
        Query(rate("frames_total", ACCOUNTED), "decoded"),
        Query(rate("frames_total", 'stage=~"decode|match",outcome="rejected"'), "refused"),
        Query(rate("frames_total", 'stage="match",outcome="control"'), "control"),
        Query(rate("frames_total", 'stage="match",outcome="event"'), "events"),
        Query(
            rate("frames_total", 'stage="match",outcome="again"'),
            "put in again",
            "nothing is replayed or redriven",
        ),
        Query(rate("duplicates_total"), "repeats dropped"),
    ),
)

FLOW = Dashboard(
    "flow",
    "Flow",
    "One event's way from socket to socket: what passes each stage, what is refused, how long it takes, and whether it "
    "adds up.",
    'version!=""',
    (NOW, STAGES, REFUSED, LATENCY, EQUATION),
)
