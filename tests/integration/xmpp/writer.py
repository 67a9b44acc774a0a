"""An XMPP user whose program is not ours: slixmpp alone, which says what it is told to."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from slixmpp import ClientXMPP, Iq, Message, Presence
from slixmpp.exceptions import IqError

from gateway.client.address import XmppAddress, peer_address
from gateway.protocols import protocols
from tests.integration.xmpp.prosody import PASSWORD

SECONDS = 30.0


def call(message_id: int, component: str, method: str, text: str = "") -> str:
    """One message of layer 1."""
    written = (
        f"<RemoteMethodCall><ComponentName>{component}</ComponentName>"
        f"<CallId>00000000-0000-4000-8000-{message_id:012}</CallId><MethodName>{method}</MethodName>"
        f'<Parameters><object type="string">{text}</object></Parameters></RemoteMethodCall>'
    )
    return f"message_id:{message_id};{base64.b64encode(written.encode()).decode()}"


def document(message: str) -> str:
    """The XML in one."""
    return base64.b64decode(message.rpartition(";")[2]).decode()


class Writer(ClientXMPP):
    """`bodies`: what the component wrote to it; `presences`: the types of what it said of itself."""

    def __init__(self, address: XmppAddress) -> None:
        super().__init__(f"{address.user}/foreign", PASSWORD)
        self.to = address.peer
        self.enable_direct_tls = self.enable_starttls = False
        self.enable_plaintext = True
        self.plugin["feature_mechanisms"].unencrypted_scram = True
        self.bodies: asyncio.Queue[str] = asyncio.Queue()
        self.presences: list[str] = []
        self.add_event_handler("message", self._message)
        self.add_event_handler("presence", self._presence)

    def _message(self, message: Message) -> None:
        self.bodies.put_nowait(message["body"])

    def _presence(self, presence: Presence) -> None:
        if presence["from"].bare == self.to:
            self.presences.append(presence["type"])

    def writes(self, body: str, kind: str = "chat") -> None:
        self.sends(f"<message type='{kind}' to='{self.to}'><body>{body}</body></message>")

    def sends(self, stanza: str) -> None:
        self.send_raw(stanza)

    async def hears(self) -> str:
        async with asyncio.timeout(SECONDS):
            return await self.bodies.get()

    async def asks(self, query: str) -> str:
        """Returns the error's condition in answer to an iq, or nothing."""
        iq: Iq = self.make_iq_get(queryxmlns=query, ito=self.to)
        try:
            await iq.send(timeout=SECONDS)  # type: ignore[no-untyped-call]
        except IqError as error:
            return str(error.condition)
        return ""


@asynccontextmanager
async def writer(url: str) -> AsyncIterator[Writer]:
    address = peer_address(protocols()["wolpertinger"], url)
    assert isinstance(address, XmppAddress)
    client = Writer(address)
    client.connect(address.host, address.port)
    await client.wait_until("session_start", SECONDS)
    client.send_presence()
    try:
        yield client
    finally:
        await client.disconnect()
