"""Writes and reads the records of the topic `events`: CloudEvents 1.0 in three forms, all told apart by one reader.

    binary       one event a record; attributes are Kafka headers `ce_…`, the value is the body
    structured   one event a record; the value is JSON                        (application/cloudevents+json)
    batch        many events of one raw record; the value is a JSON array     (application/cloudevents-batch+json)

`events.format: cloudevents` writes the binary form, `batch` the batch. Nothing here writes the structured form: a batch
costs less, and readers that want one event a record are served by the binary form, which measured cheapest.

Invariants
1. Every form gives back the same event, body included to the byte. A body stands in JSON as a value only where a reader
   gets its bytes back from the text; anything else stands in `data_base64`.
2. A batch never holds what a JSON parser with common limits refuses, because one such event would hide the others.
3. An event that is too large for a batch stands in a record of its own, in the binary form.
4. SEPARATOR stands between the events of a batch and in front of a body, and nowhere else. Spark's parser keeps neither
   the blanks nor the numbers of a value as they are written, so its reader finds the bytes of a body by it.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

from gateway.core.content import JSON_DECODER, media_type
from gateway.core.event import Event
from gateway.core.reasons import Reason, Rejected
from gateway.records import cloud_event
from gateway.records.cloud_event import Header, rfc3339_bytes

CONTENT_TYPE = "content-type"
STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
SEPARATOR = ",\n\n"
_SEPARATOR = SEPARATOR.encode()
_BATCH_HEADERS: tuple[Header, ...] = ((CONTENT_TYPE, BATCH.encode()),)
RECORD_BYTES, HEADER_BYTES = 128, 10
"""Kafka's format adds so much to a batch of one record (61 + 21 bytes and lengths) and to a header (two lengths)."""


MOST_TEMPLATES = 8_192
"""Kept, at 2 KB each."""


class EventTemplate(NamedTuple):
    """The part that all events of one sender, subject and content type share. It is made once, and used for each.

    headers: of the binary form. text: the members of the JSON form, from the end of the id to the beginning of the
    time. data: how a body of this content type stands in JSON.
    """

    key: bytes
    headers: tuple[Header, ...]
    text: bytes
    data: DataForm

    def of_checked_bodies(self) -> EventTemplate:
        """Returns the template for events whose bodies have been found to be what their content type says."""
        return self._replace(data=DataForm.CHECKED) if self.data is DataForm.VALUE else self


class DataForm(StrEnum):
    """The form of an event's data. `CHECKED` is a value that has been found to be JSON already."""

    VALUE = "value"
    CHECKED = "checked"
    TEXT = "text"
    BASE64 = "base64"


class EventRow(NamedTuple):
    """One event to write. Times are microseconds; an empty message id is left out."""

    template: EventTemplate
    id: bytes
    received_at: int
    message_id: bytes
    sent_at: int | None
    body: bytes


Row = tuple[Any, ...]
"""An EventRow, or a plain tuple of the same: that is what `zip` makes of columns."""


class EventRecord(NamedTuple):
    """A Kafka record. Headers that events have in common are the same objects in each of them."""

    key: bytes
    value: bytes
    headers: tuple[Header, ...]


def record_bytes(key: bytes, value: bytes, headers: Iterable[Header]) -> int:
    """Returns the most that a producer counts for a record before compression."""
    return (
        RECORD_BYTES
        + len(key)
        + len(value)
        + sum(len(name) + len(header_value) + HEADER_BYTES for name, header_value in headers)
    )


# -- writing -----------------------------------------------------------------------------------------------------


