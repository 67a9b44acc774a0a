"""What a listener or link of yamp can be told, beside what all take."""

from __future__ import annotations

from pydantic import Field

from gateway.protocols.spec import Options
from gateway.protocols.yamp.frames import Format


class YampOptions(Options):
    """`formats`: the serializers that are spoken, the preferred one first (a link offers that one).

    `unnamed_format`: what a peer speaks whose handshake names no serializer; without it such a peer is refused.
    """

    formats: tuple[Format, ...] = Field(default=(Format.JSON, Format.MSGPACK), min_length=1)
    unnamed_format: Format | None = None
    ping_seconds: float = Field(default=30, gt=0)
    pong_timeout_seconds: float = Field(default=10, gt=0)
