"""Checks that concern several settings: names used twice, addresses that clash, numbers that do not fit together.

These look at the plain data instead of the models, so that they also speak when a model could not be made; what is
malformed is passed over here, for its model has told it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from pydantic_core import PydanticCustomError

from gateway.config.kafka import RECORD_OVERHEAD_BYTES, KafkaSettings
from gateway.config.settings import EdgeSettings, Limits, RouterSettings, ordinal_of
from gateway.config.topics import TOPICS
from gateway.core.address import Address, parse_address, parse_host_port
from gateway.core.yaml_files.source import Place, YamlSource, path_text


def check_together(source: YamlSource) -> None:
    if not isinstance(source.data, Mapping):
        return
    _names(source, ("listeners", "peers"))
    _names(source, ("rules",))
    _addresses(source)
    _edge_has_partition(source)
    _frames_fit_records(source)
    _topics(source)


def _entries(source: YamlSource, section: str) -> Iterator[tuple[Place, Mapping[str, Any]]]:
    entries = source.data.get(section)
    if isinstance(entries, list):
        for at, entry in enumerate(entries):
            if isinstance(entry, Mapping):
                yield (section, at), entry


def _section(source: YamlSource, name: str) -> Mapping[str, Any]:
    section = source.data.get(name)
    return section if isinstance(section, Mapping) else {}


def _names(source: YamlSource, sections: tuple[str, ...]) -> None:
    """Listeners and links share one name space: a frame is recorded under the name of what it came by."""
    places: dict[str, Place] = {}
    for section in sections:
        for place, entry in _entries(source, section):
            name = str(entry.get("name", place))
            if name in places:
                source.fault((*place, "name"), f"{path_text(places[name])} has this name already")
            places.setdefault(name, place)


def _addresses(source: YamlSource) -> None:
    bound: list[tuple[Place, Address]] = []
    for place, address in _bound(source):
        for other_place, other in bound:
            if address.clashes(other):
                source.fault(place, f"{path_text(other_place)} has this address already")
                break
        bound.append((place, address))


def _bound(source: YamlSource) -> Iterator[tuple[Place, Address]]:
    kafka, edge, router = (_section(source, name) for name in ("kafka", "edge", "router"))
    own: list[tuple[Place, object]] = [
        (("edge", "management"), edge.get("management", EdgeSettings().management)),
        (("router", "management"), router.get("management", RouterSettings().management)),
    ]
    if kafka.get("bootstrap", KafkaSettings().bootstrap) == KafkaSettings().bootstrap:
        own.append((("kafka", "listen"), kafka.get("listen", KafkaSettings().listen)))
    for place, value in own:
        with suppress(PydanticCustomError):
            yield place, Address("tcp", parse_host_port(value))
    for place, entry in _entries(source, "listeners"):
        with suppress(PydanticCustomError):
            yield (*place, "listen"), parse_address(entry.get("listen"))


def _number(section: Mapping[str, Any], name: str, default: int | None) -> int | None:
    try:
        return int(section.get(name, default))
    except (TypeError, ValueError):
        return None


def _edge_has_partition(source: YamlSource) -> None:
    """Refuses more edges than egress partitions: the last ones would never be sent anything."""
    kafka = _section(source, "kafka")
    topics = kafka.get("topics")
    egress = topics.get("egress") if isinstance(topics, Mapping) else None
    own = _number(egress, "partitions", None) if isinstance(egress, Mapping) else None
    partitions = own or _number(kafka, "partitions", KafkaSettings().partitions)
    identity = str(_section(source, "edge").get("id", EdgeSettings().id))
    ordinal = ordinal_of(identity)
    if partitions and ordinal >= partitions:
        source.fault(
            ("edge", "id"),
            f"edge {ordinal} needs egress partition {ordinal}, and there are {partitions}: "
            "raise kafka.partitions or kafka.topics.egress.partitions",
        )


def _frames_fit_records(source: YamlSource) -> None:
    message_bytes = _number(_section(source, "kafka"), "message_bytes", KafkaSettings().message_bytes)
    if message_bytes is None:
        return
    sections: list[tuple[Place, Mapping[str, Any]]] = [(("limits",), _section(source, "limits"))]
    sections += [*_entries(source, "listeners"), *_entries(source, "peers")]
    for place, section in sections:
        default = Limits().frame_bytes if place == ("limits",) else 0
        frame_bytes = _number(section, "frame_bytes", default)
        if frame_bytes is not None and frame_bytes + RECORD_OVERHEAD_BYTES > message_bytes:
            least = f"kafka.message_bytes must be {RECORD_OVERHEAD_BYTES} larger, and is {message_bytes}"
            source.fault((*place, "frame_bytes"), least)


def _topics(source: YamlSource) -> None:
    topics = _section(source, "kafka").get("topics")
    for name, settings in topics.items() if isinstance(topics, Mapping) else ():
        place: Place = ("kafka", "topics", str(name))
        if name == "raw" and isinstance(settings, Mapping) and "partitions" in settings:
            source.fault((*place, "partitions"), "say it in kafka.partitions: the raw topic is the unit of scaling")
        if name in TOPICS and TOPICS[name].is_compacted and isinstance(settings, Mapping):
            for key in settings.keys() & {"retention_hours", "retention_bytes"}:
                source.fault((*place, key), "this topic is compacted and keeps the last of each key for ever")
