"""The loss equation: the raw log decoded, judged and deduplicated again, and compared with what became of it."""
