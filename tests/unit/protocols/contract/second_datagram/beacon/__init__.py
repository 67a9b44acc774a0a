"""beacon: a second protocol of datagrams, added by this folder alone."""

from gateway.protocols.spec import ProtocolSpec

from .mapping import (
    BeaconOptions,
    asked_lease,
    claimed_node,
    dedup_key,
    from_event,
    grant_lease,
    partition_key,
    to_event,
)

PROTOCOL = ProtocolSpec(
    name="beacon",
    default_port=5998,
    transports=frozenset({"udp", "quic"}),
    options=BeaconOptions,
    to_event=to_event,
    from_event=from_event,
    dedup_key=dedup_key,
    asked_lease=asked_lease,
    grant_lease=grant_lease,
    partition_key=partition_key,
    claimed_node=claimed_node,
)
