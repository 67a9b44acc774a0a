"""Turns what a session or node asks for into the interests it gets, judged by permissions and limits."""

from __future__ import annotations

from gateway.config.settings import Limits
from gateway.core.reasons import Reason, Rejected
from gateway.core.subjects import dotted
from gateway.interests.interest import Interest, Verb
from gateway.records.egress import Position
from gateway.records.raw_log.frames import REDELIVER_FACT, FrameSource
from streaming_jobs.routing.mesh_state import MeshState


def session_interest(source: FrameSource, at: Position, verb: Verb, pattern: str, queue: str = "") -> Interest:
    """Returns an interest of the session a frame came from.

    Its pattern is spelled with dots, so that `a/b` is `a.b` when it is taken back too.
    """
    return Interest(
        subscriber=subscriber(source, verb),
        verb=verb,
        pattern=dotted(pattern),
        group=queue,
        edge=source.edge,
        epoch=source.epoch,
        session=source.session,
        protocol=source.protocol,
        listener=source.listener,
        facts=source.facts,
        node=source.node,
        durable=is_durable(source, verb),
        position=at.frame,
    )


def subscriber(source: FrameSource, verb: Verb) -> str:
    """Returns who holds the interest: the session, or the node if the interest outlives its sessions."""
    if not source.session:  # each change is written into every partition: not for whoever can send a datagram
        raise Rejected(Reason.FORBIDDEN, "only a session or a hello can subscribe")
    return source.durable_name if is_durable(source, verb) else source.session_id


def is_durable(source: FrameSource, verb: Verb) -> bool:
    """Returns True if the interest outlives its session.

    A subscription can wait for its node; a server that is away must not be sent requests.
    """
    return verb is Verb.SUBSCRIBE and bool(source.facts.get(REDELIVER_FACT))


def check_allowed(state: MeshState, source: FrameSource, verb: Verb, pattern: str) -> None:
    permissions = state.permissions
    allowed = permissions.may_subscribe if verb is Verb.SUBSCRIBE else permissions.may_serve
    if not allowed(source.node, source.listener, pattern):
        raise Rejected(Reason.FORBIDDEN, f"this node may not {verb} that")


def limits_of(state: MeshState, listener: str) -> Limits:
    try:
        return state.config.listener_limits(listener)
    except KeyError:  # a listener that is gone from the configuration
        return state.config.limits
