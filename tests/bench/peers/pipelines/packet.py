"""An EMM packet as its specification has it, in forty lines: whose it is, and whether its HMAC holds."""

from __future__ import annotations

import time
from collections.abc import Mapping
from hmac import compare_digest

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC

HEADER_BYTES, VERSION = 17, 1
HMAC_FIELD, SIGNATURE_FIELD, NODE_FIELD, KEY_ID_FIELD = 0x10, 0x12, 0x14, 0x18
NODE_BYTES = 16


def node_of(packet: bytes) -> bytes:
    """The node that a packet claims to come from; nothing where it names none."""
    at = HEADER_BYTES
    while at + 2 <= len(packet):
        end = at + 2 + packet[at + 1]
        if packet[at] == NODE_FIELD:
            return packet[at + 2 : end]
        at = end
    return b""


class Verifier:
    """`keys`: secrets by node and key id. Each is prepared once, and copied for each packet."""

    def __init__(self, keys: Mapping[str, str], window_seconds: int) -> None:
        self._prepared = {bytes.fromhex(name): HMAC(bytes.fromhex(key), SHA256()) for name, key in keys.items()}
        self._window_seconds = window_seconds

    def identity(self, packet: bytes) -> bytes | None:
        """Node and message id of a packet that is whole, fresh, and signed by that node; None for any other."""
        size = len(packet)
        if size < HEADER_BYTES or packet[0] != VERSION or int.from_bytes(packet[15:17]) != size - HEADER_BYTES:
            return None
        if abs(time.time() - int.from_bytes(packet[7:15])) > self._window_seconds:
            return None
        signed, node, key_id, tag = [], b"", b"", b""
        at = HEADER_BYTES
        while at < size:
            kind, end = packet[at], at + 2 + packet[at + 1]
            if end > size:
                return None
            if kind == HMAC_FIELD:
                tag = packet[at + 2 : end]
            elif kind != SIGNATURE_FIELD:
                signed.append((kind, packet[at:end]))
                if kind == NODE_FIELD:
                    node = packet[at + 2 : end]
                elif kind == KEY_ID_FIELD:
                    key_id = packet[at + 2 : end]
            at = end
        prepared = self._prepared.get(node + key_id)
        if prepared is None:
            return None
        signed.sort(key=lambda field: field[0])
        made = prepared.copy()
        made.update(packet[:HEADER_BYTES] + b"".join([field for _, field in signed]))
        return node + packet[1:5] if compare_digest(made.finalize(), tag) else None


class Seen:
    """Identities of the last window at least, and of two at most: two dicts, the older of which is thrown away."""

    def __init__(self, window_seconds: int) -> None:
        self._window_seconds = window_seconds
        self._turns_at = time.monotonic() + window_seconds
        self._now: dict[bytes, None] = {}
        self._before: dict[bytes, None] = {}

    def is_first(self, identity: bytes) -> bool:
        if identity in self._now or identity in self._before:
            return False
        if time.monotonic() >= self._turns_at:
            self._turns_at += self._window_seconds
            self._before, self._now = self._now, {}
        self._now[identity] = None
        return True
