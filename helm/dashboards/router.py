"""Router: whether its lanes keep up and commit, what their state holds, and what the JVM needs for it."""

from __future__ import annotations

from helm.dashboards.dashboard import Dashboard
from helm.dashboards.panels import Query, lines, row, stat
from helm.dashboards.queries import greatest, of, quantile, rate, total

ROUTER_ONLY = 'edge=""'
THIS_ROUTER = f"on (job, instance) group_left (mesh) {of('build_info', ROUTER_ONLY)}"
SINCE_COMMIT = f"time() - {of('last_commit_timestamp_seconds')}"

NOW = row(
    "Now",
    stat(
        "Since the last commit",
        ("The age of the last commit of the lane that has waited longest. In real time a batch takes three minutes."),
        "s",
        Query(f"max({SINCE_COMMIT})", "age"),
        width=4,
        steps=((240, "orange"), (480, "red")),
    ),
    stat(
        "Lanes in real time",
        ("The share of the lanes that run in real time. The others run in micro-batches, as `router.mode` says."),
        "percentunit",
        Query(f"avg({of('lane_realtime')})", "share"),
        width=4,
        runbook="lanes-that-are-not-in-real-time",
    ),
    stat(
        "Through the router",
        "The time that half of the probes took at most, from the raw log to a sink.",
        "s",
        Query(quantile(0.5, "probe_duration_seconds"), "median"),
        width=4,
        steps=((0.5, "orange"), (5, "red")),
    ),
    stat(
        "Dropped as late",
        ("Raw records that Spark dropped behind the watermark, a second. Their outputs are lost: this must stay 0."),
        "cps",
        Query(rate("state_rows_dropped_by_watermark_total"), "rows"),
        width=4,
        steps=((0.000001, "red"),),
    ),
    stat(
        "Interests",
        "Patterns that hold now, and how many the mesh may have.",
        "short",
        Query(total(of("interests")), "interests"),
        Query(greatest("interests_limit"), "limit"),
        width=4,
    ),
    stat(
        "Standby",
        "1 if a second router is warm and can take over, and 1 if one is wanted (`router.standby`).",
        "short",
        Query(greatest("router_standby", 'state="warm"'), "warm"),
        Query(greatest("router_standby", 'state="wanted"'), "wanted"),
        width=4,
    ),
)

PACE = row(
    "Keeping up",
    lines(
        "Unread",
        (
            "Records of the raw log that the workers have not taken, by partition. If one partition grows alone, "
            "one node sends more than one core can decode."
        ),
        "short",
        Query(total(of("source_lag_records"), by="partition"), "partition {{partition}}"),
    ),
    lines(
        "Decoded",
        "Frames, by what became of them.",
        "cps",
        Query(rate("frames_total", 'stage="decode"', by="outcome"), "{{outcome}}"),
        stacked=True,
    ),
    lines(
        "Through the router",
        "How long a probe takes from the raw log through the Python pass, the dedup and the sink.",
        "s",
        Query(quantile(0.5, "probe_duration_seconds"), "median"),
        Query(quantile(0.9, "probe_duration_seconds"), "90 %"),
    ),
    lines(
        "Since the last commit",
        (
            "How much a crash would repeat. It is a saw tooth: of three minutes in real time, of less than a "
            "second in micro-batches."
        ),
        "s",
        Query(f"max by (lane) ({SINCE_COMMIT})", "{{lane}}"),
        width=6,
    ),
    lines(
        "Batches, by phase",
        (
            "Share of the time that each phase of the batches takes, told when they commit. In real time nearly "
            "all of it is the open batch (`add_batch`); the rest is overhead."
        ),
        "percentunit",
        Query(rate("batch_duration_seconds_sum", 'phase!="trigger_execution"', by="phase"), "{{phase}}"),
        width=6,
        runbook="batches",
    ),
    lines(
        "Frames in a batch",
        "Frames that were decoded between the last two commits.",
        "short",
        Query(total(of("batch_frames"), by="lane"), "{{lane}}"),
        width=6,
        runbook="batches",
    ),
    lines(
        "Queries started again",
        ("Queries that failed, mostly because a Python worker died, and went on in place from their checkpoint."),
        "cps",
        Query(rate("query_restarts_total", by="lane"), "{{lane}}"),
        width=6,
    ),
)

