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
    ),
    stat(
        "Recorded",
        "Events that the router recorded, a second; repeats are still among them.",
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
        "Frames refused at the edges and in the router, a second. The router keeps each, with its reason.",
        "cps",
        Query(f"{REFUSED_AT_EDGES} + {REFUSED_IN_ROUTER}", "frames"),
        width=4,
        steps=((1, "orange"), (100, "red")),
    ),
    stat(
        "End to end",
        "Half of the deliveries took no longer, from receipt at an edge to delivery by one.",
        "s",
        Query(quantile(0.5, "end_to_end_duration_seconds"), "median"),
        width=4,
        steps=((0.5, "orange"), (5, "red")),
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
        "What the edges' sockets gave.",
        "cps",
        Query(rate("received_frames_total", by="protocol"), "{{protocol}}"),
        stacked=True,
    ),
    lines(
        "2 Log",
        "What is on all in-sync replicas of the raw topic. Only now is a peer acknowledged.",
        "cps",
        Query(rate("accepted_frames_total", by="protocol"), "{{protocol}}"),
        stacked=True,
    ),
    lines(
        "3 Decode",
        "What the router made of the frames' bytes: believed, refused, or the mesh's own.",
        "cps",
        Query(rate("frames_total", 'stage="decode"', by="outcome"), "{{outcome}}"),
        stacked=True,
    ),
    lines(
        "4 Match",
        "What believed frames turned out to be: events, words to the mesh itself, or refused.",
        "cps",
        Query(rate("frames_total", 'stage="match"', by="outcome"), "{{outcome}}"),
        stacked=True,
    ),
    lines(
        "5 Fan out",
        "Destinations found, by the protocol that the event came in. Repeats' are still among them.",
        "cps",
        Query(rate("frames_total", 'stage="deliver",outcome="routed"', by="protocol"), "{{protocol}}"),
        stacked=True,
    ),
    lines(
        "6 Deliver",
        "What became of each delivery at its edge.",
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
        "Frames kept in the topic `rejected`, by the stage and the reason.",
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
        "From receipt at an edge to delivery by one: socket to socket.",
        "s",
        Query(quantile(0.5, "end_to_end_duration_seconds"), "median"),
        Query(quantile(0.9, "end_to_end_duration_seconds"), "90 %"),
        Query(quantile(0.99, "end_to_end_duration_seconds"), "99 %"),
    ),
    lines(
        "End to end, 99 %, by protocols",
        "From whom to whom it is slow.",
        "s",
        Query(quantile(0.99, "end_to_end_duration_seconds", by="from,to"), "{{from}} → {{to}}"),
    ),
    lines(
        "Its parts, 99 %",
        (
            "The edge's log (a peer's acknowledgement), and the router (a probe through raw log and sink). What "
            "is left of the whole is delivery."
        ),
        "s",
        Query(quantile(0.99, "ack_duration_seconds"), "acknowledgement"),
        Query(quantile(0.99, "produce_duration_seconds"), "Kafka alone"),
        Query(quantile(0.99, "probe_duration_seconds"), "router"),
    ),
)

EQUATION = row(
    "The loss equation: what goes in on the left comes out on the right",
    lines(
        "Edges",
        (
            "Received = logged + refused, but for what Kafka has not acknowledged yet. What the kernel dropped "
            "was never received. A line above the area for long is frames that are nowhere."
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
            "Logged = decoded, but for what the router has not read yet. Frames of rules and of frames put in "
            "again are decoded too, though no peer sent them."
        ),
        "cps",
        Query(rate("accepted_frames_total"), "logged"),
        Query(rate("frames_total", ACCOUNTED), "decoded"),
    ),
    lines(
        "Router",
        (
            "Decoded = refused + control + events + put in again. Of the events, the repeats among them are "
            "dropped afterwards."
        ),
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