class EventWriter:
    """Makes records of events.

    mesh: stands in each event's source. most_bytes: no batch is larger (`kafka.message_bytes`). batches: the events of
    a raw record stand together in batches; else each has a record in the binary form.
    """

    def __init__(self, mesh: str, most_bytes: int, *, batches: bool) -> None:
        self._mesh = mesh
        self._is_batch = batches
        self._templates: dict[tuple[object, ...], EventTemplate] = {}
        self._most_bytes = most_bytes - RECORD_BYTES - len(CONTENT_TYPE) - len(BATCH) - HEADER_BYTES

    def template(self, event: Event) -> EventTemplate:
        """Returns what `event` shares with others; its id, times, message id and body have no part in it."""
        if event.correlation or event.headers:
            return self._make_template(event)
        template_key = (
            event.kind, event.subject, event.protocol, event.listener, event.edge, event.session, event.peer,
            event.node, event.content_type, event.urgent, event.auth, event.key_id,
        )  # fmt: skip
        template = self._templates.get(template_key)
        if template is None:
            if len(self._templates) >= MOST_TEMPLATES:
                self._templates.clear()
            template = self._templates[template_key] = self._make_template(event)
        return template

    def _make_template(self, event: Event) -> EventTemplate:
        shared = cloud_event.shared_attributes(event, self._mesh)
        key = (event.node or event.session or event.peer).encode()
        headers = tuple([(name, value.encode()) for name, value in shared])
        text = "".join([f',"{_json_name(name)}":{_quoted(value)}' for name, value in shared]) if self._is_batch else ""
        return EventTemplate(key, headers, text.encode(), _data_form(event.content_type))

    def row(self, event: Event) -> EventRow:
        """Returns the row of a single event."""
        message_id = event.message_id.encode()
        return EventRow(
            self.template(event), event.id.encode(), event.received_at, message_id, event.sent_at, event.body
        )

    def records(self, rows: Iterable[Row], partition: int) -> Iterator[EventRecord]:
        """Returns the records of the events of one raw record, in order.

        partition: the raw partition. It is the key of a batch, so that what is in order there stays in order.
        """
        return self._batches(rows, partition) if self._is_batch else map(_binary, rows)

    def _batches(self, rows: Iterable[Row], partition: int) -> Iterator[EventRecord]:
        key = b"%d" % partition
        texts: list[bytes] = []
        size = 2
        for row in rows:
            text = _text(*row)
            if size + len(_SEPARATOR) + len(text) > self._most_bytes:
                if texts:
                    yield _batch(key, texts)
                texts, size = [], 2
                if len(text) + 2 > self._most_bytes:
                    yield _binary(row)
                    continue
            texts.append(text)
            size += len(_SEPARATOR) + len(text)
        if texts:
            yield _batch(key, texts)


def _batch(key: bytes, texts: list[bytes]) -> EventRecord:
    return EventRecord(key, b"[" + _SEPARATOR.join(texts) + b"]", _BATCH_HEADERS)


def _binary(row: Row) -> EventRecord:
    template, event_id, received_at, message_id, sent_at, body = row
    own: tuple[Header, ...] = ("ce_id", event_id), _time_header("ce_time", received_at)
    if message_id:
        own += (("ce_meshmessageid", message_id),)
    if sent_at is not None:
        own += (_time_header("ce_meshsentat", sent_at),)
    return EventRecord(template.key, body, template.headers + own)


@lru_cache(maxsize=1_024)
def _time_header(name: str, at_us: int) -> Header:
    """Many frames have their times in common, so many records share the object."""
    return name, rfc3339_bytes(at_us)


def _text(
    template: EventTemplate, event_id: bytes, received_at: int, message_id: bytes, sent_at: int | None, body: bytes
) -> bytes:
    """Returns the event as a JSON object. The body stands last."""
    message = b""
    if message_id:
        message = b',"meshmessageid":' + (b'"%b"' % message_id if message_id.isalnum() else _quoted_bytes(message_id))
    sent = b"" if sent_at is None else b',"meshsentat":"%b"' % rfc3339_bytes(sent_at)
    return b'{"id":"%b"%b,"time":"%b"%b%b%b}' % (
        event_id,
        template.text,
        rfc3339_bytes(received_at),
        message,
        sent,
        _data(template.data, body),
    )


def _data(form: DataForm, body: bytes) -> bytes:
    if not body:
        return b""
    is_value = form is DataForm.VALUE or form is DataForm.CHECKED
    if is_value and (_stands_bare(body) if form is DataForm.CHECKED and len(body) < _DEEPEST else is_plain_json(body)):
        return _SEPARATOR + b'"data":' + body
    if form is DataForm.TEXT and (quoted := _quoted_text(body)) is not None:
        return b',"data":' + quoted
    return b',"data_base64":"' + base64.b64encode(body) + b'"'


def _data_form(content_type: str) -> DataForm:
    """No content type says nothing about the body, although CloudEvents takes it for JSON: then bytes are bytes."""
    media = media_type(content_type)
    if media.startswith("text/"):
        return DataForm.TEXT
    return DataForm.VALUE if media.endswith(("/json", "+json")) else DataForm.BASE64


_FIRST = re.compile(rb"[\[{0-9tf-]")
_LONG = re.compile(rb'(?<![0-9.eE+-])[0-9.eE+-]{500}|(?<![^"])[^"]{20000}')
"""Jackson refuses numbers of 1,000 characters and names of 50,000. It is looked for from the beginning of a run alone:
from each of its characters, a body of the right shape would take ten seconds."""
_DEEPEST = 200
"""Jackson refuses what is nested 1,000 deep, and Python 1,000 deep too."""
_BLANK = (0x20, 0x09, 0x0A, 0x0D)


