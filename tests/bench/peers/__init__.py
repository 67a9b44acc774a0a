"""The same work by what one would pick instead: UDP in, a durable log, verify, deduplicate, UDP out.

    python -m tests.bench.peers.prepare     # once: a virtual environment and a Go program, in a cache folder
    python -m tests.bench.peers             # all of them, one after the other, in one table

Each contender gets the same packets from the same generator, a fresh folder, and both cores to itself.
"""
