"""wolpertinger: remote method calls as XML, over a layer that confirms, splits, compresses and encrypts."""

from gateway.protocols.spec import ProtocolSpec, Target
from gateway.protocols.wolpertinger.mapping import dedup_key, from_event, to_event
from gateway.protocols.wolpertinger.options import WolpertingerOptions
from gateway.protocols.wolpertinger.session import WolpertingerSession

PROTOCOL = ProtocolSpec(
    name="wolpertinger",
    examples={"wolpertinger": Target("wolpertinger", "", request="f5afec97-5839-4666-b8d3-8c108b241720")},
    default_port=5044,
    transports=frozenset({"tcp", "tls", "ws", "wss", "xmpp"}),
    options=WolpertingerOptions,
    to_event=to_event,
    from_event=from_event,
    dedup_key=dedup_key,
    session=WolpertingerSession,
    text_messages=True,
    calls_may_be_events=True,
)
