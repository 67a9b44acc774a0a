"""The way of an event from mesh to mesh: where it began and how many links it has crossed, so that a ring of linked
meshes does not send it round for ever.

It travels on links only, with events and requests (an answer goes back to who asked, and a cancel to where its request
went: neither can go round), in what each protocol has room for: parameters of the content type in the envelope (emp,
hsp), the uid that we choose (yamp). In the event it stands in two headers. wolpertinger has room for neither.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from hashlib import blake2b

from gateway.auth.keyring import GatewayIdentity
from gateway.core.content import BINARY
from gateway.core.event import Event, Kind
from gateway.core.trace_context import TRACEPARENT
from gateway.records.raw_log.frames import LINK_FACT, Facts

MAX_HOPS = 8
"""More links in a row than any sensible set of meshes has; a ring of strangers ends here."""
ORIGIN_HEADER, HOPS_HEADER = "mesh-origin", "mesh-hops"
UNTYPED = f"{BINARY}; mesh-type=none"
"""Goes over a link for an event without a type: parameters alone are no media type."""

_ORIGIN, _HOPS = re.compile(r"[0-9a-f]{6}"), re.compile(r"[0-9]{1,2}")
"""Anybody may write a content type: what is no trail of ours could not be passed on as one."""
_GO_ROUND = (Kind.EVENT, Kind.REQUEST)
_ORIGIN_BYTES = 3
_SEAL_BYTES, _NAME_BYTES = 4, 8
UID_BYTES = _SEAL_BYTES + 1 + _ORIGIN_BYTES + _NAME_BYTES


@dataclass(frozen=True, slots=True)
class LinkTrail:
    """The way of an event over links.

    `origin` is the mesh where it began, as hex. `hops` counts the links crossed. `traceparent` is that of a traced
    event.
    """

    origin: str
    hops: int
    traceparent: str = ""

    def headers(self) -> dict[str, str]:
        traced = {TRACEPARENT: self.traceparent} if self.traceparent else {}
        return {ORIGIN_HEADER: self.origin, HOPS_HEADER: str(self.hops), **traced}

    # -- in a content type -----------------------------------------------------------------------------------

    def on_content_type(self, content_type: str) -> str:
        """Returns the content type with the trail as its parameters.

        >>> LinkTrail("0a0b0c", 2).on_content_type("text/plain")
        'text/plain; mesh-origin=0a0b0c; mesh-hops=2'
        >>> LinkTrail("0a0b0c", 2).on_content_type("")
        'application/octet-stream; mesh-type=none; mesh-origin=0a0b0c; mesh-hops=2'
        """
        return "; ".join((content_type or UNTYPED, *(f"{name}={value}" for name, value in self.headers().items())))

    # -- in a uid ----------------------------------------------------------------------------------------------

    def to_uid(self, name: bytes) -> bytes:
        """Returns the trail as a uid. `name` tells one frame from another."""
        payload = bytes((self.hops,)) + bytes.fromhex(self.origin) + blake2b(name, digest_size=_NAME_BYTES).digest()
        return _seal(payload) + payload


def of_mesh(identity: GatewayIdentity) -> str:
    """Returns the origin of what begins in our own mesh: by node, because names of meshes are often the same."""
    return blake2b(identity.node, digest_size=_ORIGIN_BYTES).hexdigest()


def next_hop(event: Event, facts: Facts, identity: GatewayIdentity | None) -> LinkTrail | None:
    """Returns the trail to send along with an event; None if it does not go over a link, or cannot go round."""
    if not facts.get(LINK_FACT) or identity is None or event.kind not in _GO_ROUND:
        return None
    trail, traceparent = of_event(event), event.headers.get(TRACEPARENT, "")
    return (
        LinkTrail(trail.origin, trail.hops + 1, traceparent) if trail else LinkTrail(of_mesh(identity), 1, traceparent)
    )


def with_trail(event: Event, trail: LinkTrail, *, in_content_type: bool) -> Event:
    """Returns the event as it goes over a link."""
    content_type = trail.on_content_type(event.content_type) if in_content_type else event.content_type
    return replace(event, headers={**event.headers, **trail.headers()}, content_type=content_type)


def found_in(event: Event) -> Event:
    """Returns the event with the trail that its content type brought."""
    content_type, trail = off_content_type(event.content_type)
    if trail is None:
        return event
    return replace(event, headers={**event.headers, **trail.headers()}, content_type=content_type)


def is_loop(event: Event, identity: GatewayIdentity | None) -> bool:
    """Returns True if the event began here, or has crossed too many links."""
    trail = of_event(event)
    if trail is None:
        return False
    return trail.hops >= MAX_HOPS or (identity is not None and trail.origin == of_mesh(identity))


def of_event(event: Event) -> LinkTrail | None:
    if not event.headers:
        return None
    origin, hops = event.headers.get(ORIGIN_HEADER), event.headers.get(HOPS_HEADER, "")
    return LinkTrail(origin, int(hops)) if origin and hops else None


def off_content_type(content_type: str) -> tuple[str, LinkTrail | None]:
    """Returns the content type without the trail, and the trail.

    >>> off_content_type("text/plain; mesh-origin=0a0b0c; mesh-hops=2")
    ('text/plain', LinkTrail(origin='0a0b0c', hops=2, traceparent=''))
    >>> off_content_type("application/octet-stream; mesh-type=none; mesh-origin=0a0b0c; mesh-hops=2")[0]
    ''
    """
    if HOPS_HEADER not in content_type:
        return content_type, None
    parts, parameters = [], dict[str, str]()
    for part in content_type.split(";"):
        name, _, value = part.strip().partition("=")
        if name in (ORIGIN_HEADER, HOPS_HEADER, TRACEPARENT):
            parameters[name] = value
        else:
            parts.append(part)
    origin, hops = parameters.get(ORIGIN_HEADER, ""), parameters.get(HOPS_HEADER, "")
    if _ORIGIN.fullmatch(origin) is None or _HOPS.fullmatch(hops) is None:
        return content_type, None
    sent = ";".join(parts)
    return "" if sent == UNTYPED else sent, LinkTrail(origin, int(hops), parameters.get(TRACEPARENT, ""))


def from_uid(uid: bytes) -> LinkTrail | None:
    """Returns the trail in a uid; None if no mesh made it. One in four billion others is mistaken for a trail."""
    payload = uid[_SEAL_BYTES:]
    if len(uid) != UID_BYTES or uid[:_SEAL_BYTES] != _seal(payload):
        return None
    return LinkTrail(payload[1 : 1 + _ORIGIN_BYTES].hex(), payload[0])


def _seal(payload: bytes) -> bytes:
    return blake2b(payload, digest_size=_SEAL_BYTES, person=b"meshgate-trail").digest()
