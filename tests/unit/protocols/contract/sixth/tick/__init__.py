"""tick: the sixth protocol, added by this folder alone."""

from gateway.protocols.spec import ProtocolSpec

from .mapping import TickOptions, dedup_key, from_event, to_event
from .session import TickSession

PROTOCOL = ProtocolSpec(
    name="tick",
    default_port=5999,
    transports=frozenset({"tcp"}),
    options=TickOptions,
    to_event=to_event,
    from_event=from_event,
    dedup_key=dedup_key,
    session=TickSession,
)
