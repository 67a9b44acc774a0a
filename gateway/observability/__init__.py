"""The telemetry of every part: health and metrics over HTTP, its lag, and spans to a collector."""
