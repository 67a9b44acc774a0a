"""A client that comes back: it goes where its peer sends it, and tries again where it is asked to."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from gateway.client.errors import EndedError, UnreachableError
from gateway.client.stream import StreamClient

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 30.0
"""Between two tries, doubled from the first and with as much again at random, so that a thousand clients of an edge
that restarted do not come all at once."""

ResultT = TypeVar("ResultT")
Open = Callable[[str | None], Awaitable[StreamClient]]
"""Opens a session: where the client was told to, or at a url that its peer has named."""
Use = Callable[[StreamClient], Awaitable[ResultT]]


async def stay(open_session: Open, use: Use[ResultT], *, reconnect: bool) -> ResultT:
    """Runs `use` with a session, and begins it again with each new session, until it returns.

    Raises what ended a session, unless it was a redirect or `reconnect` says to try again.
    """
    pause, elsewhere = FIRST_PAUSE_SECONDS, None
    while True:
        try:
            client = await open_session(elsewhere)
            pause = FIRST_PAUSE_SECONDS
            try:
                return await use(client)
            finally:
                await client.close()
        except EndedError as ended:
            elsewhere = ended.redirect_url
            if elsewhere is None and not reconnect:
                raise
            log.info("%s", ended)
        except UnreachableError as unreachable:
            elsewhere = None
            if not reconnect:
                raise
            log.info("%s", unreachable)
        await asyncio.sleep(pause * random.uniform(1, 2))  # noqa: S311 - no secret
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
