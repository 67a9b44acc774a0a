"""Packets without a session: UDP and QUIC datagrams, in and out."""
