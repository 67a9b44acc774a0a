"""The Event Mesh Protocol over datagrams: signed packets of at most 548 bytes."""

from __future__ import annotations

from gateway.protocols.emm.batch import to_events
from gateway.protocols.emm.columns import CommonPackets
from gateway.protocols.emm.lease import asked_lease, grant_lease
from gateway.protocols.emm.mapping import claimed_node, dedup_key, from_event, partition_key, to_event
from gateway.protocols.emm.options import EmmOptions
from gateway.protocols.spec import ProtocolSpec

PROTOCOL = ProtocolSpec(
    name="emm",
    default_port=5050,
    transports=frozenset({"udp", "quic"}),
    options=EmmOptions,
    to_event=to_event,
    to_events=to_events,
    reads_common=CommonPackets,
    from_event=from_event,
    dedup_key=dedup_key,
    message_id_bits=32,
    asked_lease=asked_lease,
    grant_lease=grant_lease,
    partition_key=partition_key,
    claimed_node=claimed_node,
)
