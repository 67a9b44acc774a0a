"""The page on an edge's management address: the mesh as it is now, in a browser.

Nothing of it runs until somebody looks, and it ends shortly after they have stopped: one thread looks at the metrics,
one at the ends of the topics, one follows the interests. However many look, there is one of each.

    GET /            the page                 GET /live/now    what flows, who is connected, who wants what
    GET /live.js     what it does             GET /live/rows   frames as they pass: ?at=raw|events|rejected|egress
    GET /drawing.js  what it draws                             &after=NUMBER
    GET /live.css    how it looks
    GET /live/graph  the mesh as a graph      GET /live/hour   rates and latencies of the last hour

All of these only read. What an operator may do from the page is `gateway.edge.operator_actions`.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from http import HTTPStatus
from importlib.resources import files
from itertools import islice
from typing import Any

from gateway import __version__
from gateway.config import Config, redacted
from gateway.config.topics import TopicName
from gateway.core.clock import now_us
from gateway.inspect.live.busy_subjects import shares_of
from gateway.inspect.live.current_interests import interest_row
from gateway.inspect.live.interest_follower import InterestFollower
from gateway.inspect.live.last_hour import LastHour
from gateway.inspect.live.mesh_parts import router_part
from gateway.inspect.live.metrics_poller import MetricsPoller, SamplesSource, samples_source
from gateway.inspect.live.node_labels import NodeLabels
from gateway.inspect.live.rows import ROWS, Row
from gateway.inspect.live.topic_watcher import TopicWatcher
from gateway.inspect.live.topology import MODES, EdgeNow, topology
from gateway.interests import Interest
from gateway.observability.management import Page, PageAnswer
from gateway.records.cloud_event import rfc3339

LOOK_SECONDS = 1.0
IDLE_SECONDS = 15.0
"""Without anybody who asks; a page asks every second."""
TAPPED_SECONDS = 10.0
SHOWN_SESSIONS, SHOWN_SUBJECTS = 100, 12
GRAPH_PEERS = 8
"""The peers of a listener that the graph shows one by one: with more, nobody finds anything in it."""
SHOWN_CHARACTERS = 400
UNSHOWN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
ALWAYS: frozenset[TopicName] = frozenset({"events", "rejected"})
PLACES: Mapping[str, TopicName] = {name: name for name in ("raw", "events", "rejected", "egress") if name in ROWS}
SECURITY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}


Sessions = Callable[[], Iterable[dict[str, Any]]]
Away = Callable[[], list[dict[str, Any]]]


class LivePage:
    """Serves the live page. May be called from any thread.

    `tell` returns this edge's own metrics. `sessions` returns what is shown of those that are open. `away` returns the
    links and listeners whose other side is not there.
    """

    def __init__(
        self, config: Callable[[], Config], source: SamplesSource, sessions: Sessions, away: Away, hour: LastHour
    ) -> None:
        self._config, self._source, self._sessions, self._away, self._hour = config, source, sessions, away, hour
        self._labels = NodeLabels(config)
        self._lock = threading.Lock()
        self._viewing: ViewerFeeds | None = None

    def pages(self) -> dict[str, Page]:
        """Returns the pages. All of them only read: nothing here changes the mesh."""
        static = {"/": "live.html"} | {f"/{name}": name for name in ("live.css", "live.js", "drawing.js")}
        return {
            **{path: _static(name) for path, name in static.items()},
            "/live/now": lambda _: self.now(),
            "/live/rows": self.rows,
            "/live/graph": lambda _: self.graph(),
            "/live/hour": lambda _: _json(self._hour.as_json()),
        }

    def now(self) -> PageAnswer:
        viewing = self._viewing_for()
        config = self._config()
        labels = self._labels.now()
        sessions = [_labelled(connection, labels) for connection in islice(self._sessions(), SHOWN_SESSIONS)]
        shown = [_labelled(interest_row(interest), labels) for interest in viewing.interests]
        return _json(
            {
                "mesh": config.mesh,
                "edge": config.edge.id,
                "version": __version__,
                "at": rfc3339(now_us()),
                **viewing.as_json(shown),
                "shown_sessions": sessions,
                "away": self._away(),
                "has_operators": bool(config.edge.operators),
                "protocols": sorted({listener.protocol for listener in config.listeners}),
            }
        )

    def rows(self, query: Mapping[str, str]) -> PageAnswer:
        place = PLACES.get(query.get("at", ""))
        after = query.get("after", "0")
        if place is None or not after.isdecimal():
            return _json({"error": f"at is one of {', '.join(PLACES)}; after a number"}, HTTPStatus.BAD_REQUEST)
        labels, answer = self._labels.now(), self._viewing_for(place).rows(place, int(after))
        return _json(answer | {"rows": [_labelled(row, labels) for row in answer["rows"]]})

    def graph(self) -> PageAnswer:
        """Answers with this edge and what it sees of the mesh (see `topology`)."""
        viewing, config = self._viewing_for(), self._config()
        edge = EdgeNow(redacted(config), list(islice(self._sessions(), SHOWN_SESSIONS)))
        modes = {lane: MODES[is_realtime] for lane, is_realtime in viewing.realtime.items()}
        return _json(asdict(topology(config, [edge], viewing.interests, modes, GRAPH_PEERS, self._labels.now())))

    def stop(self) -> None:
        with self._lock:
            if self._viewing is not None:
                self._viewing.stop()

    def _viewing_for(self, place: TopicName | None = None) -> ViewerFeeds:
        with self._lock:
            if self._viewing is None or self._viewing.is_over:
                self._viewing = ViewerFeeds(self._config(), self._source)
            self._viewing.note_viewer(place)
            return self._viewing


class ViewerFeeds:
    """Runs what viewers need, from somebody's first look until nobody looks any more."""

    def __init__(self, config: Config, source: SamplesSource) -> None:
        self._asked_at: dict[TopicName | None, float] = {}
        router = router_part(config)
        self._poller = MetricsPoller({"this edge": source, "the router": samples_source(router)})
        self._flow = self._poller.look()
        self._topics, self._interests = TopicWatcher(config, self._topics_viewed), InterestFollower(config)
        self._stopping = threading.Event()
        self.is_over = False
        for thread in (self._topics, self._interests):
            thread.start()
        threading.Thread(target=self._run, name="viewing", daemon=True).start()

    def note_viewer(self, place: TopicName | None) -> None:
        now = time.monotonic()
        self._asked_at |= {None: now} if place is None else {None: now, place: now}

    def stop(self) -> None:
        self._stopping.set()

    @property
    def interests(self) -> Sequence[Interest]:
        return self._interests.shown

    @property
    def realtime(self) -> Mapping[str, bool]:
        """Returns for each lane that runs whether it is in real time."""
        lanes: Mapping[str, bool] = self._flow["realtime"]
        return lanes

    def as_json(self, shown_interests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        flow, following = self._flow, self._interests
        events = flow["stages"]["events"]["per_second"]
        return {
            **flow,
            "trouble": self._topics.trouble,
            "subjects": shares_of(self._topics.subjects.busiest(SHOWN_SUBJECTS), events),
            "standing": {
                "count": following.count,
                "is_whole": following.is_whole,
                "shown": shown_interests,
            },
        }

    def rows(self, place: TopicName, after: int) -> dict[str, Any]:
        rows = [{"number": number, **_row(row)} for number, row in self._topics.rows(place, after)]
        return {"at": place, "rows": rows, "skipped": self._topics.skipped(place)}

    def _topics_viewed(self) -> frozenset[TopicName]:
        recently = time.monotonic() - TAPPED_SECONDS
        return ALWAYS | {place for place, at in self._asked_at.items() if place is not None and at > recently}

    def _run(self) -> None:
        try:
            while not self._stopping.wait(LOOK_SECONDS) and time.monotonic() - self._asked_at[None] < IDLE_SECONDS:
                self._flow = self._poller.look()
        finally:
            self.is_over = True
            self._topics.stop()
            self._interests.stop()


def _labelled(row: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    return {**row, "label": labels.get(row["node"] or "", "")}


def _row(row: Row) -> dict[str, Any]:
    """Returns a row whose text can be read and searched for, and no more than a line can show."""
    data = UNSHOWN.sub("·", row.data[: 4 * SHOWN_CHARACTERS].decode(errors="backslashreplace"))
    return {
        "id": row.id,
        "time": rfc3339(row.at),
        "protocol": row.protocol,
        "node": row.node,
        "subject": row.subject,
        "reason": row.reason,
        "bytes": len(row.data),
        "data": data[:SHOWN_CHARACTERS],
        "more": {name: str(value)[:SHOWN_CHARACTERS] for name, value in row.more.items()},
    }


def _static(name: str) -> Page:
    kind = f"{TYPES[name.rpartition('.')[2]]}; charset=utf-8"
    return lambda _: PageAnswer(HTTPStatus.OK, kind, (files(__package__) / name).read_bytes(), SECURITY)


def _json(value: Any, status: HTTPStatus = HTTPStatus.OK) -> PageAnswer:
    return PageAnswer(status, "application/json", json.dumps(value, ensure_ascii=False).encode(), SECURITY)
