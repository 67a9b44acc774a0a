"""Fuzzing: any input parses or raises the one documented error, within a bound of time and memory.

    seeds + corpora ──► mutation ──► a target's check ──► crash? ──► smallest input that still crashes ──► corpora

`pytest tests/fuzz` runs a fixed number of inputs, the same ones each time. `python -m tests.fuzz --minutes 60` goes on
with new ones and says how many each target took. With `--guided` coverage chooses the inputs (`guided.py`).
"""
