"""Keys that are made, followed by others and revoked on the command line while the mesh runs."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from gateway.client import PacketKey, find_key
from gateway.protocols.emm import codec
from gateway.protocols.emm.frames import Field, FieldType
from tests.integration.mesh import TestMesh, wait_until
from tests.integration.topic import following, header

LOOK_SECONDS = 0.5
ALL_KINDS = ("--kind", "hmac", "--kind", "ed25519", "--kind", "encryption")


def keys(mesh: TestMesh, *arguments: str) -> str:
    said = mesh.command("keys", *arguments, "--output", "json")
    assert said.returncode == 0, said.stderr
    return said.stdout


@dataclass
class Sender:
    """Sends packets of a node, each with a subject of its own."""

    mesh: TestMesh
    node: str = field(default_factory=lambda: str(uuid4()))
    _numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def sends(self, key: PacketKey) -> str:
        """Its subject."""
        subject = f"keys.{self.node}.{next(self._numbers)}"
        fields = (Field(FieldType.STRING, subject.encode()),)
        packet = codec.encode(codec.Draft(os.urandom(4), int(time.time()), fields), key.signer)
        self._socket.sendto(packet, ("127.0.0.1", self.mesh.ports["devices"]))
        return subject

    def until(self, key: PacketKey, what: str, find: Callable[..., Any], fits: Callable[[Any, str], bool]) -> None:
        """Sends one packet after another until what it looks for is said of one of them."""

        def is_said() -> bool:
            subject = self.sends(key)
            with suppress(AssertionError):
                return bool(find(lambda record: fits(record, subject), LOOK_SECONDS))
            return False

        wait_until(is_said, what)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def sender(mesh: TestMesh) -> Iterator[Sender]:
    one = Sender(mesh)
    yield one
    one.close()


def is_event(record: Any, subject: str) -> bool:
    return header(record, "ce_subject") == subject


def is_expired(record: Any, subject: str) -> bool:
    return subject.encode() in record.value and header(record, "reason") == "expired_key"


def test_a_key_holds_soon_beside_its_successor_and_until_it_is_revoked(mesh: TestMesh, sender: Sender) -> None:
    with following(mesh, "events") as event, following(mesh, "rejected") as refusal:
        made = keys(mesh, "new", sender.node, *ALL_KINDS)
        old = find_key(made)
        sender.until(old, "the new key holds", event, is_event)
        new = find_key(keys(mesh, "rotate", sender.node))
        sender.until(new, "its successor holds", event, is_event)
        sender.until(old, "and it holds beside it", event, is_event)
        keys(mesh, "revoke", sender.node, json.loads(made)["key_id"])
        sender.until(old, "the revoked key holds no more", refusal, is_expired)
        sender.until(new, "its successor still does", event, is_event)


@pytest.mark.parametrize("algorithm", ["aes-256-gcm", "chacha20-poly1305"])
def test_pub_signs_encrypts_compresses_and_marks_as_urgent(
    mesh: TestMesh, sender: Sender, tmp_path: Path, algorithm: str
) -> None:
    file = tmp_path / "key.json"
    file.write_text(keys(mesh, "new", sender.node, *ALL_KINDS))
    wrapping = ("--encrypt", algorithm, "--compress", "--urgent")
    with following(mesh, "events") as find:
        sender.until(find_key(str(file)), "the new key holds", find, is_event)
        where = ("--via", "emm", "--to", f"127.0.0.1:{mesh.ports['open']}", "--key", str(file))
        said = mesh.command("pub", f"keys.sealed.{algorithm}", '{"a":1}', *where, *wrapping)
        assert said.returncode == 0, said.stderr
        record = find(lambda one: is_event(one, f"keys.sealed.{algorithm}"))
    assert json.loads(record.value) == {"a": 1}
    assert header(record, "ce_meshauth") == "hmac+ed25519"
    assert header(record, "ce_meshurgent") == "true"
