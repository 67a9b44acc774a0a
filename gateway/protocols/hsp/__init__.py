"""hsp: a stream of typed messages, each of which may ask to be acknowledged."""

from gateway.protocols.hsp.mapping import HSP_TYPE_HEADER, awaits_confirmation, dedup_key, from_event, to_event
from gateway.protocols.hsp.options import HspOptions
from gateway.protocols.hsp.session import HspSession
from gateway.protocols.spec import ProtocolSpec, Target

PROTOCOL = ProtocolSpec(
    name="hsp",
    examples={
        "hsp, envelope": Target("hsp", "", {"envelope": True}, "e7"),
        "hsp, bare": Target("hsp", "", request="7"),
    },
    default_port=5041,
    transports=frozenset({"tcp", "tls"}),
    carries_content_type=True,
    error_header=HSP_TYPE_HEADER,
    options=HspOptions,
    to_event=to_event,
    from_event=from_event,
    dedup_key=dedup_key,
    awaits_confirmation=awaits_confirmation,
    session=HspSession,
)
