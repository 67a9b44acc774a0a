"""A protocol is one `ProtocolSpec` to the rest of the gateway, made in the protocol's own folder.

Everything in it is pure: bytes in, values out. The edge uses `session`; the router's workers use the mapping.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from gateway.auth.keyring import GatewayIdentity, KeyRing
from gateway.core.event import Event
from gateway.core.reasons import Rejected
from gateway.core.section import Section
from gateway.protocols.session import Session
from gateway.protocols.session_settings import SessionSettings
from gateway.records.egress import NO_FRAME
from gateway.records.raw_log.container import RecordColumns
from gateway.records.raw_log.frames import NO_FACTS, Facts, RawFrame


class Options(Section):
    """The keys a listener or link of one protocol takes beside those that all take. Subclassed by each protocol."""

    @property
    def confirmed_within_seconds(self) -> float:
        """The time after which a delivery is confirmed or given up; 0 if it counts as soon as it is written."""
        return 0.0

    @property
    def admits_unproven(self) -> bool:
        """True if frames are taken from peers that have not proven who they are."""
        return True

    def for_router(self) -> Self:
        """Returns the options that decoding and encoding need, without the secrets that only a session uses."""
        return self


OptionsT = TypeVar("OptionsT", bound=Options)
OptionsT_contra = TypeVar("OptionsT_contra", bound=Options, contravariant=True)


@dataclass(frozen=True, slots=True)
class CodecContext:
    """The context that judging and encoding a frame needs beside the frame itself."""

    keys: KeyRing
    identity: GatewayIdentity | None = None
    replay_window_seconds: int = 300
    clock_skew_seconds: int = 120


@dataclass(frozen=True, slots=True)
class Target:
    """The target of an encoding. Destinations with equal targets share one encoding.

    `request` is the requester's own id, for answers and for nothing else.
    `progressive`: the requester asked for progress.
    `again_at`: when the event was put in again (redrive, replay), in microseconds; None for what is sent as it comes.
    """

    protocol: str
    listener: str
    facts: Facts = field(default_factory=lambda: NO_FACTS)
    request: str = ""
    progressive: bool = True
    again_at: int | None = None


@dataclass(slots=True)
class Encoded:
    """A frame for a peer. `stamps`: where the session writes the id of its own connection (width: the protocol's).
    Not to be changed once made.

    `losses` names what the peer's protocol cannot say (`body`, `progress`, ...).
    """

    frame: bytes
    stamps: tuple[int, ...] = ()
    losses: tuple[str, ...] = ()

    @classmethod
    def nothing(cls, loss: str) -> Encoded:
        """Returns the encoding of an event for which the peer's protocol has no form."""
        return cls(NO_FRAME, losses=(loss,))

    @property
    def says_nothing(self) -> bool:
        return self.frame == NO_FRAME


class ToEvent(Protocol[OptionsT_contra]):
    def __call__(self, raw: RawFrame, event_id: str, options: OptionsT_contra, env: CodecContext, /) -> Event:
        """The event in a frame; raises Rejected."""


class ToEvents(Protocol):
    def __call__(
        self, raws: Sequence[RawFrame], event_ids: Sequence[str], options: Mapping[str, Options], env: CodecContext, /
    ) -> list[Event | Rejected]:
        """A whole container at once; `options` by listener. Must agree with ToEvent frame by frame."""


@dataclass(slots=True)
class CommonFrames:
    """Frames of one record that are plain events of proven nodes, in columns with an item for each.

    Only what is beyond doubt stands here: for each of these frames `to_event` makes an event without headers, or it
    refuses all frames of the same flow for what they have in common.

    Args:
        rows: their indexes in the record, ascending.
        flows: two frames of one source have the same flow only if their events differ in nothing but id, times,
            message id and body.
        repeat_keys: by which repeats are known.
        message_ids: as text.
        sent_at: in microseconds.
        bodies: a body of the type JSON has been found to be that.
        refused: frames that `to_event` refuses beyond doubt, by their indexes in the record; they stand in no column.
    """

    rows: NDArray[np.intp]
    received_at: NDArray[np.int64]
    flows: list[bytes]
    repeat_keys: list[bytes]
    message_ids: list[bytes]
    sent_at: list[int]
    bodies: list[bytes]
    frames: list[bytes]
    refused: Mapping[int, Rejected] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.frames)

    def only(self, is_kept: Sequence[bool]) -> CommonFrames:
        """Returns the frames for which `is_kept` is true."""
        kept_rows = np.array(is_kept, bool)
        return CommonFrames(
            self.rows[kept_rows],
            self.received_at[kept_rows],
            list(compress(self.flows, is_kept)),
            list(compress(self.repeat_keys, is_kept)),
            list(compress(self.message_ids, is_kept)),
            list(compress(self.sent_at, is_kept)),
            list(compress(self.bodies, is_kept)),
            list(compress(self.frames, is_kept)),
            self.refused,
        )


