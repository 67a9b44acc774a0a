"""The mesh as it is now: who is connected, who wants what, what flows, and the frames that pass."""
