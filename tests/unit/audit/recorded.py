"""A mesh's configuration and records of its raw log, made for a test."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from uuid import UUID

from gateway.auth.keyring import GatewayIdentity, Key, KeyRing
from gateway.config import Config
from gateway.config.loading import parse
from gateway.core.event import SECOND_US
from gateway.core.ids import FramePosition
from gateway.interests import changes
from gateway.interests.changes import Change, Put
from gateway.interests.interest import Interest, Verb
from gateway.protocols.emm import codec
from gateway.protocols.emm.frames import EventType, Field, FieldType
from gateway.protocols.emm.signing import Signer
from gateway.records.raw_log import control_frames
from gateway.records.raw_log.container import ContainerBuilder
from gateway.records.raw_log.control_frames import MESH, InterestChanged
from gateway.records.raw_log.frames import FrameSource, RawFrame, Replayed
from streaming_jobs.reprocess.reprocessor import Reprocessor

NODE = "6f1c2b1a-0000-4000-8000-000000000001"
KEY_ID = bytes.fromhex("00000001")
SECRET = bytes(range(32))
RECEIVED_AT = 1_760_000_000 * SECOND_US
DEVICES = FrameSource("emm", "devices", "edge-0", 7, 0, "127.0.0.1:4000")

CONFIG = """
mesh: test
kafka: {partitions: 2}
listeners:
  - {name: devices, protocol: emm, listen: "udp://127.0.0.1:5050"}
  - {name: apps, protocol: yamp, listen: "tcp://127.0.0.1:5042"}
"""
IDENTITY = GatewayIdentity(bytes(16), bytes.fromhex("000000ff"), bytes(32))


def config() -> Config:
    return parse(CONFIG, Path("meshgate.yaml"), {})


def keys() -> KeyRing:
    node = UUID(NODE).bytes
    return KeyRing({node: {KEY_ID: Key(KEY_ID, hmac=SECRET, default=True)}})


def judge(*, trusting: bool = True) -> Reprocessor:
    return Reprocessor(config(), keys() if trusting else KeyRing({}), IDENTITY)


def packet(subject: str, message_id: int = 1, *, at_us: int = RECEIVED_AT, body: str = "") -> bytes:
    fields = [Field(FieldType.STRING, subject.encode())]
    if body:
        fields.append(Field(FieldType.STRING, body.encode()))
    draft = codec.Draft(
        message_id=message_id.to_bytes(4, "big"),
        timestamp=at_us // SECOND_US,
        fields=tuple(fields),
        event_type=EventType.EVENT,
    )
    return codec.encode(draft, Signer(UUID(NODE).bytes, KEY_ID, SECRET))


def frame(data: bytes, *, at_us: int = RECEIVED_AT) -> RawFrame:
    return RawFrame(data, DEVICES, at_us)


def change(made: Change) -> RawFrame:
    data = control_frames.encode(InterestChanged(changes.to_bytes(made).decode()))
    return RawFrame(data, FrameSource(MESH, "", "router", 0), RECEIVED_AT)


def subscription(pattern: str, session: int = 3) -> Put:
    return Put(
        Interest(
            subscriber=f"edge-0.7.{session}", verb=Verb.SUBSCRIBE, pattern=pattern, edge="edge-0", epoch=7,
            session=session, protocol="yamp", listener="apps", facts={"format": "json"}, node=f"cn:{session}",
            position=FramePosition(0, session, 0),
        )
    )  # fmt: skip


def record(frames: Iterable[RawFrame], agains: dict[int, Replayed] | None = None, *, epoch: int = 7) -> bytes:
    builder = ContainerBuilder("edge-0", epoch)
    for at, one in enumerate(frames):
        if again := (agains or {}).get(at):
            builder.add_again(one, again)
        else:
            builder.add(one.source, one.received_at, one.data)
    return builder.build()