STATE = row(
    "Dedup state",
    lines(
        "Message ids",
        (
            "Ids in the memory of each lane's worker, by which a repeat is known. They grow with new ids a "
            "second, never with time."
        ),
        "short",
        Query(total(of("known_ids"), by="lane"), "{{lane}}"),
        width=6,
        runbook="meshgatemanyids",
    ),
    lines(
        "Memory of the message ids",
        "Memory of those ids: 26 to 30 bytes each, more below a few million.",
        "bytes",
        Query(total(of("known_ids_bytes"), by="lane"), "{{lane}}"),
        width=6,
    ),
    lines(
        "Message ids read at the start",
        "How long each lane's worker took to read the ids from the state when it began.",
        "s",
        Query(greatest("known_ids_rebuild_seconds", by="lane"), "{{lane}}"),
        width=6,
        runbook="meshgatemanyids",
    ),
    lines(
        "Repeats dropped",
        "Frames that were dropped because their id was known.",
        "cps",
        Query(rate("duplicates_total", by="lane"), "{{lane}}"),
        width=6,
    ),
    lines(
        "Rows",
        (
            "Rows of the state: one for each raw record, with the ids that it brought. A row leaves when it is "
            "behind the watermark."
        ),
        "short",
        Query(total(of("state_rows"), by="lane"), "{{lane}}", "Spark tells it from its second batch on"),
        width=6,
    ),
    lines(
        "Memory of the state store",
        "Memory of RocksDB, in the JVM's process.",
        "bytes",
        Query(total(of("state_bytes"), by="lane"), "{{lane}}"),
        width=6,
        runbook="meshgatestategrows",
    ),
    lines(
        "Watermark behind the clock",
        (
            "How far the watermark is behind the clock. Rows behind it leave the state. It moves on with each "
            "commit, and falls back where no record comes."
        ),
        "s",
        Query(greatest("watermark_lag_seconds", by="lane"), "{{lane}}", "Spark tells it from its second batch on"),
        width=6,
        runbook="meshgatestategrows",
    ),
    lines(
        "Honest frames lost to equal ids",
        (
            "The most honest frames that can be among the repeats of the last window, as if one node had sent "
            "everything (the bound of the birthday paradox)."
        ),
        "short",
        Query(total(of("message_id_collisions_expected"), by="protocol"), "{{protocol}}"),
        width=6,
        runbook="meshgatereplays",
    ),
)

DECISIONS = row(
    "Decisions",
    lines(
        "Interests",
        "Patterns that hold, by what is wanted with them.",
        "short",
        Query(total(of("interests"), by="verb"), "{{verb}}"),
        width=12,
    ),
    lines(
        "Lost in translation",
        "Parts of an event that the receiver's protocol cannot say.",
        "cps",
        Query(
            rate("translation_losses_total", by="from,to,what"),
            "{{from}} → {{to}}: {{what}}",
            "no event has crossed two protocols of which one says less",
        ),
        width=12,
        runbook="losses-in-translation",
    ),
)


def _jvm(name: str, labels: str = "") -> str:
    return total(f"{of(name, labels)} * {THIS_ROUTER}")


PROCESS = row(
    "JVM and process",
    lines(
        "Heap",
        "The heap in use, the heap that the JVM has from the system, and the most that it may take.",
        "bytes",
        Query(_jvm("jvm_memory_used_bytes", 'area="heap"'), "used"),
        Query(_jvm("jvm_memory_committed_bytes", 'area="heap"'), "committed"),
        Query(_jvm("jvm_memory_max_bytes", 'area="heap"'), "most"),
        runbook="the-routers-process",
    ),
    lines(
        "Garbage collection",
        "Share of the time in which the JVM stands still.",
        "percentunit",
        Query(
            total(f"rate({of('jvm_gc_collection_seconds_sum')}[$__rate_interval]) * {THIS_ROUTER}", by="gc"),
            "{{gc}}",
        ),
        runbook="the-routers-process",
    ),
    lines(
        "Threads of the JVM",
        "Threads of the JVM. They grow without end where something leaks.",
        "short",
        Query(_jvm("jvm_threads_current"), "threads"),
        runbook="the-routers-process",
    ),
    lines(
        "CPU of the driver",
        ("Processor time of the driver; 1 is a whole core. Executors and Python workers are processes of their own."),
        "percentunit",
        Query(f"rate({of('process_cpu_seconds_total')}[$__rate_interval]) * {THIS_ROUTER}", "{{mesh}}"),
        width=12,
        runbook="the-routers-process",
    ),
    lines(
        "Memory of the driver",
        "Memory that the driver's Python process has in RAM, beside the JVM.",
        "bytes",
        Query(f"{of('process_resident_memory_bytes')} * {THIS_ROUTER}", "{{mesh}}"),
        width=12,
        runbook="the-routers-process",
    ),
)

ROUTER = Dashboard(
    "router",
    "Router",
    "The streaming job: whether its lanes keep up and commit, what the dedup state holds, and what it all costs.",
    ROUTER_ONLY,
    (NOW, PACE, STATE, DECISIONS, PROCESS),
)
