"""The codec of `egress` records: everything that one raw record means to one edge, in columns.

    b"MGE" | u8 version | u32 n | u32 head length | head
    | u16 index[n] | u32 part[n] | u16 route[n] | u32 length[n] | i64 received[n] | n values, side by side
                                                                                              (little-endian)

The head is msgpack: `[partition, offset, routes]`. Row by row, in the order of their positions, stand the entries that
the raw record made for this edge. Index and part complete an entry's position. Most entries are plain deliveries of one
frame; what such deliveries share (subject, origin, receivers) stands once in the head, as a *route*, and the row has
its number and the frame. Any other entry has the route number OWN_ENTRY, and its value is the entry in msgpack.

A raw record gives one Kafka record for each edge, or several where one would be larger than `kafka.message_bytes`. All
of them name the same raw record. A position may therefore fall inside a record: `EgressRecord.after` cuts there.

Version 1 held a single entry, as one msgpack array. It is still read, so that a router can be upgraded under load.
"""

from __future__ import annotations

from gateway.records.egress_codec.layout import HEAD_BYTES, OWN_ENTRY, ROW_BYTES, Route
from gateway.records.egress_codec.reading import EgressRecord, decode, is_newer, record_of
from gateway.records.egress_codec.writing import EgressBuilder, encode

__all__ = [
    "HEAD_BYTES",
    "OWN_ENTRY",
    "ROW_BYTES",
    "EgressBuilder",
    "EgressRecord",
    "Route",
    "decode",
    "encode",
    "is_newer",
    "record_of",
]
