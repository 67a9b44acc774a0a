"""yamp: events, requests, progress and cancels in nine frames, over a stream or a WebSocket."""

from gateway.protocols.spec import ProtocolSpec, Target
from gateway.protocols.yamp.mapping import PROTOCOL_NAME, dedup_key, from_event, to_event
from gateway.protocols.yamp.options import YampOptions
from gateway.protocols.yamp.session import YampSession

PROTOCOL = ProtocolSpec(
    name=PROTOCOL_NAME,
    examples={"yamp": Target(PROTOCOL_NAME, "", {"format": "json"}, "07" * 16)},
    default_port=5042,
    transports=frozenset({"tcp", "tls", "ws", "wss"}),
    options=YampOptions,
    to_event=to_event,
    from_event=from_event,
    dedup_key=dedup_key,
    session=YampSession,
)
