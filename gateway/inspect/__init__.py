"""Reads what has passed (`history`) and what runs now (`live`), without being part of it."""
