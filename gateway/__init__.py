"""Meshgate: one event mesh for five small messaging protocols, routed by Spark Structured Streaming."""

__version__ = "0.2.0"
