"""XML from a peer: parsed without DTD, entities or network, and written with nothing but what must be escaped.

A DOCTYPE is refused before the parser sees it, so there is no entity it could expand and no file it could fetch; the
parser's own switches stand behind that. Without `huge_tree` libxml2 goes 256 elements deep and no deeper. Size is
bounded by the layer below: a tree takes about 40 times its bytes in the worst case, and lives for one message.
"""

from __future__ import annotations

import re

from lxml import etree

from gateway.core.reasons import Reason, Rejected

_PARSER = etree.XMLParser(
    # Layer 1 carries UTF-8, whatever the declaration says: no second encoding can hide a DOCTYPE from us.
    encoding="utf-8",
    resolve_entities=False,
    load_dtd=False,
    dtd_validation=False,
    no_network=True,
    huge_tree=False,
    remove_comments=True,
    remove_pis=True,
)
_BOM = b"\xef\xbb\xbf"
_SPACE = re.compile(rb"[ \t\r\n]*")
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})


def parse(data: bytes) -> etree._Element:
    """Returns the root element. Raises ValueError for what is no XML, or has a DOCTYPE."""
    if b"<!DOCTYPE" in data and _has_doctype(data):
        raise ValueError("a DOCTYPE")
    try:
        return etree.fromstring(data, _PARSER)
    except etree.XMLSyntaxError:
        # Its text quotes what was received, which no message of ours may.
        raise ValueError("not well-formed") from None


def _has_doctype(data: bytes) -> bool:
    """A DOCTYPE stands before the root element, behind comments and instructions at most; elsewhere it is text."""
    pos = len(_BOM) if data.startswith(_BOM) else 0
    while True:
        space = _SPACE.match(data, pos)
        pos = space.end() if space else pos
        if data.startswith(b"<?", pos):
            pos = data.find(b"?>", pos) + 2
        elif data.startswith(b"<!--", pos):
            pos = data.find(b"-->", pos + 4) + 3
        else:
            return data.startswith(b"<!DOCTYPE", pos)
        if pos < 4:  # never closed: the parser says so
            return False


def escape(text: str) -> str:
    """Escapes text between two tags. Raises Rejected for a character that XML cannot hold in any form."""
    if _ILLEGAL.search(text):
        raise Rejected(Reason.UNTRANSLATABLE, "a character that XML does not have")
    return text.translate(_ESCAPES)


def local_name(element: etree._Element) -> str:
    return str(element.tag).rpartition("}")[2]


def outer_text(element: etree._Element) -> str:
    """Returns the element as XML, on its own."""
    return etree.tostring(element, encoding="unicode", with_tail=False)
