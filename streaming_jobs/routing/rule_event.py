"""The event that a rule has found: which rule, from which event it follows, and how many rules lie behind it."""

from __future__ import annotations

import base64
import binascii
from uuid import UUID

from gateway.auth.keyring import GatewayIdentity
from gateway.core.event import Event, Kind
from gateway.core.reasons import Reason, Rejected
from gateway.core.subjects import check_subject, is_control
from gateway.records.raw_log.control_frames import MESH, RuleEvent
from streaming_jobs.routing.frame_context import FrameContext

RULE_HEADER, ORIGIN_HEADER, HOPS_HEADER = "rule", "origin", "hops"
MAX_HOPS = 16
"""Rules that would feed themselves are refused when they are loaded, so no honest set comes near it; this ends what a
peer that publishes our own findings again would keep going."""
BASE64 = "base64"


def rule_event(output: RuleEvent, work: FrameContext, identity: GatewayIdentity | None) -> Event:
    """Raises Rejected for what no rule may say."""
    if not output.subject:
        raise Rejected(Reason.MISSING_FIELD, "a rule's event needs a subject")
    check_subject(output.subject)
    if is_control(output.subject):
        raise Rejected(Reason.FORBIDDEN, "a rule may not publish under `mesh.`")
    if not 1 <= output.hops <= MAX_HOPS:
        raise Rejected(Reason.FORBIDDEN, f"rule {output.rule}: more than {MAX_HOPS} rules in a row")
    headers = {RULE_HEADER: output.rule, ORIGIN_HEADER: output.origin, HOPS_HEADER: str(output.hops)}
    return Event(
        id=work.event_id,
        kind=Kind.EVENT,
        subject=output.subject,
        protocol=MESH,
        node=str(UUID(bytes=identity.node)) if identity else "",
        received_at=work.raw.received_at,
        content_type=output.content_type,
        body=_body(output),
        headers={name: value for name, value in headers.items() if value},
    )


def _body(output: RuleEvent) -> bytes:
    if output.encoding != BASE64:
        return output.body.encode()
    try:
        return base64.b64decode(output.body, validate=True)
    except binascii.Error:
        raise Rejected(Reason.BAD_ENCODING, "a rule's body is not base64") from None
