"""A mesh under load while its parts are killed, frozen, cut off and starved; and what must hold afterwards.

    publishers (hsp, acknowledged) ─► edge-0, edge-1 ─┐                       ┌─► edge-2 ─► receivers (hsp, yamp)
    devices (signed UDP, lost, repeated, reordered) ──┼─► Kafka ─► router ─►──┤
    requesters (yamp) ─► edge-1 ──────────────────────┘                       └─► edge-2 ─► a server (yamp)

edge-2 is never killed, so its sessions live through everything, and what they got can be held against what was sent:

1. Every acknowledged message has reached each of them.
2. Nothing has reached one of them twice. (A publisher that was cut off sends again what was not acknowledged, in its
   next session: that is another message, for each says which session of its publisher it is of.)
3. What one session of a publisher sent has come in its order.
4. What was accepted by UDP has come, whatever was lost before it was.
5. Nobody was told that nobody serves what was served all the time, and no server was asked the same twice.
6. `meshgate audit` balances; nothing is left behind of what was killed; handles and memory are back to normal.

`python -m tests.chaos --kills 200` is the long form; `test_short.py` kills everything once.
"""
