"""Presence as a lease: a hello asks, a heartbeat prolongs, the mesh's own hello grants."""

from __future__ import annotations

from gateway.core.event import Event
from gateway.protocols.emm.frames import HEARTBEAT_SUBJECT, HELLO_SUBJECT
from gateway.protocols.emm.options import EmmOptions
from gateway.protocols.emm.presence import capabilities, hello_reply
from gateway.protocols.spec import CodecContext, Lease


def asked_lease(event: Event, options: EmmOptions, /) -> Lease | None:
    if event.subject == HEARTBEAT_SUBJECT:
        return Lease(options.lease_seconds, renews=True)
    if event.subject != HELLO_SUBJECT:
        return None
    offered = capabilities(event.body)
    if offered is None:  # a blob of the node's own is no list that could replace its last one
        return Lease(options.lease_seconds, keeps=True)
    return Lease(options.lease_seconds, offered.subscribe, offered.serve)


def grant_lease(event: Event, lease: Lease, env: CodecContext, /) -> bytes:
    return hello_reply(event, lease.seconds, lease.subscribe, env)
