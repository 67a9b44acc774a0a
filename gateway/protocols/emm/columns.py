"""The common packets of a raw record, read and proven all at once.

A common packet is what `scan` takes for one, whose key is known beyond doubt, whose tags are right, whose fields hold
what they must, and which is fresh. `CommonPackets` returns columns of these; every other packet is left to the plain
path, which knows all rules and says what is wrong. So this module may leave a packet out for any reason. A packet that
is forged and otherwise common is refused here, because there may be 50,000 of them a second.

Invariants
1. What is returned says of each packet, refused ones too, what `mapping.to_event` says of it. The tests hold both to
   that.
2. Tags are compared by `auth.verification` alone, all of a record at once, in constant time.
3. JSON bodies are checked together with a text between them that no sender can know: whoever leaves a string or a
   bracket open swallows it, and the record is checked body by body.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gateway.auth.keyring import KEY_ID_BYTES, NODE_BYTES, Key, unknown_key
from gateway.auth.verification import (
    ED25519_SIGNATURE_BYTES,
    HMAC_BYTES,
    TagMaker,
    hmac_maker,
    wrong_tags,
)
from gateway.core.content import JSON_DECODER, MAX_DEPTH
from gateway.core.event import SECOND_US
from gateway.core.reasons import Reason, Rejected
from gateway.protocols.emm.body import single_content
from gateway.protocols.emm.frames import HEADER_BYTES, MAX_FIELD_BYTES, MESSAGE_ID_BYTES, FieldType
from gateway.protocols.emm.layouts import REPEAT_KEY_BYTES, TIMESTAMP_AT, Layout, Layouts
from gateway.protocols.emm.mapping import LATEST_SECONDS
from gateway.protocols.emm.options import EmmOptions
from gateway.protocols.emm.rules import check_encoding
from gateway.protocols.emm.signing import is_signed_by
from gateway.protocols.spec import CodecContext, CommonFrames, Options
from gateway.records.raw_log.container import RecordColumns

_NAME = HEADER_BYTES + 2
_TIMESTAMP_BYTES = np.arange(8)
_JSON, _STRING = FieldType.JSON.value, FieldType.STRING.value
_NUMBERS = (FieldType.INTEGER.value, FieldType.FLOAT.value)
_WRONG = b"!"
"""No tag is one byte long."""
_UNKNOWN_KEY, _BAD_HMAC, _BAD_SIGNATURE = unknown_key(), Rejected(Reason.BAD_HMAC), Rejected(Reason.BAD_SIGNATURE)


class _Known(NamedTuple):
    """A key that packets name. It holds from `begin` until before `end`, in microseconds."""

    make_tag: TagMaker | None
    public: bytes | None
    begin: float
    end: float

    @classmethod
    def of(cls, key: Key) -> _Known:
        begin = float("-inf") if key.not_before is None else key.not_before
        end = float("inf") if key.not_after is None else key.not_after
        return cls(None if key.hmac is None else hmac_maker(key.hmac), key.ed25519, begin, end)


class _Proofs(NamedTuple):
    """The proofs that the one loop over the packets finds. `wrong` has the places of those that are not proven."""

    flows: list[bytes]
    bodies: list[bytes]
    wrong: list[int]


class CommonPackets:
    """Reads common packets with the keys and settings of one Env.

    Args:
        nonce: letters and digits that no sender can know.
    """

    def __init__(self, env: CodecContext, nonce: str) -> None:
        self._env = env
        self._nonce = nonce
        self._separator = f',"{nonce}",'.encode()
        self._layouts = Layouts()
        self._keys: dict[bytes, _Known] = {}

    def read(
        self, record: RecordColumns, rows: NDArray[np.intp], options: Mapping[str, Options], /
    ) -> CommonFrames | None:
        """Returns the common packets among these rows of the record; None where there are none."""
        starts, lengths = record.starts[rows], record.lengths[rows]
        data, octets = record.data, np.frombuffer(record.data, np.uint8)
        frames = [data[start:end] for start, end in zip(starts.tolist(), (starts + lengths).tolist(), strict=True)]
        numbers = self._layouts.numbers(frames, starts, lengths, octets)
        sent = _times(octets, starts + TIMESTAMP_AT)
        is_taken = (numbers > 0) & (sent >= 0) & (sent <= LATEST_SECONDS)
        if not is_taken.all():
            rows, numbers, sent, frames = (
                rows[is_taken],
                numbers[is_taken],
                sent[is_taken],
                list(compress(frames, is_taken)),
            )
            if not frames:
                return None
        received_at = record.received_at[rows]
        layouts = [self._layouts.layouts[number] for number in numbers.tolist()]
        keys = octets.take(self._layouts.keys_at[numbers] + record.starts[rows][:, None], mode="clip").tobytes()
        repeat_keys = [keys[at : at + REPEAT_KEY_BYTES] for at in range(0, len(keys), REPEAT_KEY_BYTES)]
        received_between = record.received_between()
        proofs = self._prove(frames, layouts, *received_between)
        broken = self._make_bodies(proofs.bodies, layouts)
        stale = np.flatnonzero(~self._is_fresh(record, rows, numbers, sent, options)).tolist()
        refused = {
            int(rows[place]): verdict
            for place in set(proofs.wrong).difference(broken)
            if (verdict := self._why_wrong(frames[place], layouts[place], *received_between)) is not None
        }
        common = CommonFrames(
            rows,
            received_at,
            proofs.flows,
            repeat_keys,
            _message_ids(keys),
            (sent * SECOND_US).tolist(),
            proofs.bodies,
            frames,
            refused,
        )
        if bad := {*proofs.wrong, *broken, *stale}:
            common = common.only([place not in bad for place in range(len(common))])
        return common if len(common) or refused else None

    def _is_fresh(
        self,
        record: RecordColumns,
        rows: NDArray[np.intp],
        numbers: NDArray[np.intp],
        sent: NDArray[np.int64],
        options: Mapping[str, Options],
    ) -> NDArray[np.bool_]:
        """True for each packet that is fresh, or need not be."""
        claimed_at, claimed = self._layouts.claimed_at[numbers], sent
        if (is_signed := claimed_at > TIMESTAMP_AT).any():
            claimed = _times(np.frombuffer(record.data, np.uint8), record.starts[rows] + claimed_at)
        age = record.received_at[rows] // SECOND_US - claimed
        fresh: NDArray[np.bool_] = (
            (age <= self._env.replay_window_seconds) & (age >= -self._env.clock_skew_seconds) & (claimed >= 0)
        )
        freshness_of = [_freshness(options, source.listener) for source in record.sources]
        if freshness_of.count("required") == len(freshness_of):
            return fresh
        listener_wants = np.array(freshness_of)[record.source[rows]]
        fresh |= (listener_wants == "off") | ((listener_wants == "timestamp_only") & ~is_signed)
        return fresh

    def _prove(self, frames: Sequence[bytes], layouts: Sequence[Layout], first: int, last: int) -> _Proofs:
        """Makes the tags that the packets' keys ask for, and compares them with theirs."""
        known_keys = self._keys
        flows: list[bytes] = []
        bodies: list[bytes] = []
        made: list[bytes] = []
        received_tags: list[bytes] = []
        before: Layout | None = None
        for frame, layout in zip(frames, layouts, strict=True):
            if layout is not before:
                (
                    name_end, node, sender_end, key_id, key_id_end, signed_end, tag, tag_end, signature, data,
                    data_end, traits,
                ) = before = layout  # fmt: skip
            sender = frame[node:sender_end]
            if key_id:
                sender += frame[key_id:key_id_end]
            flows.append(frame[_NAME:name_end] + sender + traits)
            bodies.append(frame[data:data_end])
            received_tags.append(frame[tag:tag_end])
            key = known_keys.get(sender) or self._look_up(sender)
            if key is None or first < key.begin or last >= key.end:
                made.append(_WRONG)
            elif signature:
                made.append(_proven_by_signature(frame, signed_end, tag, signature, key))
            elif key.make_tag is None:
                made.append(_WRONG)
            else:
                made.append(key.make_tag(frame[:signed_end]))
        return _Proofs(flows, bodies, wrong_tags(made, received_tags))

    def _look_up(self, sender: bytes) -> _Known | None:
        """Returns the key of that name, if it is one alone. Only keys of the store are remembered."""
        named = self._named(sender)
        if len(named) != 1:
            return None
        known_key = self._keys[sender] = _Known.of(named[0])
        return known_key

    def _named(self, sender: bytes) -> tuple[Key, ...]:
        return self._env.keys.named(sender[:NODE_BYTES], sender[-KEY_ID_BYTES:] if len(sender) > NODE_BYTES else None)

    def _why_wrong(self, frame: bytes, layout: Layout, first: int, last: int) -> Rejected | None:
        """Returns why a packet that is not proven is refused; None where the plain path must find out."""
        try:
            frame[_NAME : layout.name_end].decode()
        except UnicodeDecodeError:
            return None
        sender = frame[layout.node : layout.sender_end] + frame[layout.key : layout.key_end]
        key = self._keys.get(sender)  # `_prove` has looked it up
        if key is None:
            return None if self._named(sender) else _UNKNOWN_KEY
        if first < key.begin or last >= key.end:
            return None
        if layout.tag:
            if key.make_tag is None:
                return None
            if not layout.signature or wrong_tags(
                [key.make_tag(frame[: layout.signed_end])], [frame[layout.tag : layout.tag_end]]
            ):
                return _BAD_HMAC
        return None if key.public is None else _BAD_SIGNATURE

    def _make_bodies(self, values: list[bytes], layouts: Sequence[Layout]) -> list[int]:
        """Puts bodies in the place of data fields that are not bodies as they stand. Returns the places of fields that
        do not hold what they must."""
        kinds = [layout.traits[0] for layout in layouts]
        distinct = set(kinds)
        bad: list[int] = []
        for kind in distinct:
            places: Sequence[int] = range(len(kinds))
            fields = values
            if len(distinct) > 1:
                places = [at for at, other in enumerate(kinds) if other == kind]
                fields = [values[at] for at in places]
            if kind in _NUMBERS:
                for at in places:
                    values[at] = single_content(kind, values[at])[1]
            elif kind in (_STRING, _JSON) and not self._all_hold(kind, fields):
                bad += [at for at, field in zip(places, fields, strict=True) if not _holds(kind, field)]
        return bad

    def _all_hold(self, kind: int, fields: Sequence[bytes]) -> bool:
        try:
            joined = self._separator.join(fields)
            text = joined.decode()
        except UnicodeDecodeError:
            return False
        if kind == _STRING:
            return True
        if _may_be_deep(joined):
            return False
        try:
            values = JSON_DECODER.decode(f"[{text}]")
        except (ValueError, RecursionError):
            return False
        return len(values) == 2 * len(fields) - 1 and values[1::2] == [self._nonce] * (len(fields) - 1)


