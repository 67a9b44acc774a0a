"""Stands for as much of Kubernetes' API as Helm asks: one StatefulSet, and how to find it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

_VERSION = {"groupVersion": "apps/v1", "version": "v1"}
_FOUND: dict[str, Any] = {
    "/version": {"major": "1", "minor": "37", "gitVersion": "v1.37.0"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": []},
    "/apis": {
        "kind": "APIGroupList",
        "groups": [{"name": "apps", "versions": [_VERSION], "preferredVersion": _VERSION}],
    },
    "/apis/apps/v1": {
        "kind": "APIResourceList",
        "groupVersion": "apps/v1",
        "resources": [{"name": "statefulsets", "namespaced": True, "kind": "StatefulSet", "verbs": ["get"]}],
    },
}


@contextmanager
def api_with(namespace: str, name: str, spec: dict[str, Any], folder: Path) -> Iterator[Path]:
    """Runs the API with this StatefulSet, and gives the file that says where it is."""
    path = f"/apis/apps/v1/namespaces/{namespace}/statefulsets/{name}"
    metadata = {"namespace": namespace, "name": name}
    objects = _FOUND | {path: {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}}

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = objects.get(self.path.partition("?")[0])
            body = json.dumps(
                found or {"kind": "Status", "apiVersion": "v1", "code": 404, "reason": "NotFound"}
            ).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            kubeconfig = folder / "kubeconfig"
            kubeconfig.write_text(yaml.safe_dump(_kubeconfig(f"http://127.0.0.1:{server.server_port}")))
            yield kubeconfig
        finally:
            server.shutdown()
            thread.join()


def _kubeconfig(url: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1", "kind": "Config", "current-context": "fake",
        "clusters": [{"name": "fake", "cluster": {"server": url}}],
        "users": [{"name": "fake", "user": {}}],
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
    }  # fmt: skip