class CommonReader(Protocol):
    """Reads the frames of a record that are beyond doubt, with the keys and settings of one Env."""

    def read(
        self, record: RecordColumns, rows: NDArray[np.intp], options: Mapping[str, Options], /
    ) -> CommonFrames | None:
        """Returns the common frames among these rows, which are all of this protocol; None where there are none, and
        none that is refused beyond doubt. `options` has those of each listener."""


class ReadsCommon(Protocol):
    def __call__(self, env: CodecContext, nonce: str, /) -> CommonReader:
        """Returns a reader. `nonce`: letters and digits that no sender can know."""


class FromEvent(Protocol[OptionsT_contra]):
    def __call__(self, event: Event, target: Target, options: OptionsT_contra, env: CodecContext, /) -> Encoded:
        """The frame for a target; raises Rejected (untranslatable, too_large, no_responder)."""


class DedupKey(Protocol[OptionsT_contra]):
    def __call__(self, event: Event, options: OptionsT_contra, /) -> str | None:
        """Returns the key by which a repeat is the same event; None if the protocol has no such key."""


class AwaitsConfirmation(Protocol[OptionsT_contra]):
    def __call__(self, event: Event, options: OptionsT_contra, /) -> bool:
        """The sender of this event, which is no request, waits to hear what became of it. It is answered under the
        event's message id: once every subscriber's session has confirmed it, or with an error."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease is asked for by a presence packet of a protocol without sessions. It holds for `seconds` from its
    receipt.

    `renews`: the packet only prolongs what was asked for before. `keeps`: it asks for just that again, where it is now.
    """

    seconds: int
    subscribe: tuple[str, ...] = ()
    serve: tuple[str, ...] = ()
    renews: bool = False
    keeps: bool = False


class AskedLease(Protocol[OptionsT_contra]):
    def __call__(self, event: Event, options: OptionsT_contra, /) -> Lease | None:
        """The lease that an event asks for, if it is a presence packet."""


class GrantLease(Protocol):
    def __call__(self, event: Event, lease: Lease, env: CodecContext, /) -> bytes:
        """The frame that tells the sender what it has been granted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolSpec(Generic[OptionsT]):
    """A protocol as the gateway knows it. `session` is None for a protocol of datagrams.

    `text_messages`: over a WebSocket its messages are text; those of all others are binary.

    `calls_may_be_events`: a request that nobody serves but somebody subscribes to is an event, and no answer is owed.
    """

    name: str
    default_port: int
    transports: frozenset[str]
    options: type[OptionsT]
    to_event: ToEvent[OptionsT]
    from_event: FromEvent[OptionsT]
    dedup_key: DedupKey[OptionsT]
    session: Callable[[SessionSettings, OptionsT], Session] | None = None
    to_events: ToEvents | None = None
    reads_common: ReadsCommon | None = None
    text_messages: bool = False
    calls_may_be_events: bool = False
    message_id_bits: int | None = None
    """The length of the random ids by which repeats are known, if it is so short that honest ones collide."""
    carries_content_type: bool = False
    """Its frames name the type of their body; so an event's trail over links travels there."""
    error_header: str = ""
    """The header in which its errors keep a code that their body does not say, for requesters who speak it too: told to
    nobody else, and counted as lost."""
    examples: Mapping[str, Target] = field(default_factory=dict)
    """Kinds of receivers this protocol has, by a title, each with the id a request of theirs may have: for what is
    written about the protocol. Empty: there is one kind, and any id will do."""
    awaits_confirmation: AwaitsConfirmation[OptionsT] | None = None
    asked_lease: AskedLease[OptionsT] | None = None
    grant_lease: GrantLease | None = None
    partition_key: Callable[[bytes], bytes] | None = None
    """Datagram protocols: the bytes that decide the raw partition, peeked and not judged (b"" if there are none)."""
    claimed_node: Callable[[bytes], str] = field(default=lambda _frame: "")
    """Datagram protocols: the node that a frame claims to be from, which is not verified yet; "" if it names none."""
