"""What `helm test` asserts of a release: that what must work works, and that what must not does not.

    python check.py health|listeners|denials PLAN.json

The plan is written by the chart. Runs in the edge's image, as any pod of the mesh does; ends with 1 when a check fails.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

CONNECT_SECONDS = 5.0
UNANSWERED_SECONDS = 10.0
"""Long enough for the answer to a good packet, many times over."""
CONFIG = Path("/etc/meshgate/config/meshgate.yaml")
TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")

Plan = dict[str, Any]
Check = tuple[str, Callable[[], object]]


def health(plan: Plan) -> Iterator[Check]:
    """Every part is ready, of one version, and of the mesh that the release is for."""
    versions: set[str] = set()
    for name, base in plan["management"]:
        yield f"{name} is ready", partial(eventually, plan, partial(get, f"{base}/healthz/ready"))
        yield f"{name} is of the mesh {plan['mesh']}", partial(is_of_mesh, base, plan["mesh"])
        yield f"{name} has the others' version", partial(has_the_version, base, versions)


def listeners(plan: Plan) -> Iterator[Check]:
    """Every listener of the Service takes peers; a signed packet goes the whole way, and comes back."""
    for one in plan["listeners"]:
        if one["transport"] in ("tcp", "tls", "ws", "wss"):
            yield f"{one['name']} takes connections", partial(eventually, plan, partial(take, one))
    if plan["signed"]:
        yield "a signed packet comes back to its subscriber", partial(probe, plan["timeout_seconds"])


def denials(plan: Plan) -> Iterator[Check]:
    """What nobody may do cannot be done."""
    yield "this pod is not root", is_not_root
    yield "this pod's file system is read-only", partial(refused, partial(Path("/written").write_text, "x"))
    yield "this pod cannot speak to the Kubernetes API", has_no_token
    for host, port in plan["closed"]:
        yield f"{host}:{port} is closed", partial(refused, partial(reach, host, port))
    for host, port in plan["policed"]:
        yield f"{host}:{port} is not for this pod", partial(refused, partial(reach, host, port))
    for one in plan["listeners"]:
        if one["client_ca"]:
            yield f"{one['name']} refuses peers without a certificate", partial(refused, partial(anonymous, one))
    if plan["signed"]:
        forged = partial(probe, UNANSWERED_SECONDS, forged=True)
        yield "a packet with a forged signature gets no answer", partial(refused, forged)


def is_of_mesh(base: str, mesh: str) -> None:
    equal(get(f"{base}/config")["mesh"], mesh)


def has_the_version(base: str, versions: set[str]) -> None:
    versions.add(get(f"{base}/version")["version"])
    equal(len(versions), 1)


def is_not_root() -> None:
    if os.getuid() == 0:
        raise AssertionError("it is")


def has_no_token() -> None:
    equal(TOKEN.exists(), False)


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=CONNECT_SECONDS) as response:  # noqa: S310 - the plan's own addresses
        return json.load(response)


def reach(host: str, port: int) -> None:
    open_socket(host, port).close()


def take(listener: Plan) -> None:
    connect(listener).close()


def open_socket(host: str, port: int) -> socket.socket:
    return socket.create_connection((host, port), timeout=CONNECT_SECONDS)


def connect(listener: Plan) -> socket.socket:
    """Connected, and behind TLS where the listener has it. (Whose certificate it is, peers judge.)"""
    plain = open_socket(listener["host"], listener["port"])
    if listener["transport"] not in ("tls", "wss") or listener["client_ca"]:
        return plain
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(plain)


def anonymous(listener: Plan) -> None:
    """Under TLS 1.3 a server says what it thinks of a missing certificate when it is first read from."""
    with connect({**listener, "client_ca": False}) as tls:
        if not tls.recv(1):
            raise ConnectionError("closed")


def probe(seconds: float, *, forged: bool = False) -> None:
    """From the package: the same event that `meshgate up` sends to say that it is ready."""
    from gateway.auth.trust_store import TrustStore
    from gateway.config import load
    from gateway.local.first_event import send_probe

    config = load(CONFIG)
    identity = TrustStore(config.trust, time.monotonic, entry=config.identity.key).identity
    if identity is None:
        raise LookupError("the trust store has no gateway entry to sign with")
    if forged:
        identity = replace(identity, ed25519_private=os.urandom(32), hmac=identity.hmac and os.urandom(32))
    send_probe(config, identity, seconds, threading.Event())


def eventually(plan: Plan, attempt: Callable[[], object]) -> None:
    """Within the plan's time; then fails as it failed last."""
    deadline = time.monotonic() + plan["timeout_seconds"]
    while True:
        try:
            attempt()
            return
        except (OSError, ValueError):
            if time.monotonic() > deadline:
                raise
            time.sleep(1)


def refused(attempt: Callable[[], object]) -> None:
    try:
        attempt()
    except Exception as error:  # whatever form the refusal has
        if isinstance(error, ImportError | LookupError):
            raise
        return
    raise AssertionError("it was let through")


def equal(found: object, wanted: object) -> None:
    if found != wanted:
        raise AssertionError(f"expected {wanted!r}, found {found!r}")


CHECKS = {"health": health, "listeners": listeners, "denials": denials}


def main(kind: str, plan: Plan) -> int:
    failed = 0
    for name, check in CHECKS[kind](plan):
        try:
            check()
            print(f"ok      {name}", flush=True)
        except Exception as error:
            failed += 1
            print(f"FAILED  {name}: {type(error).__name__}: {error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], json.loads(Path(sys.argv[2]).read_text())))
