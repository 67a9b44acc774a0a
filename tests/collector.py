"""A collector of OpenTelemetry's protocol, as far as spans go: OTLP over HTTP, read by the protocol's own messages."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

PATH = "/v1/traces"


class Span(NamedTuple):
    """Ids as hex; times in nanoseconds."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    start: int
    end: int
    failed: str
    said: dict[str, str | int]


@dataclass
class Collector:
    endpoint: str = ""
    spans: list[Span] = field(default_factory=list)

    def of(self, trace: str) -> dict[str, Span]:
        """Returns the last span of each name."""
        return {span.name: span for span in list(self.spans) if span.trace == trace}

    def take(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            named = {one.key: one.value.string_value for one in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    said: dict[str, str | int] = {
                        one.key: one.value.string_value or one.value.int_value for one in span.attributes
                    }
                    ids = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()
                    failed = span.status.message if span.status.code == span.status.STATUS_CODE_ERROR else ""
                    times = span.start_time_unix_nano, span.end_time_unix_nano
                    self.spans.append(Span(named["service.name"], span.name, *ids, *times, failed, said))


@contextmanager
def collecting() -> Iterator[Collector]:
    """Runs on a port of loopback, while this is entered."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path == PATH:
                collector.take(body)
            self.send_response(200 if self.path == PATH else 404)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.endpoint = f"http://127.0.0.1:{server.server_port}{PATH}"
    thread = threading.Thread(target=server.serve_forever, name="collector", daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
