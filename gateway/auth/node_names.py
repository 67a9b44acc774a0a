"""The names of nodes: each kind of proof has a prefix of its own, so that nobody can be taken for somebody else."""

from __future__ import annotations

import re
from uuid import UUID

from gateway.core.ids import ANONYMOUS

CERTIFICATE = "san:"
"""Stands before a certificate's name that looks like another kind of name; other names of certificates stand as is."""
COMMON_NAME, TOKEN = "cn:", "token:"
MAX_NODE_BYTES = 255
"""Beside its prefix. The router keeps what it knows by nodes, tens of thousands of them."""
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_PREFIXES = (CERTIFICATE, COMMON_NAME, TOKEN, ANONYMOUS, "cluster:", "link:", "user:", "xmpp:")


def is_name(name: str) -> bool:
    """True for a name that a node may have: not empty, not too long, and without control characters."""
    return bool(name) and not _UNPRINTABLE.search(name) and len(name.encode()) <= MAX_NODE_BYTES


def node_of_alternative_name(name: str) -> str:
    """Returns the node that a certificate's alternative name stands for.

    An authority may let the holders of its certificates choose names. A chosen name must not make its holder a node of
    another proof, an unproven session, or the owner of a packet key.

    >>> node_of_alternative_name("spiffe://plant/7"), node_of_alternative_name("user:alice")
    ('spiffe://plant/7', 'san:user:alice')
    """
    lowered = name.lower()
    is_reserved = lowered.startswith(_PREFIXES) or _is_node_id(lowered)
    return f"{CERTIFICATE}{name}" if is_reserved else name


def _is_node_id(name: str) -> bool:
    try:
        UUID(name)
    except ValueError:
        return False
    return not name.startswith("urn:uuid:")  # a usual name in certificates, which is no node id as the mesh writes it
