"""The mesh's messages on XMPP, for both ends: one message of a protocol is one body.

slixmpp logs what it cannot read, which is a peer's; importing this silences that.
"""

from __future__ import annotations

import logging
from xml.etree import ElementTree as ET

from slixmpp import Message
from slixmpp.xmlstream import StanzaBase, XMLStream, tostring

HINTS = "urn:xmpp:hints"
NOT_KEPT = ("no-store", "no-copy")
"""XEP-0334: a message of the mesh is for who is there now. Kept for later, or copied, it would be a repeat."""

WRITTEN_TO_ONE = frozenset({"normal", "chat"})
"""Types of message that somebody writes to us; the others come from rooms, from news, and from servers."""

PING = "{urn:xmpp:ping}ping"

_xml_log = logging.getLogger("slixmpp.xmlstream.xmlstream")
_xml_log.addFilter(lambda record: record.levelno < logging.WARNING or "%r" not in str(record.msg))


def for_now(message: Message) -> Message:
    """Returns the message marked as not to be kept."""
    for hint in NOT_KEPT:
        ET.SubElement(message.xml, f"{{{HINTS}}}{hint}")
    return message


def body_of(message: Message) -> str:
    """Returns the message's body; empty if there is nothing in it for us."""
    return str(message["body"]) if message["type"] in WRITTEN_TO_ONE else ""


def is_ping(stanza: StanzaBase) -> bool:
    """Returns True if the stanza asks whether we are there (XEP-0199)."""
    return stanza.name == "iq" and stanza["type"] == "get" and stanza.xml.find(PING) is not None


def write_stanza(stream: XMLStream, stanza: StanzaBase) -> None:
    """Writes a stanza at once: slixmpp's own queue knows no limit."""
    stream.send_raw(tostring(stanza.xml, xmlns=stream.default_ns, stream=stream, top_level=True))


def let_go(stream: XMLStream) -> None:
    """Cancels the tasks that slixmpp keeps for a stream."""
    stream.cancel_connection_attempt()
    if stream._run_out_filters is not None:  # noqa: SLF001 - there is no other way
        stream._run_out_filters.cancel()  # noqa: SLF001
