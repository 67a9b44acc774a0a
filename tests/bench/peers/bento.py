"""The configuration of a Bento pipeline: UDP into Kafka, and from there verify, deduplicate, UDP out.

Its mapping language cannot walk an EMM packet field by field; so it takes node, key id and HMAC from where they stand
in the packets of this benchmark, which is less work than all others do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.bench.peers.pipelines.settings import HOST, Settings

_HTTP = "http: {{address: '127.0.0.1:{port}'}}\nlogger: {{level: ERROR}}\n"

_RESOURCES = """\
cache_resources:
  - label: seen
    memory: {{default_ttl: {window}s, compaction_interval: 60s, shards: 16}}
"""

_INGEST = """\
input:
  socket_server:
    network: udp
    address: {host}:{listen}
    scanner: {{chunker: {{size: {size}}}}}
pipeline: {{threads: 1, processors: []}}
output:
  kafka_franz:
    seed_brokers: ['{host}:{server}']
    topic: {topic}
    key: '${{! content().slice(-56, -40) }}'
    idempotent_write: true
    max_in_flight: 16
    batching: {{count: 500, period: 2ms}}
"""

_ROUTE = """\
input:
  kafka_franz:
    seed_brokers: ['{host}:{server}']
    topics: [{topic}]
    consumer_group: pipeline
    start_from_oldest: true
    commit_period: 1s
    checkpoint_limit: 8192
    fetch_max_wait: 50ms
    batching: {{count: 500, period: 2ms}}
pipeline:
  threads: 2
  processors:
    - mapping: |
        let keys = {keys}
        let node = content().slice(-56, -40).encode("hex")
        let secret = $keys.get($node + content().slice(-38, -34).encode("hex")) | ""
        let made = content().slice(0, -34).hash("hmac_sha256", $secret)
        meta id = $node + content().slice(1, 5).encode("hex")
        root = if $made != content().slice(-32) {{ deleted() }}
    - dedupe: {{cache: seen, key: '${{! meta("id") }}'}}
output:
  socket: {{network: udp, address: '{host}:{deliver}', codec: append}}
"""


def write_bento(folder: Path, settings: Settings, size: int, http_port: int) -> list[str]:
    """The arguments for `bento`, with the files that they name. The secrets must be text: the language has no other."""
    values = {
        "host": HOST, "listen": settings.listen, "server": settings.server, "deliver": settings.deliver,
        "topic": settings.topic, "window": settings.window_seconds, "size": size, "port": http_port,
        "keys": json.dumps(_as_text(settings.keys)),
    }  # fmt: skip
    files = {"common": _HTTP, "resources": _RESOURCES, "ingest": _INGEST, "route": _ROUTE}
    paths = {name: folder / f"{name}.yaml" for name in files}
    for name, text in files.items():
        paths[name].write_text(text.format(**values))
    streams = [str(paths["ingest"]), str(paths["route"])]
    return ["-c", str(paths["common"]), "-r", str(paths["resources"]), "streams", *streams]


def _as_text(keys: Mapping[str, str]) -> dict[str, str]:
    return {name: bytes.fromhex(secret).decode("ascii") for name, secret in keys.items()}