def _proven_by_signature(packet: bytes, signed_end: int, tag: int, signature: int, key: _Known) -> bytes:
    """Returns the tag that is right for the packet (none, if it has none), or else a wrong one."""
    signed = packet[:signed_end]
    if tag and (key.make_tag is None or wrong_tags([key.make_tag(signed)], [packet[tag : tag + HMAC_BYTES]])):
        return _WRONG
    end = signature + ED25519_SIGNATURE_BYTES
    if key.public is None or not is_signed_by(key.public, signed, packet[signature:end]):
        return _WRONG
    return packet[tag : tag + HMAC_BYTES] if tag else b""


def _freshness(options: Mapping[str, Options], listener: str) -> str:
    """A listener that is gone leaves the defaults."""
    listener_options = options.get(listener)
    return (listener_options if isinstance(listener_options, EmmOptions) else _DEFAULTS).freshness


_DEFAULTS = EmmOptions()


def _times(octets: NDArray[np.uint8], at: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the 64-bit numbers that stand at these places; one above 2^63 is negative."""
    read = octets.take(at[:, None] + _TIMESTAMP_BYTES, mode="clip")
    numbers: NDArray[np.int64] = read.view(">i8")[:, 0].astype(np.int64)
    return numbers


def _message_ids(repeat_keys: bytes) -> list[bytes]:
    """Returns each packet's Message ID in hexadecimal digits. The keys stand side by side."""
    digits, digits_per_key = repeat_keys.hex().encode(), 2 * REPEAT_KEY_BYTES
    return [digits[end - 2 * MESSAGE_ID_BYTES : end] for end in range(digits_per_key, len(digits) + 1, digits_per_key)]


def _may_be_deep(joined: bytes) -> bool:
    """True if one of the fields may have more opening brackets than values may be deep: so many stand within the length
    of a field somewhere. (Then each field is looked at alone.)"""
    if joined.count(b"[") + joined.count(b"{") <= MAX_DEPTH:
        return False
    octets = np.frombuffer(joined, np.uint8)
    brackets = np.flatnonzero((octets | 0x20) == ord("{"))  # `[` differs from it in this bit alone
    return int((brackets[MAX_DEPTH:] - brackets[:-MAX_DEPTH]).min()) < MAX_FIELD_BYTES


def _holds(kind: int, body: bytes) -> bool:
    try:
        check_encoding(kind, body)
    except Rejected:
        return False
    return True
