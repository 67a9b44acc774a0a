"""An XMPP server as a component sees it (XEP-0114): it asks for the secret, and passes stanzas on."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from tests.unit.edge.running import until

NAMESPACE = "{jabber:component:accept}"
DOMAIN, SECRET = "mesh.localhost", "hunter2"
ALICE = "alice@localhost"
CALL = (
    '<RemoteMethodCall xmlns="http://nerdcave.eu/wolpertinger"><ComponentName>temp</ComponentName>'
    "<CallId>f5afec97-5839-4666-b8d3-8c108b241720</CallId><MethodName>high</MethodName><Parameters/></RemoteMethodCall>"
)


def body(message_id: int, document: str = CALL) -> str:
    """One message of layer 1."""
    return f"message_id:{message_id};{base64.b64encode(document.encode()).decode()}"


@dataclass
class Stanza:
    name: str
    type: str
    sender: str
    to: str
    body: str = ""
    inner: list[str] = field(default_factory=list)


@dataclass
class XmppServer:
    """`stanzas`: what the component sent. `deaf`: it reads nothing more."""

    secret: str = SECRET
    answers: bool = True
    port: int = 0
    tries: int = 0
    stanzas: list[Stanza] = field(default_factory=list)
    footers: int = 0
    _writer: asyncio.StreamWriter | None = None

    # -- what users do -----------------------------------------------------------------------------------------

    def message(self, text: str, sender: str = f"{ALICE}/phone", kind: str = "chat", to: str = DOMAIN) -> None:
        self.sends(f"<message type='{kind}' from='{sender}' to='{to}'><body>{escape(text)}</body></message>")

    def presence(self, sender: str, kind: str = "", to: str = DOMAIN) -> None:
        self.sends(f"<presence {f'type={kind!r}' if kind else ''} from='{sender}' to='{to}'/>")

    def sends(self, stanza: str) -> None:
        assert self._writer is not None
        self._writer.write(stanza.encode())

    # -- what comes for them -----------------------------------------------------------------------------------

    def bodies(self, to: str = f"{ALICE}/phone") -> list[str]:
        return [one.body for one in self.stanzas if one.name == "message" and one.to == to and one.body]

    def presences(self, to: str = ALICE) -> list[str]:
        return [one.type for one in self.stanzas if one.name == "presence" and one.to == to]

    async def accepts(self) -> None:
        """Until a component stands."""
        await until(lambda: self._writer is not None)

    def hangs_up(self) -> None:
        assert self._writer is not None
        self._writer.transport.abort()
        self._writer = None

    def reads_not(self) -> None:
        assert self._writer is not None
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]

    def reads_again(self) -> None:
        assert self._writer is not None
        self._writer.transport.resume_reading()  # type: ignore[attr-defined]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tries += 1
        parser: ET.XMLPullParser[ET.Element] = ET.XMLPullParser(("start", "end"))
        depth = 0
        try:
            while data := await reader.read(65_536):
                parser.feed(data)
                for event, element in cast(Iterator[tuple[str, ET.Element]], parser.read_events()):
                    depth += 1 if event == "start" else -1
                    if event == "start" and depth == 1 and self.answers:
                        writer.write(
                            b"<stream:stream xmlns='jabber:component:accept' id='s1' "
                            b"xmlns:stream='http://etherx.jabber.org/streams' from='mesh.localhost'>"
                        )
                    elif event == "end" and depth == 1:
                        self._take(element, writer)
                    elif event == "end" and depth == 0:
                        self.footers += 1
                        writer.write(b"</stream:stream>")
        finally:
            writer.transport.abort()

    def _take(self, element: ET.Element, writer: asyncio.StreamWriter) -> None:
        name = element.tag.removeprefix(NAMESPACE)
        if name == "handshake":
            if element.text == hashlib.sha1(f"s1{self.secret}".encode()).hexdigest():  # noqa: S324 - XEP-0114
                writer.write(b"<handshake/>")
                self._writer = writer
            else:
                writer.write(
                    b"<stream:error><not-authorized xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>"
                    b"</stream:stream>"
                )
            return
        said = {key: element.get(key, "") for key in ("type", "from", "to")}
        text = element.findtext(f"{NAMESPACE}body") or ""
        inner = [one.tag for one in element.iter()]
        self.stanzas.append(Stanza(name, said["type"], said["from"], said["to"], text, inner))


@asynccontextmanager
async def xmpp_server(server: XmppServer | None = None, port: int = 0) -> AsyncIterator[XmppServer]:
    server = server or XmppServer()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", port)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        if server._writer is not None:
            server.hangs_up()
