"""Management addresses that say what a test wants them to say."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

EDGE = {"mesh": "test", "edge": "edge-0"}
DEVICES = EDGE | {"listener": "devices", "protocol": "emm"}
ROUTER = {"mesh": "test"}


def sample(name: str, value: float, labels: dict[str, str]) -> str:
    inside = ",".join(f'{key}="{text}"' for key, text in labels.items())
    return f"meshgate_{name}{{{inside}}} {value}\n"


def edge(received: float, **more: float) -> str:
    """An edge of one listener that has received so many frames, and as many of `more` by their names."""
    counted = {"received_frames_total": received, **more}
    return "".join(sample(name, value, DEVICES) for name, value in counted.items())


def router(events: float) -> str:
    labels = ROUTER | {"stage": "match", "outcome": "event", "reason": "", "protocol": "emm"}
    return sample("frames_total", events, labels)


def acknowledged(*buckets: tuple[str, float]) -> str:
    return "".join(sample("ack_duration_seconds_bucket", count, DEVICES | {"le": le}) for le, count in buckets)


class Said:
    """What `/metrics` answers; `port` is 0 while nobody answers."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.port = 0


@contextmanager
def answering(text: str, port: int = 0) -> Iterator[Said]:
    said = Said(text)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(said.text.encode())

        def log_message(self, format: str, *arguments: object) -> None:
            """Not wanted."""

    with HTTPServer(("127.0.0.1", port), Handler) as server:
        said.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield said
        finally:
            server.shutdown()
            thread.join()
