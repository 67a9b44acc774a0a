"""The examples of wolpertinger for the contract: its messages are lines, and none of them ends a session."""

from __future__ import annotations

import base64

from tests.unit.protocols.contract.streams import GOES_ON, Examples

CALL_ID = "f5afec97-5839-4666-b8d3-8c108b241720"
NAMESPACE = "http://nerdcave.eu/wolpertinger"


def line(document: str, message_id: int = 1) -> bytes:
    return b"message_id:%d;%s\n" % (message_id, base64.b64encode(document.encode()))


def call(padding: int = 0) -> str:
    return (
        f'<RemoteMethodCall xmlns="{NAMESPACE}"><ComponentName>Orders</ComponentName><CallId>{CALL_ID}</CallId>'
        f"<MethodName>Create</MethodName><Parameters/></RemoteMethodCall>{' ' * padding}"
    )


def sized(size: int) -> bytes:
    """A call in a line of that size; its end does not count."""
    id_digits = (size - len("message_id:;")) % 4 or 4
    characters = size - len("message_id:;") - id_digits
    return line(call(characters // 4 * 3 - len(call())), 10 ** (id_digits - 1))


FRAMES = {
    "call": line(call()),
    "call to Authentication": line(call().replace("Orders", "Authentication").replace("Create", "EstablishConnection")),
    "response": line(
        f'<RemoteMethodResponse xmlns="{NAMESPACE}"><ComponentName>Orders</ComponentName><CallId>{CALL_ID}</CallId>'
        '<ResponseValue><object type="boolean">True</object></ResponseValue></RemoteMethodResponse>'
    ),
    "another root": line("<Nothing/>"),
    "no XML": line("nothing"),
    "confirmation": b"result:0;message_id:1;\n",
    "a fragment": b"message_id:8;fragment_count:2;fragment_index:0;aGVs\n",
    "an impossible fragment": b"message_id:9;fragment_count:2;fragment_index:2;bG8=\n",
    "no length": b"message_id:6;gzip:abc;aGVsbG8=\n",
    "encrypted": b"message_id:7;encryption:aes;aGVsbG8=\n",
    "no message": b"\x00\xff\n",
    "an empty line": b"\n",
}

EXAMPLES = Examples(
    opening=b"",
    frames=FRAMES,
    states={"open": b""},
    walk={"open": dict.fromkeys(FRAMES, GOES_ON)},
    sized=sized,
    refused_after=lambda limit: limit + 1,
    limited=lambda limit: {"line_bytes": limit},
)