def is_plain_json(body: bytes) -> bool:
    """True where `body`, put into a larger JSON text, is read back by any parser, and to the byte.

    A JSON string or null is left out: a reader of columns gets its value and not its text. So are blanks around it, and
    what holds SEPARATOR.
    """
    if not _stands_bare(body) or body.count(b"[") + body.count(b"{") > _DEEPEST or _LONG.search(body) is not None:
        return False
    try:
        JSON_DECODER.decode(body.decode())
    except (ValueError, RecursionError):
        return False
    return True


def _stands_bare(body: bytes) -> bool:
    return _FIRST.match(body) is not None and body[-1] not in _BLANK and _SEPARATOR not in body


_quoted = json.encoder.encode_basestring_ascii


def _quoted_bytes(text: bytes) -> bytes:
    return _quoted(text.decode()).encode()


def _quoted_text(body: bytes) -> bytes | None:
    try:
        return _quoted_bytes(body)
    except UnicodeDecodeError:
        return None


def _json_name(header: str) -> str:
    return "datacontenttype" if header == CONTENT_TYPE else header.removeprefix("ce_")


# -- reading -----------------------------------------------------------------------------------------------------


def read(headers: Iterable[Header], value: bytes) -> list[Event]:
    """Returns the events of a record, whatever its form.

    Raises Rejected where the value is no JSON, and KeyError or ValueError where an event lacks what each must have.
    """
    attributes = {name: header_value.decode() for name, header_value in headers}
    if (form := _json_form(attributes)) is None:
        return [cloud_event.from_attributes(attributes, value)]
    return [_from_members(members) for members in _members(value, form)]


def ids(headers: Iterable[Header], value: bytes) -> list[str]:
    """Returns the ids of the events of a record, in its order. Raises as `read` does."""
    attributes = {name: header_value.decode() for name, header_value in headers if name in ("ce_id", CONTENT_TYPE)}
    if (form := _json_form(attributes)) is None:
        return [attributes["ce_id"]]
    return [_attribute(members["id"]) for members in _members(value, form)]


def _json_form(attributes: Mapping[str, str]) -> str | None:
    """Returns the form of a JSON body. In the binary form the content type is the body's own, whatever that says."""
    form = "" if "ce_id" in attributes else media_type(attributes.get(CONTENT_TYPE, ""))
    return form if form in (STRUCTURED, BATCH) else None


def _members(value: bytes, form: str) -> list[dict[str, Member]]:
    try:
        text = value.decode()
        members = _objects(text) if form == BATCH else [_object(text, _blank(text, 0))[0]]
    except (ValueError, RecursionError) as error:
        raise Rejected(Reason.BAD_ENCODING, f"no {form}: {type(error).__name__}") from None
    return members


class Member(NamedTuple):
    """The value of a member of a JSON object, and its text."""

    value: object
    text: str


def _objects(text: str) -> list[dict[str, Member]]:
    at = _blank(text, 0)
    if text[at : at + 1] != "[":
        raise ValueError("no array")
    objects: list[dict[str, Member]] = []
    at = _blank(text, at + 1)
    while text[at : at + 1] != "]":
        if objects:
            at = _blank(text, _expect(text, at, ","))
        members, at = _object(text, at)
        objects.append(members)
        at = _blank(text, at)
    return objects


def _object(text: str, at: int) -> tuple[dict[str, Member], int]:
    """Returns the members of the object that begins at `at`, with their text, and where it ends."""
    members: dict[str, Member] = {}
    at = _blank(text, _expect(text, at, "{"))
    while text[at : at + 1] != "}":
        if members:
            at = _blank(text, _expect(text, at, ","))
        name, at = JSON_DECODER.raw_decode(text, at)
        start = _blank(text, _expect(text, _blank(text, at), ":"))
        value, at = JSON_DECODER.raw_decode(text, start)
        members[str(name)] = Member(value, text[start:at])
        at = _blank(text, at)
    return members, at + 1


_blanks = re.compile(r"[ \t\n\r]*")


def _blank(text: str, at: int) -> int:
    match = _blanks.match(text, at)
    return at if match is None else match.end()


def _expect(text: str, at: int, character: str) -> int:
    if text[at : at + 1] != character:
        raise ValueError(f"no {character}")
    return at + 1


def _from_members(members: Mapping[str, Member]) -> Event:
    attributes = {
        CONTENT_TYPE if name == "datacontenttype" else f"ce_{name}": _attribute(member)
        for name, member in members.items()
    }
    return cloud_event.from_attributes(attributes, _body(members))


def _attribute(member: Member) -> str:
    return member.value if isinstance(member.value, str) else member.text


def _body(members: Mapping[str, Member]) -> bytes:
    if (encoded := members.get("data_base64")) is not None:
        return base64.b64decode(_attribute(encoded), validate=True)
    data = members.get("data")
    return b"" if data is None else _attribute(data).encode()
