"""Frames of the past under today's code, rules and keys, by the row functions that the router uses."""
