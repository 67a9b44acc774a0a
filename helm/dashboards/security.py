"""Security: how senders were proven, who was not believed and why, repeats, and what is about to run out."""

from __future__ import annotations

from gateway.core.reasons import Reason
from helm.dashboards.dashboard import Dashboard
from helm.dashboards.panels import Query, lines, row, stat
from helm.dashboards.queries import of, rate, total

UNPROVEN = "|".join(
    (
        Reason.MISSING_NODE,
        Reason.UNAUTHENTICATED,
        Reason.UNKNOWN_KEY,
        Reason.BAD_HMAC,
        Reason.BAD_SIGNATURE,
        Reason.UNTRUSTED_KEY,
        Reason.EXPIRED_KEY,
        Reason.BAD_CIPHERTEXT,
    )
)
"""Refusals of frames whose sender was not proven."""
UNTIMELY = "|".join((Reason.STALE, Reason.FUTURE))
ABUSE = "|".join((Reason.OVERLOAD, Reason.RATE_LIMITED, Reason.TOO_LARGE, Reason.BOMB))
NOBODY = "nobody tries it"
NO_END = "no key of the trust store has an end"

BELIEVED = rate("frames_total", 'stage="decode",outcome="accepted"')
NOT_BELIEVED = f'stage="decode",reason=~"{UNPROVEN}"'
REFUSED = rate("frames_total", NOT_BELIEVED)
DECODED_OF = rate("frames_total", 'stage="decode",outcome=~"accepted|rejected"', by="protocol")

NOW = row(
    "Now",
    stat(
        "Not believed",
        "Share of all frames whose sender was not proven.",
        "percentunit",
        Query(f"{REFUSED} / ({BELIEVED} + {REFUSED})", "share"),
        width=6,
        steps=((0.01, "orange"), (0.1, "red")),
    ),
    stat(
        "Repeats",
        "Frames that had been seen before, a second: retries, or replays.",
        "cps",
        Query(rate("duplicates_total"), "frames"),
        width=6,
    ),
    stat(
        "Next certificate ends in",
        "The time until the first certificate of a listener or link ends.",
        "s",
        Query(
            f"min({of('certificate_expiry_timestamp_seconds')} > 0) - time()",
            "time left",
            "no listener has a certificate",
        ),
        width=6,
    ),
    stat(
        "Next node without a key in",
        "The time until the last key of a node ends.",
        "s",
        Query(f"min({of('node_next_expiry_timestamp_seconds')} > 0) - time()", "time left", NO_END),
        width=6,
    ),
)

VERDICTS = row(
    "Verdicts",
    lines(
        "Believed",
        "Accepted frames by how their sender was proven. `none`: a listener that takes anybody.",
        "cps",
        Query(rate("verdicts_total", by="auth"), "{{auth}}"),
        stacked=True,
        runbook="meshgateunproven",
    ),
    lines(
        "Not believed",
        (
            "Frames whose sender was not proven, by the reason. Many `unknown_key`: a device whose key was never "
            "put into the trust store. Many bad tags: somebody forges."
        ),
        "cps",
        Query(REFUSED, "all"),
        Query(f"{rate('frames_total', NOT_BELIEVED, by='reason')} > 0", "{{reason}}", NOBODY),
    ),
    lines(
        "By protocol",
        "Share of the frames that were not believed, by protocol.",
        "percentunit",
        Query(f"{rate('frames_total', NOT_BELIEVED, by='protocol')} / {DECODED_OF}", "{{protocol}}"),
    ),
)

REPLAYS = row(
    "Replays and clocks",
    lines(
        "Repeats",
        "Frames that were seen before within the window. They are dropped, counted, and kept in the raw log.",
        "cps",
        Query(rate("duplicates_total"), "repeats"),
    ),
    lines(
        "Out of time",
        (
            "Frames that are signed, but too old or from the future: a device has a wrong clock, or somebody "
            "plays back a packet from before the window."
        ),
        "cps",
        Query(rate("frames_total", f'stage="decode",reason=~"{UNTIMELY}"', by="reason"), "{{reason}}"),
    ),
    lines(
        "Honest frames lost to equal ids",
        "The most honest frames that can be among the repeats of the last window.",
        "short",
        Query(total(of("message_id_collisions_expected"), by="protocol"), "{{protocol}}"),
        runbook="meshgatereplays",
    ),
)

ABUSES = row(
    "What peers may not",
    lines(
        "Forbidden",
        "Frames that were believed, but whose node may not publish, subscribe to or serve that subject.",
        "cps",
        Query(rate("frames_total", 'reason="forbidden"', by="protocol"), "{{protocol}}"),
    ),
    lines(
        "Too much, too fast, too large",
        "Frames that the edges refused because of a limit.",
        "cps",
        Query(rate("rejected_frames_total", f'reason=~"{ABUSE}"', by="reason"), "{{reason}}"),
    ),
    lines(
        "Closed",
        "The reasons why connections ended. Handshakes that fail stand here with their reason.",
        "cps",
        Query(rate("connections_closed_total", by="reason"), "{{reason}}", "nobody has disconnected yet"),
        runbook="peers-that-do-not-get-in",
    ),
)

ENDS = row(
    "Keys and certificates",
    lines(
        "Certificates and revocation lists: time left",
        (
            "The time until certificates and revocation lists end, by listener. Edges take over a new file "
            "without a restart."
        ),
        "s",
        Query(
            f"min by (listener) ({of('certificate_expiry_timestamp_seconds')} > 0) - time()",
            "{{listener}}",
            "no listener has a certificate",
        ),
        Query(
            f"min by (listener) ({of('revocation_list_expiry_timestamp_seconds')} > 0) - time()",
            "{{listener}}: revocation list",
            "no listener has a revocation list",
        ),
    ),
    lines(
        "Keys of nodes",
        "Keys of nodes, by state. `expiring`: ends within two weeks.",
        "short",
        Query(f"max by (state) ({of('keys')})", "{{state}}"),
        stacked=True,
        runbook="meshgatenodekeyends",
    ),
    lines(
        "Keys: time left",
        "The time until the next key ends, and until the next node is left without any key.",
        "s",
        Query(f"min({of('key_next_expiry_timestamp_seconds')} > 0) - time()", "next key", NO_END),
        Query(f"min({of('node_next_expiry_timestamp_seconds')} > 0) - time()", "next node", NO_END),
    ),
)

SECURITY = Dashboard(
    "security",
    "Security",
    "How senders were proven, who was not believed and why, repeats, limits that were met, and what is about to end.",
    'version!=""',
    (NOW, VERDICTS, REPLAYS, ABUSES, ENDS),
)
