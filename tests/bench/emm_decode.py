"""Measures decoding and verifying a packet, plainly and by the container, as ratios of one run.

    python -m tests.bench.emm_decode

The packet is an event of 198 bytes with a JSON body, signed by HMAC-SHA256. `hmac` is that HMAC alone over as many
bytes: what nothing can go below. `swift` finds the fields, the canonical bytes and the key, and verifies (`scan` and
`prove`); `batch` makes the events too; `plain` is the reference, packet by packet. `walk` and `scan` find the fields,
the one from field to field, the other by the packet's shape.

Last the same packet signed with Ed25519, to its event, beside the signature's verification alone.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

from gateway.auth.keyring import Key, KeyRing
from gateway.auth.verification import hmac_verifier, public_of, verify_ed25519
from gateway.core.event import Event
from gateway.protocols.emm import codec
from gateway.protocols.emm.batch import KeyMemory, prove, to_events
from gateway.protocols.emm.frames import Field, FieldType
from gateway.protocols.emm.mapping import to_event
from gateway.protocols.emm.options import EmmOptions
from gateway.protocols.emm.scan import scan, walk
from gateway.protocols.emm.signing import Signer
from gateway.protocols.spec import CodecContext
from gateway.records.raw_log.frames import FrameSource, RawFrame

CONTAINERS = (10, 100, 1_000)
ROUNDS = 25
MARK_US, HMAC_US = 1.5, 0.51
"""What `swift` may cost in containers of 1,000, on a machine where `hmac` costs that; on any other, as a ratio."""

ED25519_MARK = 1.3
"""What a packet signed so may cost up to its event, over verifying its signature and no more."""

NODE, KEY_ID, SECRET = bytes(15) + b"\1", bytes(3) + b"\1", b"k" * 32
TIMESTAMP = 1_759_190_400
OPTIONS = EmmOptions()
ENV = CodecContext(KeyRing({NODE: {KEY_ID: Key(KEY_ID, hmac=SECRET)}}))
PUBLIC_ENV = CodecContext(KeyRing({NODE: {KEY_ID: Key(KEY_ID, ed25519=public_of(SECRET))}}))
SOURCE = FrameSource("emm", "devices", "edge-0", 1, peer="192.0.2.7:40000")


def packets(count: int, signer: Signer) -> list[bytes]:
    body = b'{"celsius": 21.5, "place": "' + b"x" * 80 + b'"}'
    fields = (Field(FieldType.STRING, b"temp.high"), Field(FieldType.JSON, body))
    return [codec.encode(codec.Draft(n.to_bytes(4, "big"), TIMESTAMP, fields), signer) for n in range(count)]


def best_us(run: Callable[[], object], count: int) -> float:
    """Microseconds a packet; the best round, since noise only adds."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best / count * 1e6


def costs(data: Sequence[bytes]) -> dict[str, float]:
    raws = [RawFrame(packet, SOURCE, TIMESTAMP * 1_000_000) for packet in data]
    ids = [f"0-0-{index}" for index in range(len(raws))]
    parts = [(packet[:-34], packet[-32:]) for packet in data]
    verify, options = hmac_verifier(SECRET), {"devices": OPTIONS}

    def swift() -> object:
        return prove(data, [scan(packet) for packet in data], KeyMemory(ENV.keys, TIMESTAMP, TIMESTAMP))

    runs: dict[str, Callable[[], object]] = {
        "hmac": lambda: [verify(signed, tag) for signed, tag in parts],
        "walk": lambda: [walk(packet) for packet in data],
        "scan": lambda: [scan(packet) for packet in data],
        "swift": swift,
        "batch": lambda: to_events(raws, ids, options, ENV),
        "plain": lambda: [to_event(raw, event_id, OPTIONS, ENV) for raw, event_id in zip(raws, ids, strict=True)],
    }
    return {name: best_us(run, len(data)) for name, run in runs.items()}


def ed25519_ratio() -> float:
    data = packets(CONTAINERS[1], Signer(NODE, KEY_ID, ed25519_private=SECRET))
    raws = [RawFrame(packet, SOURCE, TIMESTAMP * 1_000_000) for packet in data]
    ids = [f"0-0-{index}" for index in range(len(raws))]
    key = public_of(SECRET)
    # The tag is the last field: two bytes before it are the field's head, and not signed.
    parts = [(packet[:-66], packet[-64:]) for packet in data]
    assert all(verify_ed25519(key, signed, tag) for signed, tag in parts)
    assert all(isinstance(one, Event) for one in to_events(raws, ids, {"devices": OPTIONS}, PUBLIC_ENV))
    bare = best_us(lambda: [verify_ed25519(key, signed, tag) for signed, tag in parts], len(data))
    whole = best_us(lambda: list(to_events(raws, ids, {"devices": OPTIONS}, PUBLIC_ENV)), len(data))
    print(f"ed25519 alone {bare:.1f} µs, to the event {whole:.1f}: {whole / bare:.2f}, the mark is {ED25519_MARK}")
    return whole / bare


def main() -> int:
    data = packets(max(CONTAINERS), Signer(NODE, KEY_ID, SECRET))
    measured = {count: costs(data[:count]) for count in CONTAINERS}
    names = list(measured[CONTAINERS[0]])
    print("µs a packet".ljust(12), *(name.rjust(11) for name in names), "swift:hmac".rjust(11), "plain:batch".rjust(12))
    for count, one in measured.items():
        ratios = f"{one['swift'] / one['hmac']:11.2f} {one['plain'] / one['batch']:12.2f}"
        print(str(count).rjust(12), *(f"{one[name]:11.2f}" for name in names), ratios)
    largest = measured[max(CONTAINERS)]
    ratio, mark = largest["swift"] / largest["hmac"], MARK_US / HMAC_US
    print(f"swift:hmac in containers of {max(CONTAINERS)}: {ratio:.2f}, the mark is {mark:.2f}")
    signed_ratio = ed25519_ratio()
    return 0 if ratio <= mark and signed_ratio <= ED25519_MARK else 1


if __name__ == "__main__":
    sys.exit(main())
