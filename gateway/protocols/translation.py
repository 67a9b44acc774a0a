"""Shows what a receiver of each protocol gets of each kind of event, by asking the mappings themselves.

`python -m gateway.protocols.translation` prints the page TRANSLATION.md beside this file; a test says when it drifts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gateway.auth.keyring import GatewayIdentity, KeyRing
from gateway.core.content import JSON
from gateway.core.event import Event, Kind
from gateway.core.reasons import Rejected
from gateway.protocols import protocols
from gateway.protocols.spec import CodecContext, Target

_BODY = b'{"celsius":21.5}'
_ENV = CodecContext(KeyRing(), GatewayIdentity(b"\1" * 16, b"\0\0\0\1", b"\2" * 32))
_HEAD = """# What each receiver gets

Made by `python -m gateway.protocols.translation` from the mappings themselves. A row is what was sent, whatever it was
sent with; a column is who receives it. *Lost* is what cannot be carried: it is dropped and counted in
`meshgate_translation_losses_total{from,to,what}`. What *never* has a form there, or has none this time (`too_large` for
a datagram), is refused, and counted there too with the reason as `what`. A request that has no form at its server is
answered with an error. An empty body stays empty, and is `null` or `c0` towards yamp. The type of an hsp error is told
to who asked in plain hsp alone, and lost to others as `code`.

"""


def page() -> str:
    receivers = dict(_receivers())
    lines = [f"| sent \\ received | {' | '.join(receivers)} |", "|---" * (len(receivers) + 1) + "|"]
    for kind in Kind:
        cells = [_outcome(kind, target) for target in receivers.values()]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return _HEAD + "\n".join(lines) + "\n"


def _receivers() -> Iterator[tuple[str, Target]]:
    for name, spec in sorted(protocols().items()):
        yield from (spec.examples or {name: Target(name, "", request="7")}).items()


def _outcome(kind: Kind, example: Target) -> str:
    spec = protocols()[example.protocol]
    event = Event(
        id="0-0-0",
        kind=kind,
        subject="Kitchen.temperature",
        protocol="any",
        received_at=1_000_000_000_000_000,
        correlation="7",
        content_type=JSON,
        body=_BODY,
    )
    target = example if kind.answers else replace(example, request="")
    try:
        encoded = spec.from_event(event, target, spec.options(), _ENV)
    except Rejected as refused:
        return f"never: `{refused.reason}`"
    if encoded.says_nothing:
        return "nothing"
    return f"lost: {', '.join(encoded.losses)}" if encoded.losses else "whole"


if __name__ == "__main__":
    print(page(), end="")
