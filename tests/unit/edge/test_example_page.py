"""The example page: which listeners it offers to a browser."""

from __future__ import annotations

import json
import re
from typing import Any

from gateway.edge.pages import ExamplePage
from tests.unit.edge.running import configured, listener


def offered(bound: dict[str, str], *listeners: dict[str, Any]) -> Any:
    page = ExamplePage(lambda: configured(*listeners), lambda: bound).show({}).body.decode()
    found = re.search(r'id="offered">(.*?)</script>', page)
    assert found is not None
    return json.loads(found[1])


def test_it_offers_the_listeners_of_yamp_over_websocket_where_they_are_bound() -> None:
    listeners = (listener("apps", "yamp"), listener("web", "yamp", "ws"), listener("calls", "wolpertinger", "ws"))
    bound = {"apps": "tcp://127.0.0.1:5042", "web": "ws://127.0.0.1:40123", "calls": "ws://127.0.0.1:5045"}
    assert offered(bound, *listeners) == [{"name": "web", "scheme": "ws", "port": 40123}]


def test_it_offers_nothing_before_they_are_bound() -> None:
    assert offered({}, listener("web", "yamp", "ws")) == []
