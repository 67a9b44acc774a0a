"""Answers to who has no connection yet. They need no memory, so that an address that is forged costs us none.

Initial ─► version unknown: a list of ours
        ─► many are arriving: Retry, and only who gets it, at the address it claims, comes back with its token
        ─► no place: CONNECTION_REFUSED
        ─► a connection
"""

from __future__ import annotations

import os

from aioquic.quic.configuration import SMALLEST_MAX_DATAGRAM_SIZE
from aioquic.quic.connection import TRANSPORT_CLOSE_FRAME_CAPACITY
from aioquic.quic.crypto import CryptoPair
from aioquic.quic.packet import (
    QuicErrorCode,
    QuicFrameType,
    QuicHeader,
    QuicPacketType,
    encode_quic_retry,
    encode_quic_version_negotiation,
)
from aioquic.quic.packet_builder import QuicPacketBuilder
from aioquic.quic.retry import QuicRetryTokenHandler

RETRY_ID_BYTES = 8

Address = tuple[str, int]


class Retries:
    """Proves that a peer is at the address it claims (RFC 9000 section 8.1.2)."""

    def __init__(self) -> None:
        self._tokens = QuicRetryTokenHandler()

    def demand(self, header: QuicHeader, address: Address, now: float) -> bytes:
        """Returns the packet that demands a proof of the address."""
        own = os.urandom(RETRY_ID_BYTES)
        token = self._tokens.create_token(
            address=address,
            original_destination_connection_id=header.destination_cid,
            retry_source_connection_id=own,
            now=now,
        )
        return encode_quic_retry(
            version=header.version or 0,
            source_cid=own,
            destination_cid=header.source_cid,
            original_destination_cid=header.destination_cid,
            retry_token=token,
        )

    def proven(self, header: QuicHeader, address: Address, now: float) -> bytes | None:
        """Returns the connection id of the peer's first packet; None without a valid token of ours."""
        if not header.token:
            return None
        try:
            return self._tokens.validate_token(
                address=address, destination_cid=header.destination_cid, token=header.token, now=now
            )
        except ValueError:
            return None


def other_versions(header: QuicHeader, supported: list[int]) -> bytes:
    return encode_quic_version_negotiation(
        source_cid=header.destination_cid, destination_cid=header.source_cid, supported_versions=supported
    )


def refusal(header: QuicHeader) -> bytes:
    """Returns a CONNECTION_CLOSE in an Initial packet. Its keys follow from the id that the peer has chosen."""
    crypto, version = CryptoPair(), header.version or 0
    crypto.setup_initial(cid=header.destination_cid, is_client=False, version=version)
    builder = QuicPacketBuilder(
        host_cid=header.destination_cid,
        is_client=False,
        max_datagram_size=SMALLEST_MAX_DATAGRAM_SIZE,
        peer_cid=header.source_cid,
        version=version,
    )
    builder.start_packet(QuicPacketType.INITIAL, crypto)
    frame = builder.start_frame(QuicFrameType.TRANSPORT_CLOSE, capacity=TRANSPORT_CLOSE_FRAME_CAPACITY)
    frame.push_uint_var(QuicErrorCode.CONNECTION_REFUSED)
    frame.push_uint_var(QuicFrameType.PADDING)
    frame.push_uint_var(0)
    return builder.flush()[0][0]
