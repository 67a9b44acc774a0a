"""Lets an operator act from the edge's page: kick a session, trace an event, redrive a refused one, publish a test.

    POST /live/acts/kick      {"session": ID}             POST /live/acts/redrive   {"event_id": ID}
    POST /live/acts/trace     {"event_id": ID}            POST /live/acts/publish   {"subject", "body", "via"}

Invariants:

1. Nothing is done without the token of an operator of the configuration; without operators, nothing at all.
2. A token is looked at only if it comes from this machine, because one that crosses a network in clear is anybody's.
3. Every act is logged with the operator's name, whatever came of it; so are wrong tokens, a few at a time.
4. Whatever reads or writes topics is done by a verb of the command line, in a process of its own, one at a time. In the
   edge's own interpreter it would delay the frames that this delivers.
"""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from gateway.auth.operators import find_operator
from gateway.config import Config
from gateway.core.address import is_loopback
from gateway.observability.management import HttpRequest, PageAnswer, json_answer
from gateway.protocols import protocols

log = logging.getLogger(__name__)

ACTS = "/live/acts/"
VERB_SECONDS = 60.0
"""A verb that takes longer is ended: reading back the log of a busy mesh takes seconds."""
REFUSALS_LOGGED_SECONDS = 10.0
"""Wrong tokens are logged once in so long, with their number: whoever guesses must not fill the log."""
FIELDS: Mapping[str, frozenset[str]] = {
    "kick": frozenset({"session"}),
    "trace": frozenset({"event_id"}),
    "redrive": frozenset({"event_id"}),
    "publish": frozenset({"subject", "body", "via"}),
}


class OperatorActions:
    """Does what operators ask for. May be called from any thread. `kick` ends a session."""

    def __init__(self, config: Callable[[], Config], kick: Callable[[str], PageAnswer]) -> None:
        self._config = config
        self._kick = kick
        self._running = threading.Lock()
        self._refusals = Refusals()

    def command(self, request: HttpRequest) -> PageAnswer:
        """Answers a POST below `/live/acts/`."""
        config = self._config()
        tokens = {name: token.get_secret_value() for name, token in config.edge.operators.items()}
        if not tokens:
            return _error(HTTPStatus.FORBIDDEN, "this page only reads: edge.operators names nobody")
        if not is_loopback(request.client):
            why = "tokens are taken from this machine alone: reach it by a tunnel (ssh -L, kubectl port-forward)"
            return _error(HTTPStatus.FORBIDDEN, why)
        operator = find_operator(tokens, request.token)
        if operator is None:
            self._refusals.count(request.client)
            return _error(HTTPStatus.UNAUTHORIZED, "this is the token of no operator")
        fields = _fields(request)
        if fields is None:
            expected = "; ".join(f"{act}: {', '.join(sorted(names))}" for act, names in FIELDS.items())
            return _error(HTTPStatus.BAD_REQUEST, f"the body is a JSON object of texts ({expected})")
        answer = self._act(config, request.below, fields)
        shown = {name: text for name, text in fields.items() if name != "body"}
        log.info("operator %s at %s: %s %s: %d", operator, request.client, request.below, shown, answer.status)
        return answer

    def _act(self, config: Config, act: str, fields: Mapping[str, str]) -> PageAnswer:
        if act == "kick":
            return self._kick(fields["session"])
        if act == "trace":
            return self._run(config, "trace", fields["event_id"])
        if act == "redrive":
            return self._run(config, "rejected", "redrive", fields["event_id"])
        if fields["via"] not in protocols():
            return _error(HTTPStatus.BAD_REQUEST, f"via is one of {', '.join(protocols())}")
        return self._run(config, "pub", fields["subject"], "-", via=fields["via"], body=fields["body"])

    def _run(self, config: Config, *words: str, via: str = "", body: str = "") -> PageAnswer:
        """Runs a verb, and answers with what it prints. The last of `words` are arguments and never options."""
        verb = words[: 2 if words[0] == "rejected" else 1]
        options = ["-c", str(config.path), "--output", "json", *(["--via", via] if via else [])]
        command = [sys.executable, "-m", "gateway.cli", *verb, *options, "--", *words[len(verb) :]]
        if not self._running.acquire(blocking=False):
            return _error(HTTPStatus.CONFLICT, "another operator's act is under way: try again")
        try:
            result = subprocess.run(  # noqa: S603 - our own command line, without a shell
                command, input=body, capture_output=True, encoding="utf-8", timeout=VERB_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return _error(HTTPStatus.GATEWAY_TIMEOUT, f"it was not done within {VERB_SECONDS:.0f} s")
        finally:
            self._running.release()
        if result.returncode:
            why = result.stderr.strip().rpartition("\n")[2]
            return _error(HTTPStatus.UNPROCESSABLE_ENTITY, why or f"{verb[0]} ended with {result.returncode}")
        return json_answer(HTTPStatus.OK, {"done": json.loads(result.stdout or "null")})


class Refusals:
    """Counts wrong tokens, and logs them a few at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._logged_at = -REFUSALS_LOGGED_SECONDS

    def count(self, client: str) -> None:
        with self._lock:
            self._count += 1
            now = time.monotonic()
            if now - self._logged_at >= REFUSALS_LOGGED_SECONDS:
                log.warning("%d wrong tokens for the page's acts, the last from %s", self._count, client)
                self._logged_at, self._count = now, 0


def _fields(request: HttpRequest) -> dict[str, str] | None:
    """Returns the fields of a known act, all of them texts; None if anything is missing or too much."""
    try:
        fields: Any = json.loads(request.body or b"null")
    except (ValueError, RecursionError):
        return None
    names = FIELDS.get(request.below)
    if names is None or not isinstance(fields, dict) or fields.keys() != names:
        return None
    return fields if all(map(_is_text, fields.values())) else None


def _is_text(value: Any) -> bool:
    """True for what can be an argument of a program. Half a surrogate pair is valid JSON, and no text."""
    return isinstance(value, str) and not re.search("[\0\ud800-\udfff]", value)


def _error(status: HTTPStatus, why: str) -> PageAnswer:
    return json_answer(status, {"error": why})
