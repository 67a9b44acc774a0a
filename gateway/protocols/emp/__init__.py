"""emp: a stream of messages with extension blocks, after a hello from both sides."""

from gateway.protocols.emp.mapping import dedup_key, from_event, to_event
from gateway.protocols.emp.options import EmpOptions
from gateway.protocols.emp.session import EmpSession
from gateway.protocols.spec import ProtocolSpec, Target

PROTOCOL = ProtocolSpec(
    name="emp",
    examples={
        "emp, envelope": Target("emp", "", {"envelope": True}, "7"),
        "emp, bare": Target("emp", "", request="7"),
    },
    default_port=5040,
    transports=frozenset({"tcp", "tls"}),
    carries_content_type=True,
    options=EmpOptions,
    to_event=to_event,
    from_event=from_event,
    dedup_key=dedup_key,
    session=EmpSession,
)
