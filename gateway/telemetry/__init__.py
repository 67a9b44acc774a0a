"""What every part tells of itself: health and metrics over HTTP, how late it is, spans to a collector."""
