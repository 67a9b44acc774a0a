"""The options of a listener or link of yamp, beside those of every protocol."""

from __future__ import annotations

from pydantic import Field

from gateway.protocols.spec import Options
from gateway.protocols.yamp.frames import Format


class YampOptions(Options):
    """A listener or link of yamp takes these settings beside those that all take."""

    formats: tuple[Format, ...] = Field(default=(Format.JSON, Format.MSGPACK), min_length=1)
    """These serializers are spoken, the preferred one first; a link offers that one."""
    unnamed_format: Format | None = None
    """A peer whose handshake names no serializer speaks this one; without it such a peer is refused."""
    ping_seconds: float = Field(default=30, gt=0)
    """A peer that has said nothing for so long is asked whether it is there."""
    pong_timeout_seconds: float = Field(default=10, gt=0)
    """A peer that does not answer a ping within this time is gone, and its session ends."""
