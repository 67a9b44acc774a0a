"""Load for a mesh, and what became of it: `meshgate bench`.

The load is *open-loop*: each frame is due at a time that was fixed before the run, and its latency counts from then,
however late it was sent. A mesh that stalls for a second so pays for each frame of that second, and not only for the
one that a closed loop would have waited for.

    measure ──┬── generator, a process of its own: frames made beforehand, sent as they fall due
              ├── receiver, another: notes (index, time) of each frame that comes, and nothing else
              └── watches the mesh's processes meanwhile, then does the sums: accounting ──► report, plot, comparison

Generator and receiver share the machine's monotonic clock, so no frame needs to carry a time: its index says when it
was due.
"""
