"""A foreign hsp peer: the PyPI package `hsp` 0.1.0, driven by lines on stdin and telling by lines on stdout.

It needs an environment of its own, with `hsp==0.1.0`, `trio==0.13.0` and `attrs`:

    python hsp_peer.py connect HOST:PORT      a client
    python hsp_peer.py listen HOST:PORT       a server of one connection; port 0 is any

    in                             out
    send TYPE HEX                  -                                   DATA
    ask NAME TYPE HEX              acked NAME | error NAME TYPE HEX | undefined NAME       DATA_ACK, and what it got
    ping NAME                      pong NAME
    answer ack                     data TYPE HEX for each message that comes; it is acknowledged
    answer body TYPE HEX           likewise, after a DATA
    answer error TYPE HEX          likewise, but refused with an ERROR
    answer undefined               likewise, with an ERROR_UNDEF
    answer later                   data TYPE HEX; answered, oldest first, by each following `answer …`
    quit                           -
                                   listening PORT | connected | closed WHY

HEX of nothing is `-`. What is known of how it behaves on the wire, beside the text:

- its message ids begin at 0, and a freed id is used again at once;
- it reads only while it waits: for data, for a pong or for an acknowledgement. A program that only sends does not
  answer a PING, so such a peer needs a longer `ping_seconds` at the listener;
- it reads nothing more until the message it has just given to the program is answered: a PING behind it waits too;
- a payload of exactly 1 MiB is one byte too long for it, an error's of exactly 64 KiB too.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import Any

import hsp  # type: ignore[import-not-found]
import trio  # type: ignore[import-not-found]


def tell(*words: object) -> None:
    print(*words, flush=True)


def from_hex(text: str) -> bytes:
    return b"" if text == "-" else bytes.fromhex(text)


def to_hex(data: bytes) -> str:
    return data.hex() or "-"


class Peer:
    def __init__(self, connection: Any, nursery: Any) -> None:
        self._connection = connection
        self._nursery = nursery
        self._answer = ["ack"]
        self._waiting: deque[Any] = deque()

    async def receive(self) -> None:
        while True:
            data = await self._connection.recv()
            tell("data", data.msg_type, to_hex(data.payload))
            if self._answer == ["later"]:
                self._waiting.append(data)
                data.unblock()
            else:
                self._respond(data)

    def _respond(self, data: Any) -> None:
        match self._answer:
            case ["ack"]:
                data.ack()
            case ["body", type_, payload]:
                self._connection.send(int(type_), from_hex(payload))
                data.ack()
            case ["undefined"]:
                data.error()
            case ["error", type_, payload]:
                data.error(int(type_), from_hex(payload))

    async def obey(self) -> None:
        """Until stdin ends or says so."""
        while line := await trio.run_sync_in_worker_thread(sys.stdin.readline, cancellable=True):
            match line.split():
                case ["send", type_, payload]:
                    self._connection.send(int(type_), from_hex(payload))
                case ["ask", name, type_, payload]:
                    self._nursery.start_soon(self._ask, name, int(type_), from_hex(payload))
                case ["ping", name]:
                    self._nursery.start_soon(self._ping, name)
                case ["answer", *how]:
                    self._answer = how
                    if self._waiting and how != ["later"]:
                        self._respond(self._waiting.popleft())
                        self._answer = ["later"] if self._waiting else how
                case ["quit"]:
                    return

    async def _ask(self, name: str, type_: int, payload: bytes) -> None:
        try:
            await self._connection.send_ack(type_, payload)
        except hsp.DataError as refused:
            if refused.code is None:
                tell("undefined", name)
            else:
                tell("error", name, refused.code, to_hex(refused.payload))
        else:
            tell("acked", name)

    async def _ping(self, name: str) -> None:
        await self._connection.ping()
        tell("pong", name)


async def speak(stream: Any) -> None:
    tell("connected")
    leaving = False
    try:
        async with (
            trio.open_nursery() as nursery,
            hsp.StreamBuffer(stream, nursery) as buffer,
            hsp.HspConnection(buffer, nursery) as connection,
        ):
            peer = Peer(connection, nursery)
            nursery.start_soon(peer.receive)
            await peer.obey()
            leaving = True
            nursery.cancel_scope.cancel()
    except (Exception, trio.MultiError) as error:
        # It also raises when it is told to leave while it reads, which is always.
        tell("closed", "quit" if leaving else first_cause(error))


def first_cause(error: BaseException) -> str:
    """Several of its tasks may fail of one thing; what the first says is enough."""
    while isinstance(error, trio.MultiError):
        error = error.exceptions[0]
    return type(error).__name__


async def main(mode: str, address: str) -> None:
    host, _, port = address.rpartition(":")
    if mode == "connect":
        await speak(await trio.open_tcp_stream(host, int(port)))
        return
    (listener,) = await trio.open_tcp_listeners(int(port), host=host)
    tell("listening", listener.socket.getsockname()[1])
    stream = await listener.accept()
    await listener.aclose()
    await speak(stream)


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
